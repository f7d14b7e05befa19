"""Completions: taken in batches, told to whoever waits, with every request accounted for exactly once.

A completion queue is made large enough for all that its queue pairs may have in flight, so none is lost.
The dispatcher sleeps on the queue's event descriptor; after an event it looks again for a while, in turns
with the rest of the event loop, for as long as looking pays, and then asks for the next event. When it has
asked, it looks once more: what came in between would tell nobody.
"""

from __future__ import annotations

import asyncio
import os
import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hawk_agent.errors import TransportError, TransportTimeoutError
from hawk_agent.transports.verbs.errors import CompletionError, DeviceError, DeviceFaultError, PostError
from hawk_agent.transports.verbs.library import native

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from hawk_agent.transports.verbs.device import RdmaDevice
    from hawk_agent.transports.verbs.posting import Posting
    from hawk_agent.transports.verbs.queue_pair import QueuePair

BATCH: Final = 256
"""Completions taken in one turn of the event loop."""
MOST_LOOKS: Final = 64
STALL_SECONDS: Final = 60.0
"""A posting that makes no progress for so long is given up: far above what any `Timeouts` adds up to."""
REFUSED_SECONDS: Final = 2.0
"""A provider that takes nothing for so long, with nothing under way, never will."""
_RETRY_SECONDS: Final = 0.002


@dataclass(frozen=True, slots=True)
class ImmediateArrival:
    """An immediate that a peer's last write carried: 32 bits in host order, and that write's bytes."""

    queue: QueuePair
    immediate: int
    nbytes: int


class CompletionQueue:
    """A completion queue with its event descriptor, and the queue pairs that complete into it.

    Args:
        device: where it is.
        entries: completions that it must hold: the sum of depth and receives over its queue pairs.
    """

    def __init__(self, device: RdmaDevice, entries: int) -> None:
        most = device.limits.max_cqe
        if not 1 <= entries <= most:
            raise DeviceError(f"{device.info}: a completion queue of {entries}; the device takes 1 to {most}")
        try:
            self.raw = native.Completion(device.context, entries)
            self.device = device
        except OSError as error:
            raise DeviceError(
                f"{device.info}: no completion queue of {entries} ({error.strerror})"
            ) from error
        os.set_blocking(self.raw.fd, False)
        self._queues: dict[int, QueuePair] = {}

    def adopt(self, queue: QueuePair) -> None:
        """A queue pair was made that completes here."""
        self._queues[queue.raw.tag] = queue

    def release(self, queue: QueuePair) -> None:
        """It was destroyed."""
        if self._queues.get(queue.raw.tag) is queue:
            del self._queues[queue.raw.tag]

    @property
    def queues(self) -> tuple[QueuePair, ...]:
        """The queue pairs that complete here."""
        return tuple(self._queues.values())

    def poll(self, limit: int = BATCH) -> tuple[int, list[ImmediateArrival]]:
        """Take at most so many completions; returns how many, and the immediates among them."""
        taken, raw = self.raw.poll(limit)
        for queue in self.queues:
            queue.mark()
        found = [
            ImmediateArrival(self._queues[tag], immediate, nbytes)
            for tag, immediate, nbytes in raw
            if tag in self._queues
        ]
        return taken, found

    def wait(self, seconds: float) -> None:
        """Sleep until something completes, or that long; poll first. For callers without an event loop."""
        self.raw.arm()
        if self.raw.wake():  # of before: what it told of is polled already, or will be now
            return
        ready, _, _ = select.select([self.raw.fd], [], [], seconds)
        if ready:
            self.raw.wake()

    def close(self) -> None:
        """Destroy it. DeviceError while a queue pair completes into it."""
        try:
            self.raw.close()
        except OSError as error:
            raise DeviceError(
                f"the completion queue can't be destroyed ({error.strerror}); close its queue pairs first"
            ) from error

    def __enter__(self) -> CompletionQueue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def finish_posting(posting: Posting, *, seconds: float = STALL_SECONDS) -> list[ImmediateArrival]:
    """Drive a posting to its end without an event loop; returns the immediates that arrived meanwhile.

    CompletionError when a request failed, TransportTimeoutError when it takes longer than `seconds`.
    """
    completions = posting.queue.completions
    arrivals: list[ImmediateArrival] = []
    end = time.monotonic() + seconds
    while not posting.settled:
        posted = posting.step()
        taken, found = completions.poll()
        arrivals += found
        if posted or taken:
            continue
        left = end - time.monotonic()
        if left <= 0:
            raise TransportTimeoutError(f"{posting.queue}: nothing ended within {seconds:g} s")
        completions.wait(min(left, 0.05))
    if posting.failure is not None:
        raise posting.failure
    return arrivals


class Dispatcher:
    """A completion queue in an event loop.

    Args:
        completions: the completion queue; closed by the owner after the dispatcher.
        arrived: called with each immediate, in the order of their arrival.
        broken: called once for each queue pair through which nothing more comes (see `QueuePair.broken`).
    """

    def __init__(
        self,
        completions: CompletionQueue,
        *,
        arrived: Callable[[ImmediateArrival], None] = lambda _: None,
        broken: Callable[[QueuePair, CompletionError], None] = lambda _queue, _error: None,
    ) -> None:
        self.completions = completions
        self._arrived = arrived
        self._broken = broken
        self._told: set[QueuePair] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        self._looks = 1
        self._empty = 0
        self._next: asyncio.Handle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._problem: TransportError = TransportTimeoutError("nobody listens to the completion queue")

    def start(self) -> None:
        """Begin to listen, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.completions.raw.fd, self._event)
        self._guarded(self._arm)

    def close(self) -> None:
        """Stop listening. Whoever waits is told so by TransportTimeoutError."""
        self._stop(TransportTimeoutError("nobody listens to the completion queue any more"))

    def _stop(self, problem: TransportError) -> None:
        if self._loop is None:
            return
        self._loop.remove_reader(self.completions.raw.fd)
        if self._next is not None:
            self._next.cancel()
        self._loop, self._next, self._problem = None, None, problem
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_exception(problem)

    # ---- looking ----

    def _event(self) -> None:
        self._guarded(self._wake)

    def _look(self) -> None:
        self._next = None
        self._guarded(self._look_once)

    def _guarded(self, look: Callable[[], None]) -> None:
        """Look; a device that can't be looked at any more has gone, and everything on it has failed."""
        try:
            look()
        except OSError as error:
            device = self.completions.device.info
            problem = DeviceFaultError(f"{device}: the completion queue is lost ({error.strerror})")
            queues = self.completions.queues
            self._stop(problem)
            for queue in queues:
                if queue not in self._told:
                    self._told.add(queue)
                    self._broken(queue, problem)

    def _wake(self) -> None:
        while self.completions.raw.wake():
            pass
        if self._next is None:
            self._empty = 0
            self._look_once()

    def _look_once(self) -> None:
        """Take a batch; look again soon, or ask for an event when that has brought nothing some times."""
        if self._loop is None:
            return
        if self._take():
            self._looks = min(MOST_LOOKS, self._looks * 2) if self._empty else self._looks
            self._empty = 0
        else:
            self._empty += 1
        if self._empty < self._looks:
            self._next = self._loop.call_soon(self._look)
            return
        self._looks = max(1, self._looks // 2)
        self._arm()

    def _arm(self) -> None:
        self.completions.raw.arm()
        if self._take() and self._loop is not None and self._next is None:
            self._empty = 0
            self._next = self._loop.call_soon(self._look)

    def _take(self) -> int:
        taken, arrivals = self.completions.poll()
        if taken:
            for arrival in arrivals:
                self._arrived(arrival)
            self._tell()
        return taken

    def _tell(self) -> None:
        for queue in self.completions.queues:
            problem = queue.broken
            if problem is None:
                self._told.discard(queue)
            elif queue not in self._told:
                self._told.add(queue)
                self._broken(queue, problem)
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    # ---- waiting ----

    async def _progress(self, seconds: float) -> bool:
        """Wait until something completes; False when nothing did in that long."""
        if self._loop is None:
            raise self._problem
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(future)
        return True

    async def drive(self, posting: Posting, *, stall: float = STALL_SECONDS) -> None:
        """Post it all, as the queue has room, and wait until every request has ended.

        Raises:
            CompletionError: a request failed; by now all have ended, flushed ones included.
            PostError: the provider refused one.
            TransportTimeoutError: nothing moved for `stall` seconds, and the queue pair is in ERR then; or
                nobody listens.
        """
        since = time.monotonic()
        while not posting.settled:
            if posting.step():
                since = time.monotonic()
                await asyncio.sleep(0)
                continue
            refused = not posting.posted and not posting.queue.outstanding
            if await self._progress(_RETRY_SECONDS if refused else 1.0):
                since = time.monotonic()
            elif time.monotonic() - since > (REFUSED_SECONDS if refused else stall):
                posting.queue.to_error()
                if refused:
                    raise PostError(f"{posting.queue}: the provider takes no request, with none under way")
                raise TransportTimeoutError(f"{posting.queue}: nothing ended within {stall:g} s")
        if posting.failure is not None:
            raise posting.failure

    async def ended(self, queue: QueuePair, number: int, *, seconds: float = STALL_SECONDS) -> None:
        """Wait for one request, a bind or an invalidation say. CompletionError when it failed."""
        end = time.monotonic() + seconds
        while queue.raw.retired <= number:
            left = end - time.monotonic()
            if left <= 0:
                raise TransportTimeoutError(f"{queue}: a request didn't end within {seconds:g} s")
            await self._progress(min(left, 1.0))
        failure = queue.failure_of(number)
        if failure is not None:
            raise failure

    async def drained(self, queue: QueuePair, *, seconds: float = STALL_SECONDS) -> None:
        """Wait until nothing of a queue pair is under way: after `to_error`, until all is flushed."""
        end = time.monotonic() + seconds
        while queue.outstanding:
            left = end - time.monotonic()
            if left <= 0:
                raise TransportTimeoutError(
                    f"{queue}: {queue.outstanding} requests didn't end in {seconds:g} s"
                )
            await self._progress(min(left, 1.0))
