"""Settings of the operator process.

Everything else (how often a decision is made, how long a drain may take) belongs to the pool and is
read from its spec.
"""

from __future__ import annotations

import os
import socket
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_settings import SettingsConfigDict

from hawk_api.settings import ProcessSettings

Seconds = Annotated[float, Field(gt=0, lt=86_400)]


def _or_own(identity: str) -> str:
    return identity or f"{socket.gethostname()}-{os.getpid()}"


class OperatorSettings(ProcessSettings):
    """Runs HawkPools: children, ratio, peers and conditions."""

    model_config = SettingsConfigDict(env_prefix="HAWK_OPERATOR_", cli_prog_name="hawk-operator")

    namespace: str = ""
    """The one namespace whose pools are served; empty serves all."""

    system_namespace: str = "hawk-system"
    """Namespace of the Leases of operator and agents."""

    bind_address: str = "0.0.0.0"  # noqa: S104 - a kubelet probes from outside the pod
    """Address of /metrics, /healthz and /readyz."""

    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    """Port of these; 0 takes a free one, which is logged."""

    resync: Seconds = 30.0
    """Seconds between lists of the pools, in addition to watches."""

    identity: Annotated[str, AfterValidator(_or_own), Field(validate_default=True)] = ""
    """Holder in the Lease; empty is the host name and the process id."""

    workers: Annotated[int, Field(ge=1, le=64)] = 4
    """Pools reconciled concurrently; a slow Prometheus blocks one worker."""

    stuck_after: Seconds = 300.0
    """Seconds without a successful list or reconcile after which /healthz fails."""

    lease_duration: Seconds = 15.0
    """Seconds without a Lease renewal after which a standby takes over."""

    renew_deadline: Seconds = 10.0
    """Seconds after which a leader that can't renew stops writing; less than --lease-duration."""

    retry_period: Seconds = 2.0
    """Seconds between reads of the Lease; less than --renew-deadline."""

    watch_timeout: Seconds = 60.0
    """Seconds after which the API server ends a watch; the client gives up ten seconds later."""

    agent_namespace: str = ""
    """Namespace of the agents; empty is the system namespace."""

    agent_daemon_set: str = ""
    """DaemonSet of the agents, to report why it can't create pods; empty if there is none."""

    agent_socket_directory: str = "/run/hawk"
    """Directory of the agent's socket on each node, mounted into workers; empty mounts nothing."""

    agent_access: Literal["host-path", "device-plugin"] = "host-path"
    """How workers get that directory: by a hostPath volume, or by the resource hawkpool.dev/agent."""

    engine_auth: Literal["token", "none"] = "none"
    """How workers authenticate to agents: by a token bound to their pod, or not at all."""

    agent_service_account: str = "hawk-agent"
    """Service account of the agents, whose certificate requests are signed."""

    ca_secret: str = "hawk-agent-ca"  # noqa: S105 - its name
    """Secret of the signing authority."""

    trust_config_map: str = "hawk-agent-trust"
    """ConfigMap in which the authority's certificates are published."""

    log_format: Literal["text", "json"] = "text"
    """Format of log lines."""

    verbose: bool = False
    """Log at debug level."""

    @model_validator(mode="after")
    def _one_leader(self) -> Self:
        if not self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError(
                f"--retry-period {self.retry_period:g}, --renew-deadline {self.renew_deadline:g}, "
                f"--lease-duration {self.lease_duration:g}: each must be below the next, "
                "or two operators could write at once"
            )
        return self
