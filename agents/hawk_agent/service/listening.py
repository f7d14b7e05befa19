"""The gRPC server that peers reach an agent by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from hawk_agent.errors import SocketInUseError
from hawk_agent.protocol import peer_pb2_grpc
from hawk_agent.service import wire
from hawk_api import addresses

if TYPE_CHECKING:
    import contextlib

    from hawk_agent.service.peers import PeerService
    from hawk_agent.service.settings import AgentSettings


async def open_peers(settings: AgentSettings, stack: contextlib.AsyncExitStack, service: PeerService) -> str:
    """Serve peers; `stack` stops it. Returns the address that they are told, host:port."""
    server = grpc.aio.server(options=wire.SERVER_OPTIONS)
    peer_pb2_grpc.add_PeerServicer_to_server(service, server)
    wanted = addresses.parse_address(settings.listen)
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
        told = addresses.parse_address(settings.advertise, port)
        return addresses.format_address(told.host, told.port or port)
    return addresses.format_address(wanted.host, port)
