"""A lane: one rail of one end of one transfer. Its queue pair serves this transfer and is never used again.

So ending a lease is moving its lanes to the error state: the device takes nothing more for them, whoever
holds a key, and a peer that restarts finds neither its queue pairs nor its keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from hawk_agent.errors import TransportError
from hawk_agent.memory.registration import DESTINATION, WINDOWED, Access
from hawk_agent.transports.verbs.completion import CompletionQueue, Dispatcher
from hawk_agent.transports.verbs.fence import Kind
from hawk_agent.transports.verbs.queue_pair import EndpointInfo, QueuePair, Timeouts
from hawk_agent.transports.verbs.windows import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_agent.memory.region import Region
    from hawk_agent.memory.registration import Extent
    from hawk_agent.service.metrics import Metrics
    from hawk_agent.transports.verbs.completion import Arrival
    from hawk_agent.transports.verbs.errors import CompletionError
    from hawk_agent.transports.verbs.fence import Choice
    from hawk_agent.transports.verbs.port import Port, Ring

log = logging.getLogger(__name__)

DEPTH: Final = 512
"""Send requests under way at once: enough to keep a card busy, and quickly flushed."""
RECEIVES: Final = 64
"""Immediates under way to us at once. A sender has one a share in flight; they are refilled as they come."""
BIND_SECONDS: Final = 5.0
DRAIN_SECONDS: Final = 10.0


class Lane:
    """See above. `close` is a fence and may be called at any time, again too."""

    def __init__(
        self,
        port: Port,
        metrics: Metrics,
        *,
        arrived: Callable[[Arrival], None] = lambda _: None,
        broken: Callable[[Lane, CompletionError], None] = lambda _lane, _error: None,
    ) -> None:
        """Make its queue pair. DeviceError when the port can't be used or has no room."""
        port.check()
        self.port = port
        self._metrics = metrics
        self._broken = broken
        self._windows: list[Window] = []
        self._rings: list[Ring] = []
        self.fence = Kind.QUEUE_PAIR
        self.bouncing = asyncio.Lock()
        """Held by the one share that uses the bounce buffer."""
        self._ended = self._closed = False
        limits = port.device.limits
        depth, receives = min(DEPTH, limits.max_qp_wr), min(RECEIVES, limits.max_qp_wr)
        self._completions = CompletionQueue(port.device, depth + receives)
        try:
            self.queue = QueuePair(port.device, depth, limits.max_sge, self._completions, receives=receives)
        except BaseException:
            self._completions.close()
            raise
        self.dispatcher = Dispatcher(self._completions, arrived=arrived, broken=self._on_broken)
        self.dispatcher.start()

    def connect(self, peer: EndpointInfo, access: Access, timeouts: Timeouts) -> None:
        """To the peer's end; `access` is what its requests may do here."""
        self.queue.connect(peer, access, timeouts)
        for warning in self.queue.warnings:
            log.warning("verbs: %s", warning)

    async def open(self, region: Region, fence: Choice) -> tuple[Extent, ...]:
        """Open the region, or the fence's ranges of it, to the peer's writes. What it returns are secrets."""
        self.fence = fence.kind
        if fence.kind is Kind.QUEUE_PAIR:
            return self.port.registered(region, DESTINATION).remote_keys
        registered = self.port.registered(region, WINDOWED)
        last = -1
        for start, count in fence.ranges:
            at, end = start, start + count
            while at < end:
                begin, nbytes, _ = registered.part(at)
                stop = min(end, begin + nbytes)
                window = Window(self.port.device)
                self._windows.append(window)
                last = window.bind(self.queue, registered, at, stop - at)
                at = stop
        await self.dispatcher.ended(self.queue, last, seconds=BIND_SECONDS)
        return tuple(window.extent for window in self._windows)

    def ring(self) -> Ring:
        """A bounce buffer for as long as the lane lives."""
        if not self._rings:
            self._rings.append(self.port.ring())
        return self._rings[0]

    def _on_broken(self, _: QueuePair, error: CompletionError) -> None:
        """Its first request failed: count, say, tell. After its end that is what an end looks like."""
        if self._ended:
            return
        self._metrics.rail_failures.labels(self.port.name, error.reason).inc()
        log.warning("verbs: a rail failed: %s", error)
        self._broken(self, error)

    async def revoke(self) -> None:
        """End the peer's access: after this no request of the peer does anything here."""
        self._ended = True
        if self._windows and self.queue.failure is None:
            with contextlib.suppress(TransportError):  # the error state below ends it all the same
                numbers = [window.invalidate(self.queue) for window in self._windows]
                await self.dispatcher.ended(self.queue, numbers[-1], seconds=BIND_SECONDS)
                return
        self.queue.to_error()

    async def close(self) -> None:
        """End all access through it, wait until its requests are flushed, and destroy it.

        TransportTimeoutError while a request is still under way: the memory must be taken for still in use.
        """
        if self._closed:
            return
        if self.queue.peer is not None:
            self.end()
            await self.dispatcher.drained(self.queue, seconds=DRAIN_SECONDS)
        self._closed = True
        self._count()
        self.dispatcher.close()
        self.queue.close()
        for window in self._windows:
            window.close()
        self._completions.close()
        for ring in self._rings:
            self.port.give(ring)

    def end(self) -> None:
        """To the error state, now. What is under way is flushed and fails."""
        self._ended = True
        if not self._closed and self.queue.peer is not None:
            self.queue.to_error()

    def _count(self) -> None:
        books, requests = self.queue.raw, self._metrics.verbs_requests
        requests.labels(self.port.name, "posted").inc(books.posted)
        requests.labels(self.port.name, "completed").inc(books.retired - books.failed)
        requests.labels(self.port.name, "failed").inc(books.failed)
