"""Carrying a chunk: its shares over the lanes that live, whole again over others where a lane fails.

A sender carries by writing, the last write of each share with its immediate; a receiver that pulls carries by
reading. Either way a share is done when every one of its requests has completed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from hawk_agent.errors import TransportError
from hawk_agent.layouts import Nest, engines, stream
from hawk_agent.layouts.buffers import as_bytes
from hawk_agent.transports.verbs.port import PIECE, PIECES
from hawk_agent.transports.verbs.posting import LocalMemory, RemoteMemory, order_programs
from hawk_agent.transports.verbs.rails import Ledger, Share, shares

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hawk_agent.layouts.buffers import Blocks
    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.transfer.chunks import Chunk
    from hawk_agent.transfer.translation import Translation
    from hawk_agent.transfer.work import CopyWork
    from hawk_agent.transports.verbs.lane import Lane


def heads(translation: Translation) -> int:
    """Heads that a transfer moves."""
    return translation.destination.layout.extent("h").count


def nest_of(translation: Translation, share: Share) -> Nest:
    """A share's nest."""
    nest = translation.nest.layers(share.first, share.count)
    return (
        nest if share.heads == heads(translation) else nest.window("h", share.head, share.head + share.heads)
    )


class Carrier:
    """The lanes of one end, and who owes what."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = list(lanes)
        self._ledger = Ledger(len(lanes))

    def lose(self, lane: Lane, error: TransportError) -> None:
        """A lane can't be used from the start. Its error when none is left."""
        lane.failed("unconnected", error)
        self._ledger.failed(self.lanes.index(lane))
        if not self._ledger.alive:
            raise error

    async def carry(self, chunk: Chunk, of: int, post: Callable[[Share, Lane], Awaitable[None]]) -> None:
        """Post every share of a chunk; returns when each is done.

        Raises:
            RailsExhaustedError: no lane is left; its cause is what the last one failed of.
        """
        under_way = {}

        def begin(placed: list[tuple[Share, int]]) -> None:
            for share, rail in placed:
                task = asyncio.ensure_future(post(share, self.lanes[rail]))
                under_way[task] = (share, rail)

        try:
            begin(self._ledger.place(shares(chunk, of, len(self.lanes))))
            while under_way:
                done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    share, rail = under_way.pop(task)
                    self._settle(task, share, rail, begin)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _settle(
        self,
        task: asyncio.Future[None],
        share: Share,
        rail: int,
        begin: Callable[[list[tuple[Share, int]]], None],
    ) -> None:
        error = task.exception()
        if error is None:
            self._ledger.done(share)
        elif not isinstance(error, TransportError):
            raise error
        elif rail in self._ledger.alive:
            self.lanes[rail].end()
            try:
                begin(self._ledger.failed(rail))
            except TransportError as last:
                raise type(last)(f"{last}; the last one: {error}") from error


# ---- one share through a bounce buffer ----


async def write_translated(
    lane: Lane,
    nest: Nest,
    source: tuple[CacheRegion, Blocks],
    remote: RemoteMemory,
    *,
    work: CopyWork,
    immediate: int,
) -> None:
    """Translated into the lane's bounce buffer and written from there, a piece at a time.

    The last piece goes when all others have completed, so that its immediate speaks for the whole share.
    """
    region, blocks = source
    total = nest.payload_nbytes
    async with lane.bouncing:
        ring = lane.ring()
        flat = LocalMemory(len(ring.memory), ring.registered.local_ranges)
        under_way: deque[asyncio.Task[None]] = deque()
        try:
            for start, stop, base in _pieces(total):
                await _room(under_way, 0 if stop == total else PIECES - 1)

                def fill(start: int = start, stop: int = stop, base: int = base) -> None:
                    with memoryview(ring.memory)[base : base + stop - start] as out:
                        nest.pack(region.memory, out, start, stop, source_blocks=blocks)

                await work.run(fill)
                programs = tuple(
                    stream.from_stream(piece, at - start + base)
                    for piece, at in stream.cut(nest.moves, start, stop)
                )
                part = Nest(ring.layout, nest.destination, programs, (), (), 1)
                told = immediate if stop == total else None
                under_way.append(asyncio.create_task(lane.post(part, flat, remote, immediate=told)))
            await _room(under_way, 0)
        finally:
            await _over(under_way)


async def read_translated(
    lane: Lane, nest: Nest, destination: tuple[CacheRegion, Blocks], remote: RemoteMemory, work: CopyWork
) -> None:
    """Read as the source has it into the lane's bounce buffer and translated there, a piece at a time."""
    region, blocks = destination
    turned = order_programs(nest, "read")
    tables = (
        np.zeros(0, np.int64),
        np.zeros(0, np.int64) if blocks is None else np.asarray(blocks, np.int64),
    )
    async with lane.bouncing:
        ring = lane.ring()
        flat = LocalMemory(len(ring.memory), ring.registered.local_ranges)

        async def piece(start: int, stop: int, base: int) -> None:
            cut = list(stream.cut(turned, start, stop))
            into = tuple(stream.into_stream(one, at - start + base) for one, at in cut)
            part = Nest(nest.source, ring.layout, into, (), (), 1)
            await lane.post(part, flat, remote, direction="read")
            plan = engines.prepare([stream.from_stream(one, at - start + base) for one, at in cut])

            def empty() -> None:
                held = as_bytes("bounce", ring.memory, len(ring.memory), writable=False)
                into = as_bytes("destination", region.memory, nest.destination.nbytes, writable=True)
                engines.copy(plan, held, into, tables, (0, nest.pages[1]))

            await work.run(empty)

        under_way: deque[asyncio.Task[None]] = deque()
        try:
            for span in _pieces(nest.payload_nbytes):
                await _room(under_way, PIECES - 1)
                under_way.append(asyncio.create_task(piece(*span)))
            await _room(under_way, 0)
        finally:
            await _over(under_way)


def _pieces(total: int) -> list[tuple[int, int, int]]:
    """(start, stop, place in the bounce buffer) of each piece; one empty one where nothing moves."""
    starts = range(0, total, PIECE) if total else [0]
    return [(at, min(at + PIECE, total), index % PIECES * PIECE) for index, at in enumerate(starts)]


async def _room(under_way: deque[asyncio.Task[None]], most: int) -> None:
    """Wait for the oldest until at most so many are under way."""
    while len(under_way) > most:
        await under_way[0]
        under_way.popleft()


async def _over(under_way: deque[asyncio.Task[None]]) -> None:
    """Nothing may use the bounce buffer afterwards: wait for all, however they end."""
    await asyncio.gather(*under_way, return_exceptions=True)
