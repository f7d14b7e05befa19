"""The client for an event loop: calls run in a small thread pool, so the loop never waits for the API."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from hawk_kube.client import Client
    from hawk_kube.watch import Watch

T = TypeVar("T")
P = ParamSpec("P")


class AsyncClient:
    """Calls of `client` in at most `threads` threads; more of them wait for their turn.

    Several may share a client, so that what must not wait for each other doesn't.
    """

    def __init__(self, client: Client, threads: int = 4) -> None:
        self.client = client
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="kube")

    async def call(self, method: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> T:
        """One call of the client, such as `call(kube.client.get, POD, "name", "namespace")`.

        A caller that is cancelled leaves at once; the call itself ends by its own time-out.
        """
        future = self._threads.submit(method, *arguments, **more)
        return await asyncio.wrap_future(future)

    async def watch(self, begin: Callable[[], Watch]) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """The events of a watch that `begin` opens; it ends with the generator."""
        opening = self._threads.submit(begin)
        try:
            watch = await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_discard)
            raise
        try:
            while (event := await self.call(next, watch, None)) is not None:
                yield event
        finally:
            watch.close()

    async def close(self) -> None:
        """End the threads and close the connections. Calls under way end by their time-outs."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.client.close()


def _discard(opening: Future[Watch]) -> None:
    """End a watch for which nobody waits any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
