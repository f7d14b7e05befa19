"""From a pair of layouts to the programs of its nest.

For each axis: cut the window where either side's digits carry (`refine`). The boxes are the products
of the axes' pieces; each becomes one `Program` whose loops know their step at the source, at the
destination and in logical order. Sorting the loops by the destination's steps and coalescing them
gives the fewest loops that write forwards. Nothing here depends on how many tokens there are.
"""

from collections.abc import Iterator
from itertools import product
from math import gcd

from hawk_agent.layouts.compatible import level_sizes
from hawk_agent.layouts.layout import Layout
from hawk_agent.layouts.loops import Loop, Program, coalesce
from hawk_agent.layouts.notation import AXES
from hawk_agent.layouts.refine import AxisPiece, cuts, refine

WORD = 8
"""Bytes of the digest's unit, where no cut is finer."""


class Radix:
    """One axis of one layout as a place-value system: index -> bytes and block-table entries."""

    def __init__(self, layout: Layout, axis: str) -> None:
        self._places: list[tuple[int, int, bool]] = []
        every = 1
        for digit in layout.levels(axis):
            self._places.append((every, digit.stride * layout.itemsize, digit.indexed))
            every *= digit.size
        self._places.reverse()  # coarsest first

    def at(self, index: int) -> tuple[int, int]:
        """Bytes and table entries of an index."""
        offset = entries = 0
        for every, stride, indexed in self._places:
            digit, index = divmod(index, every)
            if indexed:
                entries += digit
            else:
                offset += digit * stride
        return offset, entries

    def step(self, indices: int) -> tuple[int, int]:
        """Bytes and table entries of a step that carries into no coarser digit."""
        for every, stride, indexed in self._places:
            if every <= indices:
                steps = indices // every
                return (0, steps) if indexed else (steps * stride, 0)
        return 0, 0


class LayoutPair:
    """Both layouts and the logical order, ready to turn pieces into loops."""

    def __init__(self, source: Layout, destination: Layout) -> None:
        self.source = {axis: Radix(source, axis) for axis in AXES}
        self.destination = {axis: Radix(destination, axis) for axis in AXES}
        self.logical: dict[str, int] = {}
        stride = destination.itemsize
        for axis in reversed(AXES):
            self.logical[axis] = stride
            stride *= destination.extent(axis).size
            stride += -stride % WORD  # each token's features are whole words
        table = destination.table
        self.page = table.stride * destination.itemsize if table else 0
        self.starts = {axis: (source.extent(axis).start, destination.extent(axis).start) for axis in AXES}
        self.base = (source.offset * source.itemsize, destination.offset * destination.itemsize)
        self.itemsize = destination.itemsize

    def loop(self, axis: str, count: int, indices: int) -> Loop:
        """The loop that takes `count` steps of `indices` along an axis."""
        source, source_step = self.source[axis].step(indices)
        destination, destination_step = self.destination[axis].step(indices)
        return Loop(count, source, destination, indices * self.logical[axis], source_step, destination_step)

    def box(self, pieces: tuple[AxisPiece, ...]) -> Program:
        """One program from a piece of each axis, in the order of `AXES`; its run is one element."""
        source, destination = self.base
        order = source_entry = destination_entry = 0
        loops: list[Loop] = []
        for axis, piece in zip(AXES, pieces, strict=True):
            from_start, to_start = self.starts[axis]
            offset, entry = self.source[axis].at(from_start + piece.first)
            source, source_entry = source + offset, source_entry + entry
            offset, entry = self.destination[axis].at(to_start + piece.first)
            destination, destination_entry = destination + offset, destination_entry + entry
            order += (to_start + piece.first) * self.logical[axis]
            loops += [self.loop(axis, count, indices) for count, indices in piece.loops if count > 1]
        loops.sort(key=lambda loop: loop.destination + loop.destination_step * self.page, reverse=True)
        return Program(
            source, destination, order, source_entry, destination_entry, tuple(loops), self.itemsize
        )


def boxes(source: Layout, destination: Layout) -> list[tuple[AxisPiece, ...]]:
    """The boxes of a translation: a piece of each axis, in the order of `AXES`."""
    if any(extent.count == 0 for extent in destination.extents):
        return []
    pieces = []
    for axis, left, right in zip(AXES, source.extents, destination.extents, strict=True):
        levels = cuts(axis, level_sizes(source, axis), level_sizes(destination, axis))
        pieces.append(refine(levels, left.start, right.start, left.count))
    return list(product(*pieces))


def fills(destination: Layout) -> Iterator[Program]:
    """The padding of ragged tails (see `Layout.padded_stop`), as programs that write zeros."""
    windows = [
        (e.start, e.stop, destination.padded_stop(axis))
        for axis, e in zip(AXES, destination.extents, strict=True)
    ]
    if any(start == stop for start, stop, _ in windows) or all(stop == end for _, stop, end in windows):
        return
    sides = LayoutPair(destination, destination)
    for k, (_, stop, padded) in enumerate(windows):
        if padded == stop:
            continue
        spans = (
            [(a, b) for a, b, _ in windows[:k]] + [(stop, padded)] + [(a, c) for a, _, c in windows[k + 1 :]]
        )
        pieces = []
        for axis, (start, end) in zip(AXES, spans, strict=True):
            carries = level_sizes(destination, axis)
            levels = cuts(axis, carries, carries)
            pieces.append([_shift(piece, start) for piece in refine(levels, start, start, end - start)])
        sides.starts = dict.fromkeys(AXES, (0, 0))
        for box in product(*pieces):
            yield coalesce(sides.box(box), logical=False)


def _shift(piece: AxisPiece, by: int) -> AxisPiece:
    return AxisPiece(piece.first + by, piece.loops)


def unit(source: Layout, destination: Layout) -> int:
    """Bytes of the digest's unit: a word, or the largest power of two of it that no program begins inside.

    A side's finest cut may fall inside words: then their pieces stand along one loop, and the digest joins
    them. It depends on the feature axis alone, so that windows of layers, heads or tokens of one pair
    hash the same units and their digests add up.
    """
    extents = (source.extent("d"), destination.extent("d"))
    carries = [cut.every for cut in cuts("d", level_sizes(source, "d"), level_sizes(destination, "d"))]
    bounds = [extent.start for extent in extents]
    bounds += [extent.stop for extent in extents if extent.stop != extent.size]
    if not all(map(_contiguous, (source, destination))):
        carries.insert(0, 1)
    paged = any(side.table is not None and side.table.axis == "d" for side in (source, destination))
    if carries and not paged and WORD % (carries[0] * destination.itemsize) == 0:
        finest = carries.pop(0)
        bounds += [extent.size // finest * finest for extent in extents if extent.size % finest]
    return gcd(WORD, gcd(*bounds, *carries) * destination.itemsize)


def _contiguous(side: Layout) -> bool:
    """True if neighbouring features are neighbours in memory."""
    finest = next((digit for digit in side.levels("d") if digit.size > 1), None)
    return finest is None or finest.stride == 1
