"""/metrics, /healthz and /readyz, for Prometheus and the kubelet.

Healthy means that work gets done: the tick that ends leases ran lately. Ready means that engines can connect.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from hawk_agent.net import sockets
from hawk_api import addresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

REQUEST_SECONDS = 5.0
MAX_HEAD = 8192


class HttpServer:
    """A server of three pages at `address`, host:port; every connection is closed after its answer.

    `unhealthy` says why the agent should be restarted, and nothing while it does its work.
    """

    def __init__(self, address: str, registry: CollectorRegistry, unhealthy: Callable[[], str]) -> None:
        self._wanted = addresses.parse_address(address)
        self._registry = registry
        self._unhealthy = unhealthy
        self._server: asyncio.Server | None = None
        self.address = ""

    async def start(self) -> None:
        """Listen. SocketInUseError when the port is taken."""
        listener = sockets.listen_tcp(self._wanted.host, self._wanted.port)
        self.address = addresses.format_address(self._wanted.host, listener.getsockname()[1])
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=MAX_HEAD)

    async def close(self) -> None:
        """Stop."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(
            TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
        if method != b"GET":
            return _page(405, "Method Not Allowed", b"GET only\n")
        if path == b"/metrics":
            return _page(200, "OK", generate_latest(self._registry), CONTENT_TYPE_LATEST)
        if path == b"/healthz":
            problem = self._unhealthy()
            return (
                _page(503, "Service Unavailable", problem.encode()) if problem else _page(200, "OK", b"ok\n")
            )
        if path == b"/readyz":
            return _page(200, "OK", b"ok\n")
        return _page(404, "Not Found", b"/metrics, /healthz, /readyz\n")


def _page(status: int, reason: str, body: bytes, kind: str = "text/plain; charset=utf-8") -> bytes:
    lines = (
        f"HTTP/1.1 {status} {reason}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body
