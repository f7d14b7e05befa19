"""A proxy in front of the API server that misbehaves on demand: what networks and busy servers do."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import aiohttp
from aiohttp import web

from hawk_kube import config
from hawk_kube.connection import tls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_HOP = {"host", "content-length", "transfer-encoding", "connection", "content-encoding", "accept-encoding"}


@dataclass(frozen=True)
class Seen:
    """One request: `dry` when it only tries a write."""

    method: str
    path: str
    watch: bool
    dry: bool

    @property
    def write(self) -> bool:
        return self.method not in {"GET", "HEAD"} and not self.dry


@dataclass
class Faults:
    """The faults to inject. `refuse` gives a status code for a request, or None to let it through."""

    throttled: bool = False
    retry_after: int = 5
    mute_watches: bool = False
    """Watches stay open and say nothing, old ones included."""
    expired: bool = False
    """Every new watch hears 410: what it asks to follow is too old."""
    refuse: Callable[[Seen], int | None] = field(default=lambda _: None)


class Proxy:
    """Serves http on a port of 127.0.0.1 and forwards as the owner of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        endpoint = config.from_files([kubeconfig])
        login = endpoint.credentials.login()
        self._server = endpoint.server
        self._tls = tls(endpoint, login)
        self._headers = {"Authorization": login.authorization} if login.authorization else {}
        self.faults = Faults()
        self.requests: list[Seen] = []
        self.port = 0
        self._watching: set[asyncio.BaseTransport | None] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig that leads here."""
        path = folder / f"proxy-{self.port}.kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
                    "users": [{"name": "proxy", "user": {"token": "the-proxy-has-its-own"}}],
                    "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
                    "current-context": "proxy",
                }
            )
        )
        return path

    def reset_watches(self) -> None:
        """Tear the connections of all open watches, as a load balancer that restarts does."""
        self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for transport in self._watching:
            if isinstance(transport, asyncio.Transport):
                transport.abort()

    def writes(self) -> Counter[str]:
        """Writes by method and path, without Leases."""
        return Counter(f"{r.method} {r.path}" for r in self.requests if r.write and "/leases" not in r.path)

    async def _start(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        application = web.Application(client_max_size=64 << 20)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}  # handlers of watches that were made silent
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.sleep(0.25)  # TLS connections of aiohttp close by themselves, a moment after being told

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        seen = Seen(request.method, request.path, "watch" in request.query, "dryRun" in request.query)
        self.requests.append(seen)
        if self.faults.throttled:
            return web.json_response(
                {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "wait"},
                status=429,
                headers={"Retry-After": str(self.faults.retry_after)},
            )
        if seen.watch and self.faults.expired:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            return web.json_response({"type": "ERROR", "object": status})
        code = self.faults.refuse(seen)
        if code is not None:
            return web.json_response(
                {"kind": "Status", "code": code, "reason": "Injected", "message": "refused by the test"},
                status=code,
            )
        return await self._forward(request, seen)

    async def _forward(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in {*_HOP, "authorization"}}
        async with self._session.request(
            request.method,
            self._server + request.path_qs,
            data=await request.read() or None,
            skip_auto_headers={"Content-Type"},
            headers={**headers, **self._headers},
        ) as upstream:
            out = web.StreamResponse(
                status=upstream.status,
                headers={k: v for k, v in upstream.headers.items() if k.lower() not in _HOP},
            )
            await out.prepare(request)
            transport = request.transport
            if seen.watch:
                self._watching.add(transport)
            try:
                async for chunk in upstream.content.iter_any():
                    if seen.watch and self.faults.mute_watches:
                        await asyncio.sleep(3600)  # the line is open, nothing comes
                    await out.write(chunk)
                await out.write_eof()
            finally:
                self._watching.discard(transport)
            return out
