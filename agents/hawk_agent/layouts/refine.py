"""Cutting one axis so that both sides step through it evenly.

Two layouts write the same index in different digits, and a window may start anywhere in them.
`refine` cuts the window into pieces on which both sides advance by constant steps: a piece is a first
index and loops of (count, step in indices). Whole tiles make one piece; a ragged end, or a window
that starts inside a page, adds a few more. The number of pieces depends on the digits and never on
how long the axis is.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from hawk_agent.layouts.errors import LayoutError


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where a digit carries into the next: every `every` indices, at one side or both."""

    every: int
    source: bool
    destination: bool


@dataclass(frozen=True, slots=True)
class AxisPiece:
    """Indices ``first + sum(i_k · step_k)`` for ``0 <= i_k < count_k``, relative to the window."""

    first: int
    loops: tuple[tuple[int, int], ...]


def cuts(axis: str, source: list[int], destination: list[int]) -> list[Cut]:
    """Merge the carries of both sides, finest first.

    Args:
        axis: for the message.
        source: the digit sizes of the source side but the coarsest, finest first.
        destination: the same of the destination side.

    Raises:
        LayoutError: two carries of which neither divides the other.
    """
    left, right = _carries(source), _carries(destination)
    merged = [Cut(every, every in left, every in right) for every in sorted(left | right)]
    for fine, coarse in itertools.pairwise(merged):
        if coarse.every % fine.every:
            a, b = (fine, coarse) if fine.source else (coarse, fine)
            raise LayoutError(
                f"{axis}: the source groups it by {a.every} and the destination by {b.every}, "
                "and neither is a multiple of the other; choose block and tile sizes that nest"
            )
    return merged


def _carries(sizes: list[int]) -> set[int]:
    product, carries = 1, set()
    for size in sizes:
        product *= size
        carries.add(product)
    return carries - {1}


def refine(levels: list[Cut], source: int, destination: int, count: int) -> list[AxisPiece]:
    """Cut a window of `count` indices that starts at `source` on one side and `destination` on the other."""
    return list(_refine(levels, source, destination, 0, count))


def _refine(levels: list[Cut], source: int, destination: int, first: int, count: int) -> Iterator[AxisPiece]:
    if count <= 0:
        return
    if not levels:
        yield AxisPiece(first, ((count, 1),))
        return
    *finer, level = levels
    period = level.every
    # Distances from here to the next carry of either side; they come round every `period` indices.
    starts = ((source, level.source), (destination, level.destination))
    bounds = sorted({-start % period for start, carries in starts if carries})

    def descend(start: int, length: int) -> Iterator[AxisPiece]:
        return _refine(finer, source + start, destination + start, first + start, length)

    yield from descend(0, min(bounds[0], count))
    whole, rest = divmod(max(count - bounds[0], 0), period)
    for start, stop in zip(bounds, [*bounds[1:], bounds[0] + period], strict=True):
        if whole:
            for piece in descend(start, stop - start):
                yield AxisPiece(piece.first, ((whole, period), *piece.loops))
    for start, stop in zip(bounds, [*bounds[1:], bounds[0] + period], strict=True):
        left = rest - (start - bounds[0])
        yield from descend(start + whole * period, min(stop - start, left))
