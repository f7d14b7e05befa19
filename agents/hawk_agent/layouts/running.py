"""Running a nest on memory: its programs are prepared once, and run on checked buffers.

`Nest` documents each of these; its methods of the same names call them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hawk_agent.layouts import engines, stream
from hawk_agent.layouts.buffers import (
    Blocks,
    Bytes,
    Table,
    as_bytes,
    as_table,
    refuse_misaligned,
    refuse_overlap,
)
from hawk_agent.layouts.errors import LayoutError
from hawk_agent.layouts.loops import by_words, shorten
from hawk_agent.layouts.schedule import STRETCH, reorder_programs

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_agent.layouts.loops import Program
    from hawk_agent.layouts.nest import Nest

_NAMES = (("source", "source_blocks"), ("destination", "destination_blocks"))


class Running:
    """A nest's plans, each prepared when it is first wanted."""

    def __init__(self, nest: Nest) -> None:
        self._nest = nest
        self._sides = (nest.source, nest.destination)

    @cached_property
    def _walk(self) -> engines.CopyPlan:
        """The moves in the order in which they are run."""
        return engines.prepare(reorder_programs(self._nest.moves, self._nest.pages))

    @cached_property
    def _hashed_walk(self) -> engines.CopyPlan:
        """The units in the order in which they are run when a digest is taken on the way."""
        pieces = [piece for program in self._nest.units for piece in shorten(program, STRETCH)]
        return engines.prepare(reorder_programs(pieces, self._nest.pages, unit=self._nest.unit))

    @cached_property
    def _stream(self) -> engines.CopyPlan:
        return engines.prepare(self._nest.moves)

    @cached_property
    def _source_stream(self) -> engines.CopyPlan:
        return engines.prepare(self._nest.source_stream)

    @cached_property
    def _whole(self) -> engines.CopyPlan:
        return engines.prepare(self._hashed)

    @cached_property
    def _striped(self) -> engines.CopyPlan:
        return engines.prepare(piece for program in self._hashed for piece in engines.stripes(program))

    @cached_property
    def _hashed(self) -> tuple[Program, ...]:
        """The units in the order in which they are hashed alone."""
        return tuple(by_words(program, self._nest.unit) for program in self._nest.units)

    @cached_property
    def _padding(self) -> engines.CopyPlan:
        return engines.prepare(self._nest.zeros)

    def run(
        self,
        source: object,
        destination: object,
        source_blocks: Blocks,
        destination_blocks: Blocks,
        key: int | None,
    ) -> int | None:
        """See `Nest.run`."""
        read = as_bytes("source", source, self._sides[0].nbytes, writable=False)
        write = as_bytes("destination", destination, self._sides[1].nbytes, writable=True)
        refuse_misaligned(self._sides[0], source=read, destination=write)
        refuse_overlap(read, write)
        tables = (self._table(0, source_blocks), self._table(1, destination_blocks))
        plan = self._walk if key is None else self._hashed_walk
        nest = self._nest
        digest = engines.copy(plan, read, write, tables, nest.pages, key=key, unit=nest.unit)
        engines.fill(self._padding, write, tables[1], nest.pages[1])
        return digest

    def zero_padding(self, destination: object, blocks: Blocks) -> None:
        """See `Nest.zero_padding`."""
        write = self._memory(1, destination)
        engines.fill(self._padding, write, self._table(1, blocks), self._nest.pages[1])

    def digest(self, buffer: object, blocks: Blocks, key: int, sample: int, *, side: int) -> int:
        """See `Nest.digest_source` (side 0) and `Nest.digest_destination` (side 1)."""
        read = self._memory(side, buffer, writable=False)
        table = self._table(side, blocks)
        if sample < 1:
            raise LayoutError(f"sample: {sample}; give 1 for everything, or n for one stripe in n")
        plan = self._whole if sample == 1 else self._striped
        nest = self._nest
        return engines.digest(
            plan, read, table, nest.pages[side], side=side, unit=nest.unit, key=key, sample=sample
        )

    def pack(self, source: object, out: object, start: int, stop: int, blocks: Blocks) -> None:
        """See `Nest.pack`."""
        read = self._memory(0, source)
        stream.pack(self._nest, self._stream, read, self._table(0, blocks), out, start=start, stop=stop)

    def unpacker(
        self, destination: object, blocks: Blocks, *, source_order: bool
    ) -> Callable[[object, int, int], None]:
        """See `Nest.unpacker`."""
        write = self._memory(1, destination)
        table = self._table(1, blocks)
        plan = self._source_stream if source_order else self._stream

        def place(data: object, start: int, stop: int) -> None:
            stream.unpack(self._nest, plan, data, write, table, start=start, stop=stop)

        return place

    def _memory(self, side: int, buffer: object, *, writable: bool | None = None) -> Bytes:
        """One side's memory, checked where the other isn't at hand; a destination is written unless told."""
        name, layout = _NAMES[side][0], self._sides[side]
        memory = as_bytes(name, buffer, layout.nbytes, writable=bool(side) if writable is None else writable)
        refuse_misaligned(layout, **{name: memory})
        return memory

    def _table(self, side: int, blocks: Blocks) -> Table:
        return as_table(_NAMES[side][1], self._sides[side], blocks, unique=side == 1)
