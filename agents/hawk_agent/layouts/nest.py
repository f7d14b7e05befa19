"""The nest: a compiled pair of layouts, and everything that can be done with it.

Compiling one, counting and pricing it are arithmetic; what touches memory is in `running`, and is loaded
(with numpy) when a nest is first run: a planner that asks how long a transfer takes doesn't wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from hawk_agent.layouts import coverage
from hawk_agent.layouts.compatible import require_compatible
from hawk_agent.layouts.compiler import LayoutPair, boxes, fills, unit
from hawk_agent.layouts.loops import Program, coalesce

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_agent.layouts.buffers import Blocks
    from hawk_agent.layouts.layout import Layout
    from hawk_agent.layouts.running import Running


@dataclass(frozen=True, eq=False)
class Nest:
    """The translation of one layout into another.

    Attributes:
        source: the layout read, with its window.
        destination: the layout written, with its window.
        moves: programs that copy; loops outermost first, writing forwards.
        units: the same in runs that are contiguous in logical order too, for the digest.
        zeros: programs that clear the padding of ragged tails.
        unit: bytes of the digest's unit.
    """

    source: Layout
    destination: Layout
    moves: tuple[Program, ...]
    units: tuple[Program, ...]
    zeros: tuple[Program, ...]
    unit: int

    @cached_property
    def payload_nbytes(self) -> int:
        """Bytes that move (padding excluded)."""
        return sum(move.nbytes for move in self.moves)

    @cached_property
    def runs(self) -> int:
        """Contiguous pieces that move."""
        return sum(move.runs for move in self.moves)

    @cached_property
    def source_stream(self) -> tuple[Program, ...]:
        """The moves in the order of the source; `moves` are in that of the destination."""
        return tuple(
            replace(move, loops=tuple(sorted(move.loops, key=lambda loop: loop.steps[0::3], reverse=True)))
            for move in self.moves
        )

    @cached_property
    def _running(self) -> Running:
        from hawk_agent.layouts.running import Running  # noqa: PLC0415 -- see above

        return Running(self)

    @cached_property
    def pages(self) -> tuple[int, int]:
        """Bytes between two entries of the source's and the destination's block table; 0 without."""
        tables = (self.source.table, self.destination.table)
        sizes = (self.source.itemsize, self.destination.itemsize)
        left, right = (t.stride * s if t else 0 for t, s in zip(tables, sizes, strict=True))
        return left, right

    def layers(self, first: int, count: int) -> Nest:
        """The nest of a run of layers, counted inside this nest's window."""
        return self.window("l", first, first + count)

    def window(self, axis: str, start: int, stop: int) -> Nest:
        """The nest of the window [start, stop) of an axis, counted inside this nest's window."""
        return compile_nest(self.source.narrow(axis, start, stop), self.destination.narrow(axis, start, stop))

    def run(
        self,
        source: object,
        destination: object,
        *,
        source_blocks: Blocks = None,
        destination_blocks: Blocks = None,
        key: int | None = None,
    ) -> int | None:
        """Translate, padding included.

        Args:
            source: a buffer of at least `source.nbytes`.
            destination: a writable buffer of at least `destination.nbytes`.
            source_blocks: the source's block table: page numbers of the whole sequence in order.
            destination_blocks: the same of the destination; no page twice.
            key: if given, also return the digest of what was read.

        Raises:
            LayoutError: a buffer or a table doesn't fit; nothing has been written then.
        """
        return self._running.run(source, destination, source_blocks, destination_blocks, key)

    def zero_padding(self, destination: object, *, destination_blocks: Blocks = None) -> None:
        """Clear the destination's padding only, as a receiver does that places the payload itself."""
        self._running.zero_padding(destination, destination_blocks)

    def digest_source(self, source: object, key: int, *, blocks: Blocks = None, sample: int = 1) -> int:
        """The digest (modulo 2**64) of what this nest reads.

        Args:
            source: the source buffer.
            key: drawn anew for each transfer, the same at both sides.
            blocks: the source's block table.
            sample: 1 hashes everything; n hashes about one stripe in n, chosen by the key.
        """
        return self._running.digest(source, blocks, key, sample, side=0)

    def digest_destination(
        self, destination: object, key: int, *, blocks: Blocks = None, sample: int = 1
    ) -> int:
        """The digest of what this nest writes; equal to `digest_source` if the translation is right."""
        return self._running.digest(destination, blocks, key, sample, side=1)

    def pack(
        self, source: object, out: object, start: int, stop: int, *, source_blocks: Blocks = None
    ) -> None:
        """Write bytes [start, stop) of the payload, in destination order, to `out` (a bounce buffer)."""
        self._running.pack(source, out, start, stop, source_blocks)

    def unpack(
        self, data: object, destination: object, start: int, stop: int, *, destination_blocks: Blocks = None
    ) -> None:
        """Place bytes [start, stop) of the payload, as `pack` made them. Padding is left alone."""
        self.unpacker(destination, destination_blocks=destination_blocks)(data, start, stop)

    def unpacker(
        self, destination: object, *, destination_blocks: Blocks = None, source_order: bool = False
    ) -> Callable[[object, int, int], None]:
        """`unpack` for many pieces: the destination is checked once.

        Args:
            destination: a writable buffer of at least `destination.nbytes`.
            destination_blocks: its block table.
            source_order: whether the stream is in the order of the source, as its memory stands where it is
                one range; else in that of the destination, as `pack` makes it.

        Returns:
            What places (data, start, stop): the stream's bytes [start, stop).
        """
        return self._running.unpacker(destination, destination_blocks, source_order=source_order)


@lru_cache(maxsize=4096)
def compile_nest(source: Layout, destination: Layout, *, padding: bool = True) -> Nest:
    """Compile a translation, or return the one compiled before.

    The time taken depends on the digits of both layouts and never on their sizes. Coverage is proved
    before the nest is returned.

    Args:
        source: the layout read.
        destination: the layout written.
        padding: whether the destination's last tiles and pages may have cells that belong to no element.

    Raises:
        LayoutError: the two can't be translated; the message names every field that differs, with
            both values and the remedy.
        CoverageError: the compiler made a plan that isn't right (a defect): it is refused.
    """
    require_compatible(source, destination, padding=padding)
    sides = LayoutPair(source, destination)
    plan = [sides.box(box) for box in boxes(source, destination)]
    moves = tuple(coalesce(box, logical=False) for box in plan)
    units = tuple(coalesce(box, logical=True) for box in plan)
    zeros = tuple(fills(destination))
    coverage.prove_coverage(source, destination, units, zeros)
    return Nest(source, destination, moves, units, zeros, unit(source, destination))
