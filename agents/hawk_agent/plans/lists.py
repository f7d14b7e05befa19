"""A nest as lists of contiguous pieces, for an engine that takes descriptors (address, length).

Two ways, both cut to batches of bounded size, so that memory doesn't grow with the sequence:

- `direct`: each run of the nest is a descriptor, from its place in the source to that in the destination.
- `bounced`: each stretch that is contiguous at the *source* is a descriptor, into a buffer of cache size; a
  program then places the buffer's bytes. A block of the source is contiguous however its rows are spread at
  the destination, so these are few where runs are many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hawk_agent.layouts.loops import Loop, part, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawk_agent.layouts import Nest
    from hawk_agent.layouts.loops import Program

Offsets = npt.NDArray[np.int64]
Table = npt.NDArray[np.integer[Any]] | None
DESCRIPTORS = 1 << 14
"""Descriptors of one batch at most."""


@dataclass(frozen=True)
class Batch:
    """Pieces that are fetched together.

    Attributes:
        source: offsets in the source.
        target: offsets in the destination (`direct`) or in the buffer (`bounced`).
        lengths: bytes of each piece.
        programs: what places the buffer's bytes; empty where the pieces are in place.
    """

    source: Offsets
    target: Offsets
    lengths: Offsets
    programs: tuple[Program, ...] = ()


def direct(nest: Nest, tables: tuple[Table, Table], room: int, most: int = DESCRIPTORS) -> Iterator[Batch]:
    """Every run as a descriptor, `room` bytes at a time."""
    for move in nest.moves:
        for program in shorten(move, room):
            each = min(most, room // program.run)
            for first in range(0, program.runs, each):
                for piece in part(program, first, min(each, program.runs - first)):
                    source = _starts(piece, piece.loops, 0, tables[0], nest.pages[0])
                    target = _starts(piece, piece.loops, 1, tables[1], nest.pages[1])
                    yield _merged(source, target, piece.run)


def bounced(nest: Nest, table: Table, room: int, most: int = DESCRIPTORS) -> Iterator[Batch]:
    """Stretches of the source through a buffer of `room` bytes; `table` is the source's.

    The programs read the buffer and write the destination, through its block table where it has one.
    """
    for move in nest.moves:
        for program in shorten(move, room):
            outer, inner = _stretch(program, room)
            stretch = program.run * prod(loop.count for loop in inner)
            each = min(most, room // stretch)
            ordered = replace(program, loops=(*outer, *inner))
            inside, turns = prod(loop.count for loop in inner), prod(loop.count for loop in outer)
            for first in range(0, turns, each):
                pieces = part(ordered, first * inside, min(each, turns - first) * inside)
                yield _batch(pieces, len(inner), stretch, table, nest.pages[0])


def _batch(pieces: list[Program], inner: int, stretch: int, table: Table, page: int) -> Batch:
    starts, programs, at = [], [], 0
    for piece in pieces:
        cut = len(piece.loops) - inner
        found = _starts(piece, piece.loops[:cut], 0, table, page)
        programs.append(_from_buffer(piece, cut, stretch, at))
        starts.append(found)
        at += found.size * stretch
    source = np.concatenate(starts)
    merged = _merged(source, np.arange(source.size, dtype=np.int64) * stretch, stretch)
    return replace(merged, programs=tuple(programs))


def _stretch(program: Program, room: int) -> tuple[list[Loop], list[Loop]]:
    """The loops that a contiguous stretch of the source is made of, up to `room` bytes, and those outside."""
    inner: list[Loop] = []
    nbytes = program.run
    for loop in sorted(program.loops, key=lambda loop: loop.source):
        if loop.source == nbytes and not loop.source_step:
            if nbytes * loop.count > room:
                break
            inner.append(loop)
            nbytes *= loop.count
    return [loop for loop in program.loops if loop not in inner], inner[::-1]


def _starts(program: Program, loops: tuple[Loop, ...], side: int, table: Table, page: int) -> Offsets:
    """Where each turn of some loops begins at one side, outermost first."""
    at = np.array([program.destination if side else program.source], np.int64)
    entry = np.array([program.destination_entry if side else program.source_entry], np.int64)
    for loop in loops:
        turns = np.arange(loop.count, dtype=np.int64)
        at = (at[:, None] + turns * loop.steps[side]).ravel()
        entry = (entry[:, None] + turns * loop.steps[side + 3]).ravel()
    return at if table is None else at + np.asarray(table, np.int64)[entry] * page


def _merged(source: Offsets, target: Offsets, nbytes: int) -> Batch:
    """Neighbours at both sides as one piece."""
    follows = (np.diff(source) == nbytes) & (np.diff(target) == nbytes)
    first = np.flatnonzero(np.concatenate(([True], ~follows)))
    counts = np.diff(np.append(first, source.size))
    return Batch(source[first], target[first], counts * nbytes)


def _from_buffer(piece: Program, cut: int, stretch: int, at: int) -> Program:
    """The same moves with the buffer as their source: stretch after stretch from `at`."""
    step, loops = stretch, []
    for loop in reversed(piece.loops[:cut]):
        loops.append(replace(loop, source=step, source_step=0))
        step *= loop.count
    return replace(piece, source=at, source_entry=0, loops=(*reversed(loops), *piece.loops[cut:]))
