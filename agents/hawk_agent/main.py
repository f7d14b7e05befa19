"""`hawk-agent`: the node agent's command line. Its options are the fields of AgentSettings."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from hawk_agent.errors import HawkAgentError
from hawk_agent.service.settings import AgentSettings
from hawk_api.settings import SettingsError
from hawk_kube.errors import ConfigError, KubeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hawk_agent.supervision import Work
    from hawk_agent.transports.registry import TransportRegistry
    from hawk_kube.client import Client
    from hawk_kube.threads import AsyncClient

log = logging.getLogger("hawk_agent")


async def _serve(settings: AgentSettings, registry: TransportRegistry | None) -> None:
    from hawk_agent.service.agent import NodeAgent  # noqa: PLC0415 -- after --help
    from hawk_agent.service.http import HttpServer  # noqa: PLC0415

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with contextlib.AsyncExitStack() as stack:
        kube = _Kube(stack)
        keep_identity: Work | None = None
        if settings.identity == "kubernetes":
            keep_identity = await _enrol(kube, settings)
        reviewer = None
        if settings.engine_auth == "token":
            from hawk_agent.kube.tokens import TokenReviewer  # noqa: PLC0415 -- in a cluster only

            reviewer = TokenReviewer(kube.client())
        agent = NodeAgent(settings, registry=registry, reviewer=reviewer)
        await agent.start()
        stack.push_async_callback(agent.stop)
        if keep_identity is not None:
            agent.supervisor.keep("keeping the certificate", keep_identity)
        if settings.device_plugins is not None:
            from hawk_agent.kube.device_plugin import DevicePlugin  # noqa: PLC0415 -- in a cluster only

            plugin = DevicePlugin(settings.device_plugins, settings.socket.parent)
            agent.supervisor.keep("serving the kubelet", plugin.run)
        http = HttpServer(settings.metrics_address, agent.metrics.registry, agent.unhealthy)
        await http.start()
        stack.push_async_callback(http.close)
        if settings.kube:
            from hawk_agent.kube.api import NodeApi  # noqa: PLC0415 -- in a cluster only
            from hawk_agent.kube.publisher import Publisher  # noqa: PLC0415

            publisher = Publisher(agent, NodeApi(kube.client(), settings.node, settings.system_namespace))
            await publisher.start()
            stack.push_async_callback(publisher.close)
        log.info("metrics at %s", http.address)
        await stopping.wait()
        log.info("stopping")


class _Kube:
    """Clients of the cluster, for the parts that need one: one configuration and its connections for all of
    them, threads for each."""

    def __init__(self, stack: contextlib.AsyncExitStack) -> None:
        self._stack = stack
        self._shared: Client | None = None

    def client(self) -> AsyncClient:
        """Another one, closed with the stack. Raises ConfigError."""
        from hawk_kube.client import connect_client  # noqa: PLC0415 -- in a cluster only
        from hawk_kube.threads import AsyncClient  # noqa: PLC0415

        if self._shared is None:
            self._shared = connect_client("hawk-agent")
        made = AsyncClient(self._shared)
        self._stack.push_async_callback(made.close)
        return made


async def _enrol(kube: _Kube, settings: AgentSettings) -> Work:
    """Get a certificate from the cluster before talking to anybody. Returns what keeps it valid."""
    import time  # noqa: PLC0415

    from hawk_agent import identity  # noqa: PLC0415 -- cryptography, with TLS only

    assert settings.tls is not None  # by the settings' own check
    cluster = identity.Cluster(kube.client(), settings.system_namespace)
    await identity.ensure_identity(cluster, settings.node, settings.tls, time.time)
    return partial(identity.keep_identity, cluster, settings.node, settings.tls, time.time)


def _raise_descriptor_limit() -> None:
    """As many descriptors as this process may have: a push of 80 layers brings as many events along."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main(arguments: Sequence[str] | None = None, *, registry: TransportRegistry | None = None) -> None:
    """Run until SIGTERM or SIGINT. Exit 2 for bad options, 1 when the agent can't start.

    `registry` has the data paths that there are; by default those of the installed packages.
    """
    try:
        settings = AgentSettings.read(sys.argv[1:] if arguments is None else arguments)
    except SettingsError as error:
        print(error.said(), file=sys.stderr)
        sys.exit(2)
    logging.basicConfig(
        level=settings.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("urllib3").setLevel(logging.WARNING)  # a line a call; a Lease is renewed every 10 s
    _raise_descriptor_limit()
    try:
        asyncio.run(_serve(settings, registry))
    except ConfigError as error:
        print(f"error: {error}; outside a cluster use --no-kube", file=sys.stderr)
        sys.exit(1)
    except (HawkAgentError, KubeError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
