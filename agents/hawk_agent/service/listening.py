"""What an agent opens to be reached by its peers: the data paths and the gRPC server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import grpc

from hawk_agent.errors import BadRequestError, SocketInUseError, TransportError
from hawk_agent.protocol import peer_pb2_grpc
from hawk_agent.service import wire
from hawk_agent.transports.nixl import Nixl
from hawk_agent.transports.shm import SharedMemory
from hawk_agent.transports.tcp import Tcp
from hawk_agent.transports.verbs.strategy import Way
from hawk_agent.transports.verbs.transport import Verbs
from hawk_api import addresses

if TYPE_CHECKING:
    import contextlib
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.metrics import Metrics
    from hawk_agent.service.peers import PeerService
    from hawk_agent.service.settings import Settings
    from hawk_agent.transfer.transport import Transport

log = logging.getLogger(__name__)


async def open_transports(
    settings: Settings,
    stack: contextlib.AsyncExitStack,
    sending: ThreadPoolExecutor,
    receiving: ThreadPoolExecutor,
    *,
    metrics: Metrics,
    unused: dict[str, str],
) -> dict[str, Transport]:
    """The allowed data paths, best first; `stack` closes them.

    One that this host doesn't have goes to `unused` with the reason. BadRequestError for an unknown one;
    TransportError when none of those allowed is there.
    """
    host = addresses.parse(settings.listen).host
    advertised = addresses.parse(settings.advertise, 0).host if settings.advertise else host
    found: dict[str, Transport] = {}
    for name in settings.transports:
        made: SharedMemory | Tcp | Nixl | Verbs
        if name == "shm":
            made = SharedMemory(settings.socket.with_name(settings.socket.name + ".peer"), receiving)
        elif name == "tcp":
            made = Tcp(host, settings.data_port, advertised, sending, receiving)
        elif name == "nixl":
            made = Nixl(receiving)
        elif name == "verbs":
            made = Verbs(
                sending,
                receiving,
                metrics,
                devices=settings.rdma_devices,
                gid_index=settings.rdma_gid_index,
                rails=settings.rails,
                strategy=None if settings.strategy == "auto" else Way(settings.strategy),
            )
        else:
            raise BadRequestError(f"transport {name!r} is unknown; use verbs, shm, tcp, nixl")
        try:
            await made.start()
        except TransportError as error:
            unused[name] = str(error)
            log.warning("transport %s is not used: %s", name, error)
            continue
        stack.push_async_callback(made.close)
        found[name] = made
    if not found:
        raise TransportError(f"no data path: {'; '.join(unused.values())}")
    return found


async def open_peers(settings: Settings, stack: contextlib.AsyncExitStack, service: PeerService) -> str:
    """Serve peers; `stack` stops it. Returns the address that they are told, host:port."""
    if settings.tls is None and not settings.insecure:
        raise BadRequestError(
            "no certificate: give --tls-cert, --tls-key and --tls-ca, or say --insecure for a test"
        )
    server = grpc.aio.server(options=wire.SERVER_OPTIONS)
    peer_pb2_grpc.add_PeerServicer_to_server(service, server)
    wanted = addresses.parse(settings.listen)
    taken = f"{wanted} can't be listened on; port 0 takes a free one"
    try:
        if settings.tls is None:
            port = server.add_insecure_port(str(wanted))
        else:
            port = server.add_secure_port(str(wanted), wire.server_credentials(settings.tls))
    except RuntimeError as error:
        raise SocketInUseError(f"{taken} ({error})") from error
    if port == 0:
        raise SocketInUseError(taken)
    await server.start()
    stack.push_async_callback(server.stop, 0.5)
    if settings.advertise:
        told = addresses.parse(settings.advertise, port)
        return addresses.format(told.host, told.port or port)
    return addresses.format(wanted.host, port)
