"""The payload as a stream: what goes through a bounce buffer and over a wire.

The stream is the nest's runs one after the other, in the order in which they stand in the
destination (or in the source, where that is one range and goes out as it is). It belongs to the pair
alone: no block table, address or padding enters it, so two agents that compiled the same pair agree
on every byte's position and either may cut it where it likes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hawk_agent.layouts import engines
from hawk_agent.layouts.buffers import Bytes, Table, as_bytes
from hawk_agent.layouts.errors import LayoutError
from hawk_agent.layouts.loops import Program, part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawk_agent.layouts.nest import Nest

_NO_TABLE = np.zeros(0, np.int64)


def pack(
    nest: Nest, plan: engines.CopyPlan, source: Bytes, table: Table, out: object, *, start: int, stop: int
) -> None:
    """See `Nest.pack`."""
    _check(nest, start, stop)
    write = as_bytes("out", out, stop - start, writable=True)
    sides = (source, write[: stop - start], (table, _NO_TABLE), (nest.pages[0], 0))
    if not engines.move_span(plan, *sides, span=(start, stop), packing=True):
        programs = [into_stream(piece, at - start) for piece, at in cut(nest.moves, start, stop)]
        engines.copy(engines.prepare(programs), *sides)


def unpack(
    nest: Nest,
    plan: engines.CopyPlan,
    data: object,
    destination: Bytes,
    table: Table,
    *,
    start: int,
    stop: int,
) -> None:
    """See `Nest.unpacker`; the plan is the nest's `stream` or its `source_stream`."""
    _check(nest, start, stop)
    read = as_bytes("data", data, stop - start, writable=False)
    sides = (read[: stop - start], destination, (_NO_TABLE, table), (0, nest.pages[1]))
    if not engines.move_span(plan, *sides, span=(start, stop), packing=False):
        programs = [from_stream(piece, at - start) for piece, at in cut(plan.programs, start, stop)]
        engines.copy(engines.prepare(programs), *sides)


def _check(nest: Nest, start: int, stop: int) -> None:
    if not 0 <= start <= stop <= nest.payload_nbytes:
        raise LayoutError(
            f"range: {start}:{stop} leaves the payload of {nest.payload_nbytes} bytes; choose one inside it"
        )


def cut(programs: tuple[Program, ...], start: int, stop: int) -> Iterator[tuple[Program, int]]:
    """Programs for the stream's bytes [start, stop), each with its position in the stream."""
    base = 0
    for program in programs:
        low, high = max(start - base, 0), min(stop - base, program.nbytes)
        position = base + low
        while low < high:
            first, skip = divmod(low, program.run)
            if skip or high - low < program.run:  # a cut inside a run
                take = min(program.run - skip, high - low)
                pieces = [_slice(piece, skip, take) for piece in part(program, first, 1)]
            else:
                take = (high - low) // program.run * program.run
                pieces = part(program, first, take // program.run)
            for piece in pieces:
                yield piece, position
                position += piece.nbytes
            low += take
        base += program.nbytes


def _slice(program: Program, skip: int, take: int) -> Program:
    return replace(
        program,
        source=program.source + skip,
        destination=program.destination + skip,
        logical=program.logical + skip,
        run=take,
    )


def into_stream(program: Program, at: int) -> Program:
    """The program with the stream, from `at` on, as its destination."""
    step, loops = program.run, []
    for loop in reversed(program.loops):
        loops.append(replace(loop, destination=step, destination_step=0))
        step *= loop.count
    return replace(program, destination=at, destination_entry=0, loops=tuple(reversed(loops)))


def from_stream(program: Program, at: int) -> Program:
    """The program with the stream, from `at` on, as its source."""
    step, loops = program.run, []
    for loop in reversed(program.loops):
        loops.append(replace(loop, source=step, source_step=0))
        step *= loop.count
    return replace(program, source=at, source_entry=0, loops=tuple(reversed(loops)))
