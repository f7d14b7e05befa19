"""A nest as work requests: built and posted by a cursor in C, as fast as a queue has room for them.

A write gathers local pieces into a contiguous run at the peer, so writes go in the destination's order; a
read scatters a contiguous run of the peer over local pieces, so reads go in the source's. No object is made
for a request, and what a posting holds doesn't depend on how much it moves.
"""

from __future__ import annotations

import errno
import os
from array import array
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from hawk_agent.layouts import engines
from hawk_agent.layouts.buffers import as_table
from hawk_agent.layouts.loops import Program, coalesce
from hawk_agent.transports.verbs.errors import PostError
from hawk_agent.transports.verbs.library import native

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hawk_agent.layouts import Nest
    from hawk_agent.layouts.buffers import Blocks
    from hawk_agent.transports.verbs.errors import CompletionError
    from hawk_agent.transports.verbs.queue_pair import QueuePair
    from hawk_agent.transports.verbs.registration import LocalRange, RemoteRange

CHAIN: Final = 64
"""Requests that are built and posted in one call; their lists fit a first-level cache."""
TURN: Final = 1024
"""Requests that one `step` posts at most, so that whoever calls it gets a turn."""
_BUSY: Final = frozenset({errno.ENOMEM, errno.EAGAIN, errno.EBUSY, errno.ENOBUFS})


@dataclass(frozen=True, slots=True)
class LocalMemory:
    """Our side: `ranges` with their lkeys, in the order of their offsets; `blocks` is the block table."""

    nbytes: int
    ranges: tuple[LocalRange, ...]
    blocks: Blocks = field(default=None, repr=False)

    def words(self) -> array[int]:
        """The ranges as the cursor reads them."""
        return _words((one.offset, one.nbytes, one.address, one.lkey) for one in self.ranges)


@dataclass(frozen=True, slots=True)
class RemoteMemory:
    """The peer's side: `ranges` with their rkeys, in the order of their offsets, and the block table."""

    nbytes: int
    ranges: tuple[RemoteRange, ...]
    blocks: Blocks = field(default=None, repr=False)

    def words(self) -> array[int]:
        """The ranges as the cursor reads them."""
        return _words((one.offset, one.nbytes, one.address, one.rkey) for one in self.ranges)


def _words(rows: Iterable[tuple[int, int, int, int]]) -> array[int]:
    return array("Q", chain.from_iterable(rows))


def order_programs(nest: Nest, direction: Literal["write", "read"]) -> tuple[Program, ...]:
    """The nest's programs so that the peer's side is walked forwards."""
    if direction == "write":
        return nest.moves
    page = nest.pages[0]

    def turned(program: Program) -> Program:
        loops = sorted(program.loops, key=lambda loop: loop.source + loop.source_step * page, reverse=True)
        return coalesce(replace(program, loops=tuple(loops)), logical=False)

    return tuple(turned(program) for program in nest.moves)


class Posting:
    """One nest on its way through one queue pair.

    `step` posts what the queue takes; when `posted` is true there is nothing more to post, when `settled` is
    true every request has ended, and `failure` says whether one of them failed.
    """

    def __init__(
        self,
        queue: QueuePair,
        nest: Nest,
        local: LocalMemory,
        remote: RemoteMemory,
        *,
        direction: Literal["write", "read"] = "write",
        immediate: int | None = None,
        window: int | None = None,
    ) -> None:
        """Check and prepare; nothing is posted yet.

        Args:
            queue: a connected queue pair.
            nest: what moves where.
            local: our memory, of the nest's source for writes and of its destination for reads.
            remote: the peer's.
            direction: "write" or "read".
            immediate: 32 bits that the last write carries to the peer's completion queue; a nest that moves
                nothing still carries them.
            window: requests under way at once, at most (by default as many as the queue has room for).

        Raises:
            PostError: the nest doesn't fit the memory or the tables.
            LayoutError: a block table is missing or doesn't fit.
        """
        reads = direction == "read"
        limits = queue.device.limits
        source, destination = (remote, local) if reads else (local, remote)
        tables = (
            as_table("source_blocks", nest.source, source.blocks, unique=False),
            as_table("destination_blocks", nest.destination, destination.blocks, unique=True),
        )
        sides = [
            (place.nbytes, np.ascontiguousarray(tables[side]), nest.pages[side], place.words())
            for side, place in ((int(reads), local), (int(not reads), remote))
        ]
        self.queue = queue
        self.window = min(window or queue.depth, queue.depth)
        try:
            self._cursor = native.Cursor(
                engines.prepare(order_programs(nest, direction)).words,
                reads,
                sides[0],
                sides[1],
                min(queue.max_sge, limits.max_sge_rd if reads else limits.max_sge),
                limits.max_msg_bytes,
                queue.raw.max_inline,
                min(CHAIN, queue.depth),
                immediate,
            )
        except ValueError as error:
            raise PostError(f"{direction} over {queue}: {error}") from error

    def step(self, most: int = TURN) -> int:
        """Post what the queue has room for, at most `most` requests; returns how many.

        Nothing is posted while the queue is full or has failed, or when the provider has no room just now.
        PostError: it refused a request for good. Those before it are posted, and complete.
        """
        queue = self.queue.raw
        if queue.failure is not None:
            return 0
        room = min(most, self.window - (queue.posted - queue.retired))
        if room < 1 or self._cursor.done:
            return 0
        posted, refused = self._cursor.post(queue, room)
        if refused and refused not in _BUSY:
            raise PostError(f"{self.queue}: {self._why(refused)} (errno {refused})")
        return posted

    def _why(self, refused: int) -> str:
        if refused == errno.EFAULT:
            return "the next run is in memory that no key opens"
        return f"the provider refused a request: {os.strerror(refused)}"

    @property
    def posted(self) -> bool:
        """True if every request is posted."""
        return self._cursor.done

    @property
    def settled(self) -> bool:
        """True if every request that was posted has ended, and none is to come."""
        over = self._cursor.done or self.queue.raw.failure is not None
        return over and (not self._cursor.requests or self.queue.raw.retired > self._cursor.last)

    @property
    def failure(self) -> CompletionError | None:
        """Why it failed, or None as long as it hasn't: before it is settled, that may still come."""
        if self._cursor.done:
            return self.queue.failure_of(self._cursor.last) if self._cursor.requests else None
        return self.queue.failure

    @property
    def requests(self) -> int:
        """Requests posted so far."""
        return self._cursor.requests

    @property
    def pieces(self) -> int:
        """Pieces in the lists of the requests built so far."""
        return self._cursor.pieces

    @property
    def held(self) -> int:
        """Bytes of memory that the walk holds: nothing of it grows with what moves but a block table."""
        return self._cursor.held

    @property
    def nbytes(self) -> int:
        """Bytes of the requests built so far."""
        return self._cursor.nbytes
