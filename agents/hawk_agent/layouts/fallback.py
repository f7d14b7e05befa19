"""The numpy engine: what runs where the C kernel wasn't built, bit for bit the same."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from hawk_agent.layouts import digest
from hawk_agent.layouts.loops import Loop, Program, advance, by_words

Bytes = npt.NDArray[np.uint8]
Table = npt.NDArray[np.int64]

_BATCH = 1 << 20  # units hashed at once, to bound the memory that their places take


def copy(
    program: Program, source: Bytes, destination: Bytes, tables: tuple[Table, Table], pages: tuple[int, int]
) -> None:
    """Run one program. `tables` and `pages` (bytes of one page) are source's and destination's."""
    flat = [loop for loop in program.loops if not loop.source_step and not loop.destination_step]
    shape = tuple(loop.count for loop in flat)
    run = np.dtype((np.void, program.run))
    for start, end in _starts(program, tables, pages):
        to = _view(destination, end, shape, tuple(loop.destination for loop in flat), run)
        to[...] = _view(source, start, shape, tuple(loop.source for loop in flat), run)


def fill(program: Program, destination: Bytes, table: Table, page: int) -> None:
    """Write zeros where one program points."""
    flat = [loop for loop in program.loops if not loop.destination_step]
    strides = (*(loop.destination for loop in flat), 1)
    shape = (*(loop.count for loop in flat), program.run)
    for _, end in _starts(program, (table, table), (0, page)):
        _view(destination, end, shape, strides, np.dtype(np.uint8))[...] = 0


def hash_side(
    program: Program, buffer: Bytes, table: Table, page: int, *, side: int, unit: int, key: int
) -> int:
    """The digest of what one program reads (side 0) or has written (side 1)."""
    return (
        sum(
            _hash_box(piece, buffer, table, page, side=side, unit=unit, key=key)
            for piece in _batches(by_words(program, unit), max(1, _BATCH * unit // program.run))
        )
        & digest.MASK
    )


def _batches(program: Program, most: int) -> Iterator[Program]:
    """The same moves in programs of about `most` runs; the innermost loop stays whole."""
    if program.runs <= most or len(program.loops) < 2:
        yield program
        return
    outer, *inner = program.loops
    body = replace(program, loops=tuple(inner))
    turns = max(1, most // body.runs)
    for first in range(0, outer.count, turns):
        count = min(turns, outer.count - first)
        loops = (replace(outer, count=count), *inner)
        yield from _batches(
            replace(advance(body, outer, first), loops=loops if count > 1 else tuple(inner)), most
        )


def _hash_box(
    program: Program, buffer: Bytes, table: Table, page: int, *, side: int, unit: int, key: int
) -> int:
    """Whole units and then what is left: of each run, or of the innermost loop where that joins units."""
    inner = program.loops[-1] if program.loops else None
    if program.run < unit and inner is not None and inner.logical == program.run:
        each, outer = unit // program.run, program.loops[:-1]
        whole, rest = divmod(inner.count, each)
        stride = inner.destination if side else inner.source
        turns = Loop(whole, *(step * each for step in inner.steps))
        parts = [
            (program, (*outer, turns), Pieces(program.run, each, stride)),
            (advance(program, inner, whole * each), outer, Pieces(program.run, rest, stride)),
        ]
    else:
        whole, rest = divmod(program.run, unit)
        along = Loop(whole, unit, unit, unit)
        parts = [
            (program, (*program.loops, along), Pieces(unit, 1, 0)),
            (advance(program, along, whole), program.loops, Pieces(1, rest, 1)),
        ]
    return sum(
        _hash_units(replace(start, loops=loops), pieces, buffer, table, page, side=side, unit=unit, key=key)
        for start, loops, pieces in parts
        if pieces.pieces and all(loop.count for loop in loops)
    )


class Pieces(NamedTuple):
    """How a unit is put together: bytes of a piece, pieces, bytes from one to the next."""

    nbytes: int
    pieces: int
    stride: int


def _hash_units(
    program: Program,
    pieces: Pieces,
    buffer: Bytes,
    table: Table,
    page: int,
    *,
    side: int,
    unit: int,
    key: int,
) -> int:
    """The digest of one unit for each turn of a program's loops."""
    flat = [loop for loop in program.loops if not (loop.destination_step if side else loop.source_step)]
    stepped = [loop for loop in program.loops if loop not in flat]
    flat.append(Loop(1, 0, 0, 0))  # an array, not a number, where nothing loops
    shape = tuple(loop.count for loop in flat)
    strides = tuple(loop.destination if side else loop.source for loop in flat)
    grid = np.zeros(shape, np.uint64)
    for axis, loop in enumerate(flat):
        steps = np.arange(loop.count, dtype=np.uint64) * np.uint64(loop.logical // unit)
        grid += steps.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    total = 0
    for index in product(*(range(loop.count) for loop in stepped)):
        at = program.destination if side else program.source
        entry = program.destination_entry if side else program.source_entry
        logical = program.logical
        for i, loop in zip(index, stepped, strict=True):
            at += i * (loop.destination if side else loop.source)
            entry += i * (loop.destination_step if side else loop.source_step)
            logical += i * loop.logical
        at += int(table[entry]) * page if page else 0
        units = np.zeros(shape, np.uint64)
        for k in range(pieces.pieces):
            piece = _view(buffer, at + k * pieces.stride, shape, strides, np.dtype(f"<u{pieces.nbytes}"))
            units |= piece.astype(np.uint64) << np.uint64(8 * pieces.nbytes * k)
        total += digest.hash_units(units, grid + np.uint64(logical // unit), key)
    return total


def _starts(
    program: Program, tables: tuple[Table, Table], pages: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """Where the strided part of a program begins at both sides, once for every turn of its table loops."""
    stepped = [loop for loop in program.loops if loop.source_step or loop.destination_step]
    for index in product(*(range(loop.count) for loop in stepped)):
        start, end = program.source, program.destination
        source_entry, destination_entry = program.source_entry, program.destination_entry
        for i, loop in zip(index, stepped, strict=True):
            start, end = start + i * loop.source, end + i * loop.destination
            source_entry += i * loop.source_step
            destination_entry += i * loop.destination_step
        yield (
            start + (int(tables[0][source_entry]) * pages[0] if pages[0] else 0),
            end + (int(tables[1][destination_entry]) * pages[1] if pages[1] else 0),
        )


def _view(
    buffer: Bytes, start: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[np.generic]
) -> npt.NDArray[np.generic]:
    """Strided items of a byte buffer; the caller has checked the bounds."""
    first = buffer[start : start + dtype.itemsize].view(dtype)
    return as_strided(first, shape, strides)
