"""A lane: one rail of one end of one transfer. Its queue pair serves this transfer and is never used again.

So ending a lease is moving its lanes to the error state: the device takes nothing more for them, whoever
holds a key, and a peer that restarts finds neither its queue pairs nor its keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, Literal

from hawk_agent.errors import TransportError, TransportTimeoutError
from hawk_agent.transports.verbs.completion import CompletionQueue, Dispatcher
from hawk_agent.transports.verbs.fence import FenceKind
from hawk_agent.transports.verbs.posting import LocalMemory, Posting, RemoteMemory
from hawk_agent.transports.verbs.queue_pair import EndpointInfo, QueuePair, Timeouts
from hawk_agent.transports.verbs.registration import DESTINATION, WINDOWED, AccessFlags
from hawk_agent.transports.verbs.windows import MemoryWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hawk_agent.layouts import Nest
    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.metrics import AgentMetrics
    from hawk_agent.transports.verbs.completion import ImmediateArrival
    from hawk_agent.transports.verbs.errors import CompletionError
    from hawk_agent.transports.verbs.fence import FenceChoice
    from hawk_agent.transports.verbs.port import Port, Ring
    from hawk_agent.transports.verbs.registration import RegisteredMemory, RemoteRange

log = logging.getLogger(__name__)

DEPTH: Final = 512
"""Send requests under way at once: enough to keep a card busy, and quickly flushed."""
READS: Final = 64
"""The same of a lane that reads: what a card answers at once is bounded, and so is what answers may fill."""
RECEIVES: Final = 64
"""Immediates under way to us at once. A sender has one a share in flight; they are refilled as they come."""
BIND_SECONDS: Final = 5.0
DRAIN_SECONDS: Final = 10.0


class Lane:
    """See above. `close` is a fence and may be called at any time, again too."""

    def __init__(
        self,
        port: Port,
        metrics: AgentMetrics,
        *,
        depth: int = DEPTH,
        arrived: Callable[[ImmediateArrival], None] = lambda _: None,
        broken: Callable[[Lane, CompletionError], None] = lambda _lane, _error: None,
    ) -> None:
        """Make its queue pair. DeviceError when the port can't be used or has no room."""
        port.check()
        self.port = port
        self._metrics = metrics
        self._broken = broken
        self._windows: list[MemoryWindow] = []
        self._rings: list[Ring] = []
        self.fence = FenceKind.QUEUE_PAIR
        self.bouncing = asyncio.Lock()
        """Held by the one share that uses the bounce buffer."""
        self._ended = self._closed = False
        self._closing: asyncio.Task[None] | None = None
        limits = port.device.limits
        depth, receives = min(depth, limits.max_qp_wr), min(RECEIVES, limits.max_qp_wr)
        self._completions = CompletionQueue(port.device, depth + receives)
        try:
            self.queue = QueuePair(port.device, depth, limits.max_sge, self._completions, receives=receives)
        except BaseException:
            self._completions.close()
            raise
        self.dispatcher = Dispatcher(self._completions, arrived=arrived, broken=self._on_broken)
        self.dispatcher.start()

    def connect(self, peer: EndpointInfo, access: AccessFlags, timeouts: Timeouts) -> None:
        """To the peer's end; `access` is what its requests may do here."""
        self.queue.connect(peer, access, timeouts)
        for warning in self.queue.warnings:
            log.warning("verbs: %s", warning)

    async def open(self, region: CacheRegion, fence: FenceChoice) -> tuple[RemoteRange, ...]:
        """Open the region, or the fence's ranges of it, to the peer's writes. What it returns are secrets."""
        if fence.kind is FenceKind.WINDOW:
            registered = await asyncio.to_thread(self.port.registered, region, WINDOWED)
            pieces = _pieces(registered, fence.ranges)
            try:
                for _ in pieces:
                    self._windows.append(MemoryWindow(self.port.device))
            except TransportError as error:  # other users have them; the queue pair is as good an end
                log.warning("verbs: %s; the lease's fence is %s", error, FenceKind.QUEUE_PAIR.value)
            else:
                self.fence = FenceKind.WINDOW
                return await self._bind(registered, pieces)
        return (await asyncio.to_thread(self.port.registered, region, DESTINATION)).remote_ranges

    async def _bind(
        self, registered: RegisteredMemory, pieces: list[tuple[int, int]]
    ) -> tuple[RemoteRange, ...]:
        last = -1
        for window, (at, nbytes) in zip(self._windows, pieces, strict=True):
            last = window.bind(self.queue, registered, at, nbytes)
        await self.dispatcher.ended(self.queue, last, seconds=BIND_SECONDS)
        return tuple(window.remote_range for window in self._windows)

    async def post(
        self,
        nest: Nest,
        local: LocalMemory,
        remote: RemoteMemory,
        *,
        direction: Literal["write", "read"] = "write",
        immediate: int | None = None,
    ) -> None:
        """Carry out a nest over this lane; returns when every request has completed.

        VerbsError says what the first one failed of, TransportError that the lane was closed meanwhile.
        """
        try:
            posting = Posting(self.queue, nest, local, remote, direction=direction, immediate=immediate)
            await self.dispatcher.drive(posting)
        except ValueError as error:  # of a queue pair that is destroyed
            if not self._closed:
                raise
            raise TransportError("the transfer was stopped") from error

    def ring(self) -> Ring:
        """A bounce buffer for as long as the lane lives."""
        if not self._rings:
            self._rings.append(self.port.ring())
        return self._rings[0]

    def _on_broken(self, _: QueuePair, error: CompletionError) -> None:
        """Its first request failed: count, say, tell. After its end that is what an end looks like."""
        if self._ended:
            return
        self.failed(error.reason, error)
        self._broken(self, error)

    def failed(self, reason: str, error: Exception) -> None:
        """Count and say that it is out."""
        self._metrics.rail_failures.labels(self.port.name, reason).inc()
        log.warning("verbs: a rail failed: %s", error)

    async def revoke(self) -> None:
        """End the peer's access: after this no request of the peer does anything here."""
        self._ended = True
        if self.fence is FenceKind.WINDOW and self.queue.failure is None:
            with contextlib.suppress(TransportError):  # the error state below ends it all the same
                numbers = [window.invalidate(self.queue) for window in self._windows]
                await self.dispatcher.ended(self.queue, numbers[-1], seconds=BIND_SECONDS)
                return
        self.end()

    async def close(self) -> None:
        """End all access through it, wait until its requests are flushed, and destroy it.

        TransportTimeoutError when it can't be destroyed: the memory must be taken for still in use.
        """
        if self._closed:
            return
        if self._closing is None or self._closing.done():
            self._closing = asyncio.create_task(self._destroy())
        # Who waits may be cancelled; a queue pair that is half destroyed may not.
        await asyncio.shield(self._closing)

    async def _destroy(self) -> None:
        self.end()
        if self.queue.peer is not None:
            try:
                await self.dispatcher.drained(self.queue, seconds=DRAIN_SECONDS)
            except TransportTimeoutError as error:  # destroying it ends them too
                log.warning("verbs: %s; the queue pair is destroyed", error)
        self.dispatcher.close()
        try:
            # A provider may take long over it: SoftRoCE, or a card in trouble, a minute.
            await asyncio.to_thread(self._release)
        except TransportError as error:
            raise TransportTimeoutError(f"{error}; its memory stays in use") from error

    def discard(self) -> None:
        """Destroy it as it is. For a lane that was never connected; `close` for any other."""
        self.dispatcher.close()
        self._release()

    def _release(self) -> None:
        # First the windows: one that is still bound holds its queue pair, and SoftRoCE waits a minute for it.
        for window in self._windows:
            window.close()
        self.queue.close()
        self._closed = True
        self._count()
        self._completions.close()
        for ring in self._rings:
            self.port.give(ring)

    def end(self) -> None:
        """To the error state, now. What is under way is flushed and fails."""
        self._ended = True
        if not self._closed and self.queue.peer is not None:
            try:
                self.queue.to_error()
            except TransportError as error:  # the device is gone, and with it all access
                log.warning("verbs: %s", error)

    def _count(self) -> None:
        books, requests = self.queue.raw, self._metrics.verbs_requests
        requests.labels(self.port.name, "posted").inc(books.posted)
        requests.labels(self.port.name, "completed").inc(books.retired - books.failed)
        requests.labels(self.port.name, "failed").inc(books.failed)


def _pieces(registered: RegisteredMemory, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges, cut where a registration ends: a window covers one range of one."""
    found = []
    for start, count in ranges:
        at, end = start, start + count
        while at < end:
            begin, nbytes, _ = registered.part(at)
            stop = min(end, begin + nbytes)
            found.append((at, stop - at))
            at = stop
    return found
