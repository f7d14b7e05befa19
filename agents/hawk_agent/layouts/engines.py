"""Which code moves the bytes: the C kernel on the widest vectors of this machine, or numpy.

`HAWK_ENGINE` forces one (``numpy``, ``c-portable``, ``c-sse2``, ``c-avx2``, ``c-avx512``,
``c-neon``); it is read at each call, so that tests can run every path in one process.
"""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from hawk_agent.layouts import digest as _digest
from hawk_agent.layouts import fallback
from hawk_agent.layouts.errors import LayoutError
from hawk_agent.layouts.loops import Loop, Program, part, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from hawk_agent.layouts.buffers import Bytes, Table

try:
    from hawk_agent.layouts import _kernel
except ImportError:  # built without a compiler
    _kernel = None  # type: ignore[assignment]

STREAM_FROM = 4 << 20
"""Bytes from which stores go past the caches: less may still be in them when it is read next."""

_STRIPE = 4096
"""Bytes that a sampled digest takes at a time."""


def available() -> list[str]:
    """The engines that this machine can run, best first."""
    paths = _kernel.paths() if _kernel is not None else ()
    return [*(f"c-{path}" for path in reversed(paths)), "numpy"]


def engine() -> str:
    """The engine that runs now, such as ``c-avx2`` or ``numpy``.

    Raises:
        LayoutError: `HAWK_ENGINE` names one that this machine can't run.
    """
    forced = os.environ.get("HAWK_ENGINE")
    if not forced:
        return _best()
    if forced not in available():
        raise LayoutError(f"HAWK_ENGINE: {forced!r} can't run here; use one of {', '.join(available())}")
    return forced


def kernel() -> ModuleType:
    """The compiled kernel itself, for what only it has: plain copies to measure against.

    Raises:
        LayoutError: it wasn't built.
    """
    if _kernel is None:
        raise LayoutError("engine: the C kernel isn't built; install a C compiler and reinstall the package")
    return _kernel


@lru_cache(maxsize=1)
def _best() -> str:
    return available()[0]


@dataclass(frozen=True, eq=False)
class CopyPlan:
    """Programs made ready to run: as the kernel reads them, with what they move."""

    programs: tuple[Program, ...]
    words: array[int]
    nbytes: int


def prepare(programs: Iterable[Program]) -> CopyPlan:
    """Programs as the kernel reads them: seven words, then six for each loop."""
    kept, words = tuple(programs), array("q")
    for p in kept:
        words.extend((len(p.loops), p.source, p.destination, p.logical))
        words.extend((p.source_entry, p.destination_entry, p.run))
        for loop in p.loops:
            words.extend((loop.count, *loop.steps))
    return CopyPlan(kept, words, sum(p.nbytes for p in kept))


def copy(
    plan: CopyPlan,
    source: Bytes,
    destination: Bytes,
    tables: tuple[Table, Table],
    pages: tuple[int, int],
    *,
    key: int | None = None,
    unit: int = 1,
) -> int | None:
    """Run a plan that copies. `tables` and `pages` are the source's and the destination's.

    With a key, the programs must be in logical runs of whole units, and the digest of what was
    read comes back; the C kernel hashes while it copies.
    """
    path = engine()
    if path != "numpy":
        words = (0, 0, 0) if key is None else (*_digest.key_words(key), unit)
        stream = plan.nbytes >= STREAM_FROM
        found = _kernel.copy(path[2:], plan.words, source, destination, *tables, *pages, stream, words)
        return None if key is None else found
    for program in plan.programs:
        fallback.copy(program, source, destination, tables, pages)
    if key is None:
        return None
    return digest(plan, source, tables[0], pages[0], side=0, unit=unit, key=key)


def move_span(
    plan: CopyPlan,
    source: Bytes,
    destination: Bytes,
    tables: tuple[Table, Table],
    pages: tuple[int, int],
    *,
    span: tuple[int, int],
    packing: bool,
) -> bool:
    """Move a span of a plan's stream in one call; False where there is no kernel to do it.

    What is unpacked goes past the caches if all of it is large: it won't be read soon.
    """
    path = engine()
    if path == "numpy":
        return False
    past = not packing and plan.nbytes >= STREAM_FROM
    _kernel.part(path[2:], plan.words, source, destination, *tables, *pages, *span, packing, past)
    return True


def fill(plan: CopyPlan, destination: Bytes, table: Table, page: int) -> None:
    """Run a plan that writes zeros."""
    if not plan.programs:
        return
    if engine() != "numpy":
        _kernel.fill(plan.words, destination, table, page)
        return
    for program in plan.programs:
        fallback.fill(program, destination, table, page)


def digest(
    plan: CopyPlan,
    buffer: Bytes,
    table: Table,
    page: int,
    *,
    side: int,
    unit: int,
    key: int,
    sample: int = 1,
) -> int:
    """The digest of what a plan reads (side 0) or writes (side 1).

    A sample takes one block of so many: its plan must be cut into `stripes`.
    """
    path = engine()
    if path != "numpy":
        words = (*_digest.key_words(key), unit)
        chance = (*_digest.key_words(key ^ _digest.MASK), sample)
        return _kernel.digest(path[2:], plan.words, buffer, table, page, bool(side), words, chance)
    total = 0
    for number, program in enumerate(plan.programs):
        for piece in _sampled(program, number, key, sample):
            total += fallback.hash_side(piece, buffer, table, page, side=side, unit=unit, key=key)
    return total & _digest.MASK


def _sampled(program: Program, number: int, key: int, sample: int) -> list[Program]:
    """The blocks of a striped program that a sample takes."""
    if sample <= 1:
        return [program]
    block = 1
    for loop in program.loops[-2:][::-1]:
        if loop.source_step or loop.destination_step:
            break
        block *= loop.count
    picks = _digest.picks(program.runs // block, sample, key, number)
    return [piece for pick in picks.tolist() for piece in part(program, pick * block, block)]


def stripes(program: Program) -> tuple[Program, ...]:
    """The same program, its two inner loops cut to blocks of some 4 KiB: what a sample takes at a time."""
    return tuple(_stripe(piece) for piece in shorten(program, _STRIPE))


def _stripe(program: Program) -> Program:
    *outer, inner = program.loops or (Loop(1, 0, 0, 0),)
    if not _steps(inner):
        *coarse, inner = _cut(inner, _STRIPE // program.run, even=max(1, 8 // program.run))
        outer += coarse
    if outer and not _steps(outer[-1]) and not _steps(inner):
        outer[-1:] = _cut(outer[-1], _STRIPE // (program.run * inner.count))
    return replace(program, loops=(*outer, inner))


def _steps(loop: Loop) -> bool:
    return bool(loop.source_step or loop.destination_step)


def _cut(loop: Loop, most: int, even: int = 1) -> list[Loop]:
    """A loop in equal turns (at most `most`, a multiple of `even`, or whole): the loop of turns, the turn."""
    fit = (n for n in range(min(max(most, 1), loop.count), 0, -1) if loop.count % n == 0 and n % even == 0)
    fine = next(fit, loop.count)
    # A loop of one turn keeps the loops outside it out of the block, which is the inner two.
    return [Loop(loop.count // fine, *(step * fine for step in loop.steps)), replace(loop, count=fine)]
