"""Which code moves the bytes: the C kernel on the widest vectors of this machine, or numpy.

`HAWK_ENGINE` forces one (``numpy``, ``c-portable``, ``c-sse2``, ``c-avx2``, ``c-avx512``,
``c-neon``); it is read at each call, so that tests can run every path in one process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hawk_agent.layouts import digest as _digest
from hawk_agent.layouts import fallback
from hawk_agent.layouts.loops import Loop, Program, part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hawk_agent.layouts.buffers import Bytes, Table

_STRIPE = 4096
"""Bytes that a sampled digest takes at a time."""


def engine() -> str:
    """The engine that runs now, such as ``c-avx2`` or ``numpy``."""
    return "numpy"


def copy(
    programs: Iterable[Program],
    source: Bytes,
    destination: Bytes,
    tables: tuple[Table, Table],
    pages: tuple[int, int],
) -> None:
    """Run programs that copy. `tables` and `pages` are the source's and the destination's."""
    for program in programs:
        fallback.copy(program, source, destination, tables, pages)


def fill(programs: Iterable[Program], destination: Bytes, table: Table, page: int) -> None:
    """Run programs that write zeros."""
    for program in programs:
        fallback.fill(program, destination, table, page)


def digest(
    programs: Iterable[Program],
    buffer: Bytes,
    table: Table,
    page: int,
    *,
    side: int,
    unit: int,
    key: int,
    sample: int = 1,
) -> int:
    """The digest of what programs read (side 0) or write (side 1)."""
    total = 0
    for number, program in enumerate(programs):
        for piece in _sampled(program, number, key, sample):
            total += fallback.hash_side(piece, buffer, table, page, side=side, unit=unit, key=key)
    return total & _digest.MASK


def _sampled(program: Program, number: int, key: int, sample: int) -> list[Program]:
    if sample <= 1:
        return [program]
    striped = _stripes(program)
    each = max(1, _STRIPE // striped.run)
    stripes = -(-striped.runs // each)
    pieces: list[Program] = []
    for pick in _digest.picks(stripes, sample, key, number).tolist():
        pieces += part(striped, pick * each, min(each, striped.runs - pick * each))
    return pieces


def _stripes(program: Program) -> Program:
    """The same program with long runs cut, so that a sample may take a part of one."""
    cut = _STRIPE
    while program.run % cut:
        cut //= 2
    if program.run <= _STRIPE or cut < 64:
        return program
    return replace(program, loops=(*program.loops, Loop(program.run // cut, cut, cut, cut)), run=cut)
