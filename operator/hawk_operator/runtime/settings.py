"""What the operator process is told from outside: flags, each with an environment variable.

Everything else (how often a pool is looked at, how long a drain may take) belongs to the pool and is
read from its spec.
"""

from __future__ import annotations

import argparse
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Settings:
    """The operator's own settings; durations are seconds."""

    namespace: str = ""
    """The one namespace whose pools are served; empty for all of them."""

    system_namespace: str = "hawk-system"
    """Where the Leases live: the operator's own and one for each agent."""

    bind_address: str = "0.0.0.0"  # noqa: S104 - a kubelet probes from outside the pod
    """The address of /metrics, /healthz and /readyz."""

    metrics_port: int = 8080
    """Their port; 0 takes any free one (it is logged)."""

    resync: float = 30.0
    """Pools are listed this often, whatever the watch says."""

    identity: str = ""
    """Who holds the Lease; the host's name and the process id by default."""

    workers: int = 4
    """Pools reconciled at one time. A slow Prometheus blocks one of them, never all."""

    stuck_after: float = 300.0
    """/healthz fails when no list or no reconcile has succeeded for this long."""

    lease_duration: float = 15.0
    """A standby takes over when the Lease is older than this."""

    renew_deadline: float = 10.0
    """The leader stops writing when its last renewal is older than this."""

    retry_period: float = 2.0
    """Time between two looks at the Lease."""

    watch_timeout: float = 60.0
    """The API server ends each watch after this long; the client gives up ten seconds later."""

    agent_namespace: str = ""
    """Where the agents run; empty for the system namespace."""

    agent_daemon_set: str = ""
    """The DaemonSet of the agents, to say why it can't create pods; empty where there is none."""

    agent_socket_directory: str = "/run/hawk"
    """Directory of the agent's socket on each node, mounted into workers; empty mounts nothing."""

    engine_auth: str = "none"
    """token: workers get a token by which agents know their pod; none: they don't."""

    agent_service_account: str = "hawk-agent"
    """Whose certificate requests are signed."""

    ca_secret: str = "hawk-agent-ca"  # noqa: S105 - its name
    """The Secret of the signing authority."""

    trust_config_map: str = "hawk-agent-trust"
    """The ConfigMap in which the authority's certificates are published."""
    log_format: str = "text"
    """text or json."""

    verbose: bool = False
    """Log at debug level."""


class SettingsError(ValueError):
    """A flag or variable holds a value that cannot work; the message names it and the remedy."""


PREFIX: Final = "HAWK_OPERATOR_"


def parse(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Settings:
    """Read flags over environment variables over defaults.

    Raises SettingsError for values out of range; argparse itself exits with 2 for unknown flags.
    """
    environment = os.environ if environment is None else environment
    parser = _parser(environment)
    read = vars(parser.parse_args(list(arguments)))
    settings = Settings(**read)
    if not settings.identity:
        settings = Settings(**{**read, "identity": f"{socket.gethostname()}-{os.getpid()}"})
    _check(settings)
    return settings


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hawk-operator", description="Runs HawkPools: children, ratio, peers and conditions."
    )
    defaults = Settings()

    def flag(name: str, kind: type[str] | type[int] | type[float], text: str) -> None:
        default = getattr(defaults, name)
        variable = PREFIX + name.upper()
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=kind,
            default=environment.get(variable, default),
            help=f"{text} (${variable}; default {default!r})",
        )

    flag("namespace", str, "serve this namespace only; empty serves all")
    flag("system_namespace", str, "namespace of the Leases of operator and agents")
    flag("bind_address", str, "address of the metrics and health port")
    flag("metrics_port", int, "port of /metrics, /healthz and /readyz; 0 for any")
    flag("resync", float, "seconds between two lists of the pools")
    flag("identity", str, "holder name in the Lease")
    flag("workers", int, "pools reconciled at one time")
    flag("stuck_after", float, "seconds without success after which /healthz fails")
    flag("lease_duration", float, "seconds after which a standby takes over")
    flag("renew_deadline", float, "seconds after which a leader that cannot renew stops writing")
    flag("retry_period", float, "seconds between two looks at the Lease")
    flag("watch_timeout", float, "seconds after which a watch is begun anew")
    flag("agent_namespace", str, "namespace of the agents; empty for the system namespace")
    flag("agent_daemon_set", str, "DaemonSet of the agents, to say why it has no pods; empty for none")
    flag("agent_socket_directory", str, "node directory of the agent's socket, for workers; empty for none")
    flag("engine_auth", str, "token gives workers a token that the agents ask for; or none")
    flag("agent_service_account", str, "service account whose certificate requests are signed")
    flag("ca_secret", str, "Secret of the signing authority")
    flag("trust_config_map", str, "ConfigMap with the authority's certificates")
    flag("log_format", str, "text or json")
    parser.add_argument(
        "--verbose",
        action="store_true",
        default=environment.get(PREFIX + "VERBOSE", "").lower() in {"1", "true", "yes"},
        help=f"log at debug level (${PREFIX}VERBOSE)",
    )
    return parser


def _check(settings: Settings) -> None:
    for name in (
        "resync",
        "stuck_after",
        "lease_duration",
        "renew_deadline",
        "retry_period",
        "watch_timeout",
    ):
        value = getattr(settings, name)
        if not 0 < value < 86_400:
            raise SettingsError(
                f"--{name.replace('_', '-')}: {value:g} is not a number of seconds; use 0 < s < 86400"
            )
    if not settings.retry_period < settings.renew_deadline < settings.lease_duration:
        raise SettingsError(
            f"--retry-period {settings.retry_period:g}, --renew-deadline {settings.renew_deadline:g}, "
            f"--lease-duration {settings.lease_duration:g}: each must be below the next, "
            "or two operators could write at once"
        )
    if not 1 <= settings.workers <= 64:
        raise SettingsError(f"--workers: {settings.workers} is out of range; use 1 to 64")
    if not 0 <= settings.metrics_port <= 65_535:
        raise SettingsError(f"--metrics-port: {settings.metrics_port} is no port; use 0 to 65535")
    if settings.engine_auth not in {"none", "token"}:
        raise SettingsError(f"--engine-auth: {settings.engine_auth!r} is unknown; use token or none")
    if settings.log_format not in {"text", "json"}:
        raise SettingsError(f"--log-format: {settings.log_format!r} is unknown; use text or json")
