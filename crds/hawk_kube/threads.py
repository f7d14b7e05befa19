"""The client for an event loop: each call in a thread of a few, so that the loop never waits for the API."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hawk_kube.client import Client
    from hawk_kube.watch import Watch

T = TypeVar("T")
P = ParamSpec("P")


class AsyncClient:
    """Calls of `client` in at most `threads` threads; more of them wait for their turn."""

    def __init__(self, client: Client, threads: int = 4) -> None:
        self.client = client
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="kube")

    async def call(self, method: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> T:
        """One call of the client, such as `call(kube.client.get, POD, "name", "namespace")`.

        A caller that is cancelled leaves at once; the call itself ends by its own time-out.
        """
        future = self._threads.submit(method, *arguments, **more)
        return await asyncio.wrap_future(future)

    async def watch(self, begin: Callable[[], Watch]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """The events of a watch that `begin` opens; closed with the loop that reads it."""
        watch = await self.call(begin)
        try:
            while (event := await self.call(next, watch, None)) is not None:
                yield event
        finally:
            watch.close()

    async def close(self) -> None:
        """Close the connections. Calls under way end by their time-outs."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.client.close()
