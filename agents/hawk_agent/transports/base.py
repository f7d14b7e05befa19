"""What a transport is: two ends, and what their words promise.

A transfer asks the *sender's* agent for a source end and an offer, carries the offer to the *receiver's*
agent over the authenticated channel, and gets a destination end and an answer. Then, chunk by chunk and in
the plan's order: the sender announces a chunk, `send`s it, and the receiver `receive`s it. Promises:

- `send` returns when the transport needs nothing more of the source for this chunk, or (shared memory) when
  the
  receiver's report of the arrival will say so.
- `receive` returns when every byte of the chunk is in the destination, and not before. It returns the bytes
  placed.
- A failure is an exception, TransportError or one below it; there is no third way to end.
- `stop` and `close` are fences: when they return, nothing of this end reads or writes the memory any more.
  They may
  be called at any time, more than once, and while `send` or `receive` run in another task. When access can't
  be ended in time they raise TransportTimeoutError, and the memory must be taken for still in use.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from hawk_agent.errors import TransportError, TransportTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.memory.region import Region
    from hawk_agent.protocol import peer_pb2
    from hawk_agent.streaming.chunks import Chunk
    from hawk_agent.streaming.translation import Translation
    from hawk_agent.transports.calibration import Forecast

T = TypeVar("T")
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RailFacts:
    """A port that a data path uses, as the HawkNode's status tells it; None where it has no such thing."""

    name: str
    transport: str
    gid: str | None = None
    mtu: int | None = None
    max_sge: int | None = None
    max_wr: int | None = None
    max_message_bytes: int | None = None
    fence: str | None = None


class SourceEnd(ABC):
    """The sender's end of one transfer."""

    @abstractmethod
    async def connect(self, answer: peer_pb2.Answer) -> None:
        """Reach the receiver."""

    @abstractmethod
    async def send(self, chunk: Chunk) -> None:
        """Hand over one chunk."""

    @abstractmethod
    async def close(self) -> None:
        """End access to the source."""


class DestinationEnd(ABC):
    """The receiver's end of one transfer."""

    @abstractmethod
    async def receive(self, chunk: Chunk) -> int:
        """Place one chunk; returns its bytes."""

    @abstractmethod
    async def stop(self) -> None:
        """End access to the destination."""


class Transport(ABC):
    """One kind of data path."""

    name: str

    @abstractmethod
    def offer(self, translation: Translation, source: Region) -> tuple[peer_pb2.Offer, SourceEnd]:
        """The sender's side of a transfer."""

    @abstractmethod
    async def accept(
        self, offer: peer_pb2.Offer, translation: Translation, destination: Region, origin: str
    ) -> tuple[peer_pb2.Answer, DestinationEnd]:
        """The receiver's side. `origin` names the sender's incarnation."""

    @property
    def rails(self) -> tuple[RailFacts, ...]:
        """The ports that it uses."""
        return (RailFacts(self.name, self.name),)

    async def adopt(self, region: Region) -> None:
        """An engine handed this memory over: do now what takes long. An error refuses the registration."""
        return

    def forecast(self, translation: Translation, offer: peer_pb2.Offer) -> Forecast | None:
        """How long the transfer should take by the cost model; None where there is no model."""
        return None

    def keep(self, origin: str, regions: frozenset[str]) -> None:  # noqa: B027 -- as below
        """A peer's incarnation has these regions now; drop what is kept of others."""

    def forget(self, origin: str) -> None:  # noqa: B027 -- most transports keep nothing of a peer
        """Drop what is kept of a peer's incarnation."""


class Work:
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
        """What a thread asks between two pieces."""
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
