"""Copy work in threads that can be stopped, and waited for."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from hawk_agent.errors import TransportError, TransportTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
STOP_SECONDS = 10.0
"""How long a copy may take to stop."""


class CopyWork:
    """Copy work of one end, in threads, that can be stopped.

    A task that awaits a thread may be cancelled while the thread goes on; the fence has to wait for the
    thread, not for the task. So each thread is noted here until it returns.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._stop = threading.Event()
        self._running: set[asyncio.Future[Any]] = set()

    @property
    def stopped(self) -> bool:
        """Asked by a thread between two pieces."""
        return self._stop.is_set()

    async def run(self, function: Callable[[], T]) -> T:
        """Run it in a thread. TransportError when the end was stopped before it began."""
        if self._stop.is_set():
            raise TransportError("the transfer was stopped")
        future = asyncio.get_running_loop().run_in_executor(self._pool, self._guarded, function)
        self._running.add(future)
        future.add_done_callback(self._done)
        return await asyncio.shield(future)

    def _done(self, future: asyncio.Future[Any]) -> None:
        """Forget it. Its error counts as heard: whoever waited was cancelled, or has it."""
        self._running.discard(future)
        if not future.cancelled():
            future.exception()

    def _guarded(self, function: Callable[[], T]) -> T:
        if self._stop.is_set():
            raise TransportError("the transfer was stopped")
        return function()

    def cancel(self) -> None:
        """Ask the threads to stop at their next piece."""
        self._stop.set()

    async def drained(self) -> None:
        """Wait until they have. TransportTimeoutError when one hasn't."""
        self._stop.set()
        if not self._running:
            return
        _, late = await asyncio.wait(set(self._running), timeout=STOP_SECONDS)
        if late:
            raise TransportTimeoutError(
                f"a copy hasn't stopped within {STOP_SECONDS:g} s; its memory stays in use"
            )
