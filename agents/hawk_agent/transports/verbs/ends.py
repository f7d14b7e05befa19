"""The two ends of one transfer over verbs; what they promise stands in `transfer.transport`.

Pushed, the sender writes and the receiver waits for immediates. Pulled, the receiver reads as soon as a chunk
is announced, and the sender only keeps its memory open. Completion is never looked for in memory.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from hawk_agent.errors import TransportError, TransportTimeoutError
from hawk_agent.transfer.transport import DestinationEnd, SourceEnd
from hawk_agent.transfer.work import CopyWork
from hawk_agent.transports.verbs import carrying, wire
from hawk_agent.transports.verbs.immediate import Immediate
from hawk_agent.transports.verbs.posting import LocalMemory, RemoteMemory
from hawk_agent.transports.verbs.rails import Arrivals, shares
from hawk_agent.transports.verbs.registration import GATHERED, STAGING, AccessFlags
from hawk_agent.transports.verbs.strategy import VerbsStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.protocol import peer_pb2
    from hawk_agent.transfer.chunks import Chunk
    from hawk_agent.transfer.translation import Translation
    from hawk_agent.transports.verbs.completion import ImmediateArrival
    from hawk_agent.transports.verbs.errors import CompletionError
    from hawk_agent.transports.verbs.fence import FenceChoice
    from hawk_agent.transports.verbs.lane import Lane
    from hawk_agent.transports.verbs.queue_pair import Timeouts
    from hawk_agent.transports.verbs.rails import Share
    from hawk_agent.transports.verbs.registration import RemoteRange

log = logging.getLogger(__name__)

STALL_SECONDS: Final = 30.0
SLOWEST_BYTES_PER_S: Final = 1 << 20
"""A receiver can't see bytes on their way, so it waits this long before it takes a chunk for lost. A sender
that fails, or dies, says so much earlier, by its completions or by its stream's end."""

WORD_SECONDS: Final = 2.0


async def close_lanes(lanes: Sequence[Lane]) -> None:
    """Close each; every one is tried. The first error is raised when all were."""
    for lane in lanes:
        lane.end()
    ends = await asyncio.gather(*(lane.close() for lane in lanes), return_exceptions=True)
    for error in ends:
        if isinstance(error, BaseException):
            raise error


class VerbsSource(SourceEnd):
    """The sender's end."""

    def __init__(
        self,
        translation: Translation,
        source: CacheRegion,
        *,
        lanes: list[Lane],
        way: VerbsStrategy,
        pool: ThreadPoolExecutor,
        timeouts: Timeouts,
    ) -> None:
        self._translation = translation
        self._source = source
        self.lanes = lanes
        self._way = way
        self._work = CopyWork(pool)
        self._timeouts = timeouts
        self._blocks = translation.source.table
        self._to = translation.destination.table
        self._heads = carrying.heads(translation)
        self._carrier: carrying.Carrier | None = None
        self.remote: dict[Lane, RemoteMemory] = {}
        self._slot = self._generation = 0

    async def connect(self, answer: peer_pb2.Answer) -> None:
        """Connect as many lanes as the receiver has; the rest are closed."""
        told = answer.verbs
        taken = {lane: rail for lane, rail in zip(self.lanes, told.rails, strict=False) if rail.ByteSize()}
        if not taken:
            raise TransportError(
                f"the receiver takes none of the {len(self.lanes)} rails offered; its log says why"
            )
        spare, self.lanes = [lane for lane in self.lanes if lane not in taken], list(taken)
        await close_lanes(spare)
        self._slot, self._generation = told.slot, told.generation
        access = AccessFlags.IBV_ACCESS_REMOTE_READ if self._way.pulled else AccessFlags.NONE
        nbytes = self._translation.destination.layout.nbytes
        self._carrier = carrying.Carrier(self.lanes)
        for lane, rail in taken.items():
            self.remote[lane] = RemoteMemory(nbytes, wire.remote_ranges(rail), self._to)
            try:
                lane.connect(wire.endpoint(rail), access, self._timeouts)
            except TransportError as error:
                self._carrier.lose(lane, error)

    async def send(self, chunk: Chunk) -> None:
        """Write it, unless the receiver reads."""
        assert self._carrier is not None, "send before connect"
        if not self._way.pulled:
            await self._carrier.carry(chunk, self._heads, self._post)

    async def _post(self, share: Share, lane: Lane) -> None:
        nest = carrying.nest_of(self._translation, share)
        immediate = Immediate(self._slot, self._generation, share.chunk, share.index).pack()
        remote = self.remote[lane]
        if self._way is VerbsStrategy.TILE_FIRST:
            source = (self._source, self._blocks)
            await carrying.write_translated(lane, nest, source, remote, work=self._work, immediate=immediate)
            return
        ranges = lane.port.registered(self._source, GATHERED).local_ranges
        local = LocalMemory(self._source.nbytes, ranges, self._blocks)
        await lane.post(nest, local, remote, immediate=immediate)

    async def close(self) -> None:
        """Flush what is under way; afterwards no card reads the source for this transfer."""
        self._work.cancel()
        await close_lanes(self.lanes)
        await self._work.drained()


class VerbsDestination(DestinationEnd):
    """The receiver's end. `lanes` are added by who opens it, in the order of the offer's rails."""

    def __init__(
        self,
        translation: Translation,
        destination: CacheRegion,
        *,
        way: VerbsStrategy,
        pool: ThreadPoolExecutor,
        number: tuple[int, int],
        ended: Callable[[], None],
    ) -> None:
        self._translation = translation
        self._destination = destination
        self._way = way
        self._work = CopyWork(pool)
        self._slot, self._generation = number
        self._ended = ended
        self._from = translation.source.table
        self._blocks = translation.destination.table
        self._heads = carrying.heads(translation)
        self._arrivals = Arrivals()
        self._news = asyncio.Event()
        self._broken: dict[Lane, CompletionError] = {}
        self._stopped = self._over = False
        self._problem: TransportError | None = None
        self._carrier: carrying.Carrier | None = None
        self.remote: dict[Lane, RemoteMemory] = {}
        self.lanes: list[Lane] = []
        self.strays = 0
        """Immediates that belong to no share of this transfer."""

    async def connect(
        self, lane: Lane, rail: peer_pb2.Rail, fence: FenceChoice | None, timeouts: Timeouts
    ) -> tuple[RemoteRange, ...] | None:
        """Connect a lane to a rail of the offer, and open what the fence closes; what it opened are secrets.

        None when that can't be: the lane is left out then.
        """
        try:
            self.remote[lane] = RemoteMemory(
                self._translation.source.layout.nbytes, wire.remote_ranges(rail), self._from
            )
            lane.connect(
                wire.endpoint(rail),
                AccessFlags.IBV_ACCESS_REMOTE_WRITE if fence else AccessFlags.NONE,
                timeouts,
            )
            return await lane.open(self._destination, fence) if fence else ()
        except TransportError as error:
            lane.failed("unconnected", error)
            self._problem = error
            self.lanes.remove(lane)
            await lane.close()
            return None

    def opened(self) -> None:
        """Every lane is connected. The last problem when none could be."""
        if not self.lanes:
            raise self._problem or TransportError("the sender offers no rail")
        self._carrier = carrying.Carrier(self.lanes)

    def arrived(self, arrival: ImmediateArrival) -> None:
        """An immediate came in."""
        found = Immediate.unpack(arrival.immediate)
        if (found.slot, found.generation) != (self._slot, self._generation):
            self.strays += 1
            log.warning("verbs: an immediate of another transfer (%s) on %s", found, arrival.queue)
            return
        self._arrivals.add(found.chunk, found.share)
        self._news.set()

    def broken(self, lane: Lane, error: CompletionError) -> None:
        """A lane failed."""
        self._broken[lane] = error
        self._news.set()

    async def receive(self, chunk: Chunk) -> int:
        """Wait for a pushed chunk, read a pulled one; then clear its padding."""
        if self._way.pulled:
            assert self._carrier is not None, "receive before opened"
            await self._carrier.carry(chunk, self._heads, self._read)
        else:
            await self._all_in(chunk)
        await self._work.run(lambda: self._translation.pad(chunk, self._destination.memory))
        return self._translation.nbytes_of(chunk)

    async def _read(self, share: Share, lane: Lane) -> None:
        nest = carrying.nest_of(self._translation, share)
        remote = self.remote[lane]
        if self._way is VerbsStrategy.TILE_LAST:
            destination = (self._destination, self._blocks)
            await carrying.read_translated(lane, nest, destination, remote, self._work)
            return
        ranges = lane.port.registered(self._destination, STAGING).local_ranges
        local = LocalMemory(self._destination.nbytes, ranges, self._blocks)
        await lane.post(nest, local, remote, direction="read")

    async def _all_in(self, chunk: Chunk) -> None:
        wanted = len(shares(chunk, self._heads, len(self.lanes)))
        patience = STALL_SECONDS + self._translation.nbytes_of(chunk) / SLOWEST_BYTES_PER_S
        try:
            async with asyncio.timeout(patience):
                while not self._arrivals.complete(chunk.index, wanted):
                    await self._check()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as error:
            raise TransportTimeoutError(
                f"chunk {chunk.index} wasn't in after {patience:.0f} s; no rail reports an error"
            ) from error

    async def _check(self) -> None:
        if len(self._broken) == len(self.lanes):
            await asyncio.sleep(WORD_SECONDS)  # the sender knows better why, and says so
        if self._stopped:
            raise TransportError("the transfer was stopped")
        if len(self._broken) == len(self.lanes):
            last = next(reversed(self._broken.values()))
            raise type(last)(f"every rail has failed; the last one: {last}", status=last.status)

    async def stop(self) -> None:
        """End the sender's access for real, then everything else of this end."""
        self._stopped = True
        self._news.set()
        self._work.cancel()
        await asyncio.gather(*(lane.revoke() for lane in self.lanes), return_exceptions=True)
        await close_lanes(self.lanes)
        await self._work.drained()
        if not self._over:
            self._over = True
            self._ended()
