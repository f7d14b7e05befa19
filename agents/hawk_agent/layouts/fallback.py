"""The numpy engine: what runs where the C kernel wasn't built, bit for bit the same."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from hawk_agent.layouts import digest
from hawk_agent.layouts.loops import Program, part

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
    total = 0
    runs = max(1, _BATCH * unit // program.run)
    for first in range(0, program.runs, runs):
        for piece in part(program, first, min(runs, program.runs - first)):
            total += _hash_box(piece, buffer, table, page, side=side, unit=unit, key=key)
    return total & digest.MASK


def _hash_box(
    program: Program, buffer: Bytes, table: Table, page: int, *, side: int, unit: int, key: int
) -> int:
    loops = program.loops
    flat = [loop for loop in loops if not (loop.destination_step if side else loop.source_step)]
    stepped = [loop for loop in loops if loop not in flat]
    shape = (*(loop.count for loop in flat), program.run // unit)
    strides = (*(loop.destination if side else loop.source for loop in flat), unit)
    grid = np.zeros(shape, np.uint64)
    for axis, (count, step) in enumerate([*((loop.count, loop.logical) for loop in flat), (shape[-1], unit)]):
        steps = np.arange(count, dtype=np.uint64) * np.uint64(step // unit)
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
        units = _view(buffer, at, shape, strides, np.dtype(f"<u{unit}")).astype(np.uint64)
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
