"""NIXL between two agents, for hosts that have it: over UCX's RDMA, cross-memory attach or TCP.

The *receiver* reads: the offer carries the metadata that opens the source's region, and every descriptor
that is in flight is the receiver's own. So the receiver ends every write to its memory by itself, as over
shared memory: `stop` waits until its reads have completed or failed, and as long as one hasn't it raises, so
that the lease's blocks stay in use. What NIXL can't do is revoke: a peer that holds the metadata may read the
source until the region is deregistered, which happens before its memory is unmapped, and after `close` as
well. A late read is harmless, because no chunk counts before the sender, with the source still held, has
sealed it (see `streaming`); but it is no fence in the sense of verbs, and over cross-memory attach even
deregistering stops nobody. Nor does NIXL open memory for reading only: the peer is trusted not to write.

When a chunk is in place the receiver sends a note with the transfer's token and the chunk's number, for which
`send` waits. Runs that are too short for a descriptor each come as whole stretches of the source through a
registered buffer and are translated from there; the cost model decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import struct
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hawk_agent.errors import TransportError, TransportTimeoutError
from hawk_agent.layouts import engines
from hawk_agent.layouts.buffers import as_bytes
from hawk_agent.layouts.schedule import reorder_programs
from hawk_agent.plans import RequestLimits, Strategy, applicable_strategies, choose_strategy, lists
from hawk_agent.protocol import peer_pb2
from hawk_agent.transfer.transport import DestinationEnd, Forecast, SourceEnd, Transport
from hawk_agent.transfer.work import STOP_SECONDS, CopyWork
from hawk_agent.transports.calibration import machine_costs
from hawk_agent.transports.nixl_library import Library, Reading
from hawk_agent.transports.nixl_memory import Buffer, Buffers, Opened, Peers, Registrations
from hawk_agent.transports.nixl_notes import POLL_SECONDS, Notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.layouts import Nest
    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.plans import Costs
    from hawk_agent.transfer.chunks import Chunk
    from hawk_agent.transfer.translation import Translation
    from hawk_agent.transfer.transport import TransportContext

ROOM: Final = 1 << 20
"""Bytes read at a time: what a buffer holds, and how soon a transfer can stop."""
DESCRIPTOR_SECONDS: Final = 4e-6
"""One descriptor of a list: 3 to 7 us measured over cross-memory attach, more over TCP."""
STALL_SECONDS: Final = 20.0
CHUNK_SECONDS: Final = 120.0
TOKEN_BYTES: Final = 16

_WAYS: Final = ("scatter-reads", "send-then-tile")
_NOTE: Final = struct.Struct(f">{TOKEN_BYTES}sI")
_NO_TABLE: Final = np.zeros(0, np.int64)


def choose_path(nest: Nest, costs: Costs) -> Strategy:
    """A descriptor for each run, or stretches of the source through a buffer: what is sooner."""
    prices = replace(costs, request_seconds=DESCRIPTOR_SECONDS, sge_seconds=0.0)
    return choose_strategy(
        applicable_strategies(nest, prices, RequestLimits(max_sge=1, max_message_bytes=ROOM)), among=_WAYS
    )


class Nixl(Transport):
    """One NIXL agent for all transfers of this agent; `pool` runs reads and translations."""

    name = "nixl"

    def __init__(self, pool: ThreadPoolExecutor, load: Callable[[], Library] = Library) -> None:
        self._pool = pool
        self._load = load
        self._stack = contextlib.ExitStack()

    @classmethod
    def create(cls, context: TransportContext) -> Nixl:
        """As an agent uses it."""
        return cls(context.receiving)

    async def start(self) -> None:
        """Load NIXL. TransportError when it isn't installed or can't run, with the remedy."""
        library = await asyncio.to_thread(self._load)
        self._library = library
        self._regions = Registrations(library)
        self._buffers = Buffers(library, ROOM)
        self._peers = Peers(library)
        self._notes = Notes(library)
        for part in (self._regions, self._buffers, self._notes):  # notes stop first
            self._stack.callback(part.close)

    async def close(self) -> None:
        """Stop, and close all memory. Ends that are still open must be stopped before."""
        await asyncio.to_thread(self._stack.close)

    async def adopt(self, region: CacheRegion) -> None:
        """Register a region's memory once, for all its transfers."""
        await asyncio.to_thread(self._regions.of, region)

    def offer(self, translation: Translation, source: CacheRegion) -> tuple[peer_pb2.Offer, SourceEnd]:
        """The source, opened to the receiver.

        A scratch region, whose content doesn't change any more, is offered from a buffer: peers would keep
        what they met of it when other memory lies there.
        """
        opened: Opened | Buffer
        if source.identity or source.nbytes > ROOM:
            opened, nbytes = self._regions.of(source), source.nbytes
            end = _NixlSource(self._notes, lambda: None)
        else:
            opened = buffer = self._buffers.take()
            nbytes = ROOM
            buffer.memory[: source.nbytes] = np.frombuffer(bytes(source.memory), np.uint8)
            end = _NixlSource(self._notes, lambda: self._buffers.give(buffer))
        told = peer_pb2.NixlOffer(metadata=opened.metadata, address=opened.address)
        return peer_pb2.Offer(transport=self.name, region=source.identity, bytes=nbytes, nixl=told), end

    async def accept(
        self, offer: peer_pb2.Offer, translation: Translation, destination: CacheRegion, origin: str
    ) -> tuple[peer_pb2.Answer, DestinationEnd]:
        """Meet the sender's NIXL agent."""
        needed = translation.source.layout.nbytes
        if offer.bytes < needed or not offer.nixl.metadata:
            raise TransportError(
                f"the source offers {offer.bytes} bytes with {len(offer.nixl.metadata)} bytes of metadata; "
                f"its layout needs {needed}"
            )
        local = await asyncio.to_thread(self._regions.of, destination)
        peer = await asyncio.to_thread(
            self._peers.meet, origin, offer.nixl.metadata, offer.nixl.address, offer.bytes
        )
        token = secrets.token_bytes(TOKEN_BYTES)
        task = _Task(translation, destination, peer, offer.nixl.address, local.address, token)
        bounced = choose_path(translation.nest, machine_costs()).name == "send-then-tile"
        shared = _Shared(self._library, self._buffers, self._notes, lambda: self._peers.leave(origin))
        return peer_pb2.Answer(token=token), _NixlDestination(
            task, shared, CopyWork(self._pool), bounced=bounced
        )

    def forecast(self, translation: Translation, offer: peer_pb2.Offer) -> Forecast | None:
        """By the same prices as the choice."""
        way = choose_path(translation.nest, machine_costs())
        return Forecast(way.name, way.seconds)

    def forget(self, origin: str) -> None:
        """Part from an incarnation's NIXL agent, when its last transfer here has ended."""
        self._peers.forget(origin)


class _NixlSource(SourceEnd):
    """Nothing to send: the receiver reads, and tells when it has."""

    def __init__(self, notes: Notes, leave: Callable[[], None]) -> None:
        self._notes = notes
        self._leave = leave
        self._token = b""
        self._open = True
        notes.attend()

    async def connect(self, answer: peer_pb2.Answer) -> None:
        if len(answer.token) != TOKEN_BYTES:
            raise TransportError(f"the receiver's token has {len(answer.token)} bytes, not {TOKEN_BYTES}")
        self._token = answer.token

    async def send(self, chunk: Chunk) -> None:
        if not self._open:
            raise TransportError("the transfer was stopped")
        note = _NOTE.pack(self._token, chunk.index)
        try:
            await asyncio.wait_for(self._notes.expect(note), CHUNK_SECONDS)
        except TimeoutError as error:
            raise TransportTimeoutError(
                f"the receiver hasn't read chunk {chunk.index} within {CHUNK_SECONDS:g} s"
            ) from error

    async def close(self) -> None:
        if self._open:
            self._open = False
            self._notes.leave()
            self._leave()


@dataclass(frozen=True)
class _Task:
    """The read of one receiving end: from where, and to where."""

    translation: Translation
    destination: CacheRegion
    peer: str
    source_address: int
    address: int
    token: bytes


@dataclass(frozen=True)
class _Shared:
    """The parts that it takes from the transport; `leave` says that it has ended."""

    library: Library
    buffers: Buffers
    notes: Notes
    leave: Callable[[], None]


class _NixlDestination(DestinationEnd):
    def __init__(self, task: _Task, shared: _Shared, work: CopyWork, *, bounced: bool) -> None:
        self._task = task
        self._shared = shared
        self._work = work
        self._bounced = bounced
        self._reads: list[Reading] = []
        self._taken: list[Buffer] = []
        self._open = True
        shared.notes.attend()

    async def receive(self, chunk: Chunk) -> int:
        translation = self._task.translation
        await self._work.run(lambda: self._receive(chunk))
        note = _NOTE.pack(self._task.token, chunk.index)
        await asyncio.to_thread(self._shared.library.notify, self._task.peer, note)
        return translation.nbytes_of(chunk)

    def _receive(self, chunk: Chunk) -> None:
        """Read batch after batch; while one is read the one before is put in its place."""
        translation = self._task.translation
        nest = translation.nest.layers(chunk.first, chunk.count)
        running: tuple[Reading, lists.Batch, Buffer | None] | None = None
        for number, batch in enumerate(self._batches(nest)):
            if self._work.stopped:
                raise TransportError(f"chunk {chunk.index} was stopped")
            buffer = self._buffer(number) if self._bounced else None
            started = (self._start(batch, buffer), batch, buffer)
            if running is not None:
                self._finish(nest, *running)
            running = started
        if running is not None:
            self._finish(nest, *running)
        translation.pad(chunk, self._task.destination.memory)

    def _batches(self, nest: Nest) -> Iterator[lists.Batch]:
        source, destination = self._task.translation.source.table, self._task.translation.destination.table
        if self._bounced:
            return lists.bounced(nest, source, ROOM)
        return lists.direct(nest, (source, destination), ROOM)

    def _buffer(self, number: int) -> Buffer:
        if len(self._taken) < 2:
            self._taken.append(self._shared.buffers.take())
        return self._taken[number % 2]

    def _start(self, batch: lists.Batch, buffer: Buffer | None) -> Reading:
        remote = np.column_stack((batch.source + self._task.source_address, batch.lengths))
        base = self._task.address if buffer is None else buffer.address
        local = np.column_stack((batch.target + base, batch.lengths))
        reading = self._shared.library.read(
            self._task.peer, remote.astype(np.uint64), local.astype(np.uint64)
        )
        self._reads.append(reading)
        return reading

    def _finish(self, nest: Nest, reading: Reading, batch: lists.Batch, buffer: Buffer | None) -> None:
        """Wait for a read, and translate what came into a buffer."""
        deadline = time.monotonic() + STALL_SECONDS
        while not reading.poll():
            if time.monotonic() > deadline:
                raise TransportTimeoutError(f"a read over NIXL hasn't ended within {STALL_SECONDS:g} s")
            time.sleep(POLL_SECONDS)
        reading.end()
        self._reads.remove(reading)
        if buffer is None:
            return
        table = self._task.translation.destination.table
        write = as_bytes("destination", self._task.destination.memory, nest.destination.nbytes, writable=True)
        plan = engines.prepare(reorder_programs(batch.programs, (0, nest.pages[1])))
        tables = (_NO_TABLE, _NO_TABLE if table is None else table)
        engines.copy(plan, buffer.memory, write, tables, (0, nest.pages[1]))

    async def stop(self) -> None:
        await self._work.drained()
        deadline = time.monotonic() + STOP_SECONDS
        while self._reads:
            self._reads = [reading for reading in self._reads if not _over(reading)]
            if self._reads and time.monotonic() > deadline:
                raise TransportTimeoutError(
                    f"{len(self._reads)} reads over NIXL haven't ended within {STOP_SECONDS:g} s, and "
                    "nothing can revoke them; their memory stays in use"
                )
            await asyncio.sleep(POLL_SECONDS)
        while self._taken:
            self._shared.buffers.give(self._taken.pop())
        if self._open:
            self._open = False
            self._shared.notes.leave()
            self._shared.leave()


def _over(reading: Reading) -> bool:
    """True if a read writes no more, and is released."""
    with contextlib.suppress(TransportError):
        if not reading.poll():
            return False
    try:
        reading.end()
    except TransportError:
        return False
    return True
