"""Notes between two NIXL agents, and the thread that keeps both moving while a transfer runs.

UCX moves nothing by itself: a read over TCP needs its target to answer, a connection needs both. NIXL's own
progress thread spins; this one sleeps between two looks, and altogether while no end is open.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from hawk_agent.errors import TransportError

if TYPE_CHECKING:
    from hawk_agent.transports.nixl_library import Library

POLL_SECONDS: Final = 0.00015
_TROUBLE_SECONDS: Final = 0.1

log = logging.getLogger(__name__)


class Notes:
    """Who waits for which note. Others are dropped: they came late, or from strangers."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._waiting: dict[bytes, tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = {}
        self._lock = threading.Lock()
        self._open = 0
        self._wanted = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="nixl-progress", daemon=True)
        self._thread.start()

    def attend(self) -> None:
        """An end is open."""
        with self._lock:
            self._open += 1
            self._wanted.set()

    def leave(self) -> None:
        """An end was closed."""
        with self._lock:
            self._open -= 1
            if not self._open:
                self._wanted.clear()

    def expect(self, note: bytes) -> asyncio.Future[None]:
        """A future of the note, if it comes from now on. Cancelled, it is forgotten."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._waiting[note] = (loop, future)
        future.add_done_callback(lambda _: self._forget(note))
        return future

    def _forget(self, note: bytes) -> None:
        with self._lock:
            self._waiting.pop(note, None)

    def close(self) -> None:
        """Stop the thread."""
        self._closed = True
        self._wanted.set()
        self._thread.join()

    def _run(self) -> None:
        troubled = False
        while True:
            self._wanted.wait()
            if self._closed:
                return
            try:
                for note in self._library.progress():
                    self._hand(note)
            except TransportError as error:
                if not troubled:
                    log.warning("%s", error)
                troubled = True
                time.sleep(_TROUBLE_SECONDS)
            time.sleep(POLL_SECONDS)

    def _hand(self, note: bytes) -> None:
        with self._lock:
            waiting = self._waiting.pop(note, None)
        if waiting is not None:
            loop, future = waiting
            loop.call_soon_threadsafe(_settle, future)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
