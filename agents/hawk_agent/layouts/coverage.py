"""Proof that a nest moves every element once, to its place, before it moves any.

Give each element the monomial ``x**place · y**entry · w**index``: its byte in the buffer, its entry
in the block table, its logical index. What a layout says is then a sum of monomials, and so is what
a program does; the two sums are equal exactly if the program visits every element once, nothing
else, and each at its place. Neither sum is written out: a loop is a geometric series and a
layout a product of them, so both are evaluated at one random point modulo a prime. Unequal
polynomials of degree n agree at a random point with odds below n / p (Schwartz and Zippel): for a
terabyte 2**40 / 2**89, twice over. The cost is a few powers a loop, whatever the sizes.

The compiler is not trusted for this: the layout's sum is taken from its digits directly.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from hawk_agent.layouts.errors import LayoutError
from hawk_agent.layouts.layout import Layout
from hawk_agent.layouts.loops import Program
from hawk_agent.layouts.notation import AXES

_P = (1 << 89) - 1


class CoverageError(LayoutError):
    """A nest doesn't cover its destination exactly once; it was refused before anything moved."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where the sums are evaluated: a byte in the buffer, a table entry, a logical byte."""

    place: int
    entry: int
    index: int


def random_point(*, index: bool = True) -> Point:
    """A point that no program can have been made for; without `index`, only places are compared."""
    place, entry, order = (secrets.randbelow(_P - 2) + 2 for _ in range(3))
    return Point(place, entry, order if index else 1)


def prove_coverage(
    source: Layout, destination: Layout, moves: Iterable[Program], zeros: Iterable[Program]
) -> None:
    """Check the programs of a nest against both layouts.

    Args:
        source: the layout read, with its window.
        destination: the layout written, with its window.
        moves: programs that copy, in three-way runs (their logical steps are checked too).
        zeros: programs that pad the destination.

    Raises:
        CoverageError: an element is missing, moved twice, or misplaced, on either side.
    """
    moves, zeros = list(moves), list(zeros)
    order = _order(destination)
    for side, layout in (("source", source), ("destination", destination)):
        point = random_point()
        windows = [(e.start, e.stop) for e in layout.extents]
        done = sum(_program(m, point, side, layout.itemsize) for m in moves) % _P
        if done != _layout(layout, windows, order, _starts(layout, destination), point):
            raise CoverageError(
                f"the plan from {source} to {destination} doesn't visit each {side} element once; "
                "nothing was moved: this is a defect of the compiler, please report both layouts"
            )
    if not zeros and all(destination.padded_stop(axis) == destination.extent(axis).stop for axis in AXES):
        return
    point = random_point(index=False)
    windows = [(destination.extent(axis).start, destination.padded_stop(axis)) for axis in AXES]
    written = sum(_program(p, point, "destination", destination.itemsize) for p in [*moves, *zeros]) % _P
    if written != _layout(destination, windows, order, [0] * len(AXES), point):
        raise CoverageError(
            f"the plan from {source} to {destination} doesn't write each destination byte once; "
            "nothing was moved: this is a defect of the compiler, please report both layouts"
        )


def _series(ratio: int, count: int) -> int:
    """1 + ratio + ... + ratio**(count - 1) modulo the prime."""
    if count > 64 and ratio != 1:
        return (pow(ratio, count, _P) - 1) * pow(ratio - 1, -1, _P) % _P
    total, power = 0, 1  # of the leading bits of count: their series, and ratio to their power
    for bit in f"{count:b}":
        total, power = total * (1 + power) % _P, power * power % _P
        if bit == "1":
            total, power = (total * ratio + 1) % _P, power * ratio % _P
    return total


def _program(program: Program, point: Point, side: str, itemsize: int) -> int:
    """The sum of a program's elements."""
    at_source = side == "source"
    place = program.source if at_source else program.destination
    entry = program.source_entry if at_source else program.destination_entry
    total = _monomial(point, place, entry, program.logical)
    total = total * _series(_monomial(point, itemsize, 0, itemsize), program.run // itemsize) % _P
    for loop in program.loops:
        step = loop.source if at_source else loop.destination
        entries = loop.source_step if at_source else loop.destination_step
        total = total * _series(_monomial(point, step, entries, loop.logical), loop.count) % _P
    return total


def _monomial(point: Point, place: int, entry: int, index: int) -> int:
    powers = ((point.place, place), (point.entry, entry), (point.index, index))
    total = 1
    for base, exponent in powers:
        if exponent and base != 1:
            total = total * pow(base, exponent, _P) % _P
    return total


def _layout(
    layout: Layout, windows: list[tuple[int, int]], order: list[int], starts: list[int], point: Point
) -> int:
    """The sum of a layout's elements inside `windows`, axis by axis."""
    total = pow(point.place, layout.offset * layout.itemsize, _P)
    for axis, (start, stop), stride, shift in zip(AXES, windows, order, starts, strict=True):
        if (start, stop, shift) == (0, 1, 0):
            continue  # index zero alone: its place adds nothing
        digits = [
            (point.entry if d.indexed else pow(point.place, d.stride * layout.itemsize, _P), d.size)
            for d in layout.levels(axis)
        ]
        index = pow(point.index, stride, _P)
        part = (_prefix(digits, index, stop) - _prefix(digits, index, start)) % _P
        # Logical indices are the destination's: move the window from this side's start to that one's.
        total = total * part * pow(index, shift, _P) % _P
    return total


def _prefix(digits: list[tuple[int, int]], index: int, count: int) -> int:
    """The sum over the first `count` indices of one axis, from its digits, finest first."""
    if count == 0:
        return 0
    weights: list[tuple[int, int]] = []  # the ratio of each digit with its share of the index, and its size
    every = 1
    for ratio, size in digits:
        weights.append((ratio * pow(index, every, _P) % _P, every))
        every *= size
    total, done = 0, 1
    for k in range(len(weights) - 1, -1, -1):
        ratio, every = weights[k]
        digit, count = divmod(count, every)
        # All smaller values of this digit, with every finer digit running freely ...
        whole = _series(ratio, digit)
        for (finer, _), (_, size) in zip(weights[:k], digits[:k], strict=True):
            whole = whole * _series(finer, size) % _P
        total = (total + done * whole) % _P
        # ... and then this value itself, with the finer digits up to what is left.
        done = done * pow(ratio, digit, _P) % _P
    return total if weights else 1


def _order(destination: Layout) -> list[int]:
    """Bytes between neighbours along each axis in logical order: the destination's, rows of whole words."""
    strides, stride = [], destination.itemsize
    for extent in reversed(destination.extents):
        strides.append(stride)
        stride = -(-stride * extent.size // 8) * 8
    return strides[::-1]


def _starts(layout: Layout, destination: Layout) -> list[int]:
    """By how much a logical index of the destination exceeds this layout's, modulo the group order."""
    pairs = zip(layout.extents, destination.extents, strict=True)
    return [(there.start - here.start) % (_P - 1) for here, there in pairs]
