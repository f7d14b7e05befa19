"""`hawk-agent`: the node agent's command line.

Every option can also come from the environment as HAWK_AGENT_ and its name (`HAWK_AGENT_NODE`, ...).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hawk_agent.errors import HawkAgentError
from hawk_api import addresses, duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hawk_agent.identity import Files
    from hawk_agent.service.settings import PeerAddress, Settings
    from hawk_agent.transports.registry import TransportRegistry

log = logging.getLogger("hawk_agent")
PREFIX = "HAWK_AGENT_"


class UsageError(ValueError):
    """An option that can't be right; the message names it and the remedy."""


def parser() -> argparse.ArgumentParser:
    """All options, with defaults from the environment."""
    made = argparse.ArgumentParser("hawk-agent", description="The HawkPool node agent.")

    def option(name: str, text: str, default: str = "", **more: object) -> None:
        variable = PREFIX + name.upper().replace("-", "_")
        made.add_argument(f"--{name}", help=text, default=os.environ.get(variable, default), **more)  # type: ignore[arg-type]

    option("node", "name of this node (required)")
    option(
        "socket",
        "where engines connect, and with .peer added agents of the same host",
        "/run/hawk/agent.sock",
    )
    option("socket-mode", "permissions of that socket, octal", "660")
    option(
        "engine-auth", "token: engines show a token that is bound to their pod; none: they need not", "none"
    )
    option("listen", "host:port for peers; port 0 takes a free one", "0.0.0.0:7400")
    option("data-port", "port of the TCP data path, on the same host; 0 takes a free one", "0")
    option("advertise", "host or host:port that peers are told; the listening one without")
    option("metrics", "host:port of /metrics, /healthz and /readyz", "0.0.0.0:9400")
    option("metrics-port", "port alone, in place of --metrics")
    option("transports", "allowed data paths, best first: verbs, shm, tcp, nixl", "shm,tcp")
    option("rdma-device", "devices for verbs, a rail each, best first; without, all whose port is up")
    option("rdma-gid-index", "index in their GID tables; without, a routable RoCE v2 one")
    option("rails", "most rails of one transfer over verbs; 0 for all", "0")
    option("strategy", "how bytes go over verbs: auto (the cheapest by the cost model), or its name", "auto")
    option(
        "host-id", "identity of this machine, read from the kernel without; peers with the same share memory"
    )
    option("copy-threads", "threads for each of sending, receiving and hashing", "4")
    option("grace", "from complete to the first question whether the receiver still means it", "200ms")
    option("max-grace", "the longest hold of a source after its transfer is complete", "30s")
    option("tls-cert", "certificate file (PEM)")
    option("tls-key", "its key")
    option("tls-ca", "certificates that peers are trusted by")
    option(
        "identity",
        "files: as given; kubernetes: ask the cluster for a certificate and keep it valid",
        "files",
    )
    option("system-namespace", "namespace of HawkPool's Leases and trust", "hawk-system")
    option("log-level", "debug, info, warning or error", "info")
    made.add_argument("--peer", action="append", default=[], help="[NODE=]HOST:PORT; may be repeated")
    made.add_argument(
        "--insecure",
        action="store_true",
        default=bool(os.environ.get(PREFIX + "INSECURE")),
        help="peers without TLS: anybody on the network may write to this node's leases",
    )
    made.add_argument(
        "--kube",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="publish a HawkNode and take peers from it",
    )
    return made


def settings(options: argparse.Namespace) -> Settings:
    """Options as Settings. UsageError names the option and the remedy."""
    from hawk_agent.service.settings import Settings  # noqa: PLC0415 -- after --help
    from hawk_agent.streaming.lease import Terms  # noqa: PLC0415

    if not options.node:
        raise UsageError("--node: missing; give the node's name")
    if options.engine_auth not in {"none", "token"}:
        raise UsageError(f"--engine-auth: {options.engine_auth!r} is unknown; use token or none")
    listen = _address("--listen", options.listen)
    metrics = _address("--metrics", options.metrics)
    if options.metrics_port:
        metrics = addresses.Address(metrics.host, _number("--metrics-port", options.metrics_port, 0, 65535))
    if options.advertise:
        _address("--advertise", options.advertise, 0)
    elif listen.host in {"0.0.0.0", "::"} and (options.kube or options.peer):  # noqa: S104 -- compared, not bound
        raise UsageError(
            f"--advertise: missing; peers can't connect to {listen.host}, give this node's address"
        )
    files = _tls(options)
    peers = tuple(_peer(text, named=files is not None) for text in options.peer)
    try:
        terms = Terms(grace=duration.parse(options.grace), max_grace=duration.parse(options.max_grace))
    except (ValueError, HawkAgentError) as error:
        raise UsageError(f"--grace, --max-grace: {error}") from error
    return Settings(
        node=options.node,
        socket=Path(options.socket),
        socket_mode=_mode(options.socket_mode),
        listen=str(listen),
        data_port=_number("--data-port", options.data_port, 0, 65535),
        advertise=options.advertise,
        metrics=str(metrics),
        tls=files,
        insecure=options.insecure,
        peers=peers,
        transports=_names(options.transports),
        rdma_devices=_names(options.rdma_device),
        rdma_gid_index=(
            _number("--rdma-gid-index", options.rdma_gid_index, 0, 255) if options.rdma_gid_index else None
        ),
        rails=_number("--rails", options.rails, 0, 16),
        strategy=_strategy(options.strategy),
        host_id=options.host_id,
        copy_threads=_number("--copy-threads", options.copy_threads, 1, 64),
        terms=terms,
    )


def _address(name: str, text: str, default_port: int | None = None) -> addresses.Address:
    try:
        return addresses.parse(text, default_port)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error


def _number(name: str, text: str, least: int, most: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise UsageError(f"{name}: {text!r} isn't a number from {least} to {most}")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _strategy(text: str) -> str:
    from hawk_agent.transports.verbs.strategy import Way  # noqa: PLC0415 -- after --help

    known = ["auto", *(way.value for way in Way)]
    if text not in known:
        raise UsageError(f"--strategy: {text!r} is unknown; use one of {', '.join(known)}")
    return text


def _mode(text: str) -> int:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise UsageError(f"--socket-mode: {text!r} isn't an octal mode such as 660")
    return mode


def _tls(options: argparse.Namespace) -> Files | None:
    given = [options.tls_cert, options.tls_key, options.tls_ca]
    if not any(given):
        if not options.insecure:
            raise UsageError("--tls-cert, --tls-key, --tls-ca: missing; give them, or --insecure for a test")
        return None
    if not all(given):
        raise UsageError("--tls-cert, --tls-key, --tls-ca: give all three")
    if options.insecure:
        raise UsageError("--insecure: contradicts --tls-cert; leave one out")
    from hawk_agent.identity import Files  # noqa: PLC0415 -- cryptography, with TLS only

    return Files(Path(options.tls_cert), Path(options.tls_key), Path(options.tls_ca))


def _peer(text: str, *, named: bool) -> PeerAddress:
    from hawk_agent.service.settings import PeerAddress  # noqa: PLC0415 -- after --help

    node, equals, address = text.rpartition("=")
    if named and not equals:
        raise UsageError(f"--peer {text}: with TLS the peer's node is checked; write NODE={text}")
    return PeerAddress(str(_address("--peer", address)), node)


async def _serve(options: argparse.Namespace, registry: TransportRegistry | None) -> None:
    from hawk_agent.service.agent import Agent  # noqa: PLC0415 -- after --help
    from hawk_agent.service.http import HttpServer  # noqa: PLC0415

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    configured = settings(options)
    async with contextlib.AsyncExitStack() as stack:
        if options.identity == "kubernetes":
            await _enrol(options, configured, stack)
        reviewer = None
        if options.engine_auth == "token":
            from lightkube import AsyncClient  # noqa: PLC0415 -- in a cluster only

            from hawk_agent.kube.tokens import TokenReviewer  # noqa: PLC0415

            reviewer = TokenReviewer(AsyncClient(trust_env=False))
            stack.push_async_callback(reviewer.close)
        agent = Agent(configured, registry=registry, reviewer=reviewer)
        await agent.start()
        stack.push_async_callback(agent.stop)
        http = HttpServer(configured.metrics, agent.metrics.registry, agent.unhealthy)
        await http.start()
        stack.push_async_callback(http.close)
        if options.kube:
            from hawk_agent.kube.publisher import Publisher  # noqa: PLC0415 -- lightkube, in a cluster only

            publisher = Publisher(agent, options.system_namespace)
            await publisher.start()
            stack.push_async_callback(publisher.close)
        log.info("metrics at %s", http.address)
        await stopping.wait()
        log.info("stopping")


async def _enrol(options: argparse.Namespace, configured: Settings, stack: contextlib.AsyncExitStack) -> None:
    """Get a certificate from the cluster before talking to anybody, and keep it valid."""
    import time  # noqa: PLC0415

    from hawk_agent import identity  # noqa: PLC0415 -- cryptography, with TLS only

    if configured.tls is None:
        raise UsageError(
            "--identity kubernetes: give --tls-cert, --tls-key, --tls-ca, where the certificate shall be"
        )
    from lightkube import AsyncClient  # noqa: PLC0415

    cluster = identity.Cluster(AsyncClient(), options.system_namespace)
    await identity.ensure(cluster, options.node, configured.tls, time.time)
    keeping = asyncio.create_task(identity.keep(cluster, options.node, configured.tls, time.time))
    stack.callback(keeping.cancel)


def main(arguments: Sequence[str] | None = None, *, registry: TransportRegistry | None = None) -> None:
    """Run until SIGTERM or SIGINT. Exit 2 for bad options, 1 when the agent can't start.

    `registry` has the data paths that there are; by default those of the installed packages.
    """
    options = parser().parse_args(arguments)
    logging.basicConfig(
        level=options.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for noisy in ("httpx", "httpx2"):  # a line a call; a Lease alone is renewed every few seconds
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        asyncio.run(_serve(options, registry))
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except HawkAgentError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
