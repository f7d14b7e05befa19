"""The order in which a nest is walked, chosen for the caches; which bytes go where is settled already.

Writing strictly forwards can read badly. To fill a column of tiles, every row of the source is visited
for 32 of its 64-byte lines, and all rows have left the cache when the next column comes for the
other half; to fill a head from pages of tokens, every page is visited once a head. Two moves mend it:

* the loop whose turns share lines at the source goes next to the innermost loop, and the innermost is
  cut so that the two make a block of a few KiB;
* round the block, the loops follow the order of the side that the block touches in the smaller
  pieces, so that those pieces' neighbours follow soon.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from hawk_agent.layouts.loops import Loop, Program, advance, by_words

if TYPE_CHECKING:
    from collections.abc import Iterable

LINE = 64
BLOCK = 8192
"""Bytes of a block: two of them, the one moved and the one fetched, fit the first-level cache."""
WORD = 8
PAGE = 4096
STRETCH = 4096
"""Bytes written in one go from which a page of memory is worth the visit."""


def reorder_programs(
    programs: Iterable[Program], pages: tuple[int, int], *, unit: int = 1
) -> tuple[Program, ...]:
    """The same moves in another order; a few programs more where a cut leaves a rest.

    Args:
        programs: their loops in the order of the destination's steps.
        pages: bytes of one page at the source and at the destination, 0 without a block table.
        unit: bytes that are hashed together on the way: the loop that joins them stays in the block.
    """
    walks = (done for program in programs for done in _schedule(program, pages))
    return tuple(walk if _joined(walk, unit) else by_words(walk, unit) for walk in walks)


def _joined(program: Program, unit: int) -> bool:
    """True if no loop outside the block joins pieces of a unit."""
    inside = next((k for k, loop in enumerate(reversed(program.loops[-2:])) if _steps(loop)), 2)
    outside = program.loops[: max(0, len(program.loops) - inside)]
    return program.run >= unit or all(loop.logical != program.run for loop in outside)


def _schedule(program: Program, pages: tuple[int, int]) -> list[Program]:
    *outer, inner = program.loops or (None,)
    if inner is None or _steps(inner):
        return [program]
    near = _nearest(outer, inner, program.run)
    if near is None:
        return _arrange(program, outer, (), inner, pages)
    beside = outer.pop(near)
    return [
        done
        for before, coarse, fine in _split(beside, _turns_beside(program.run, beside, inner))
        for done in _arrange(advance(program, beside, before), [*outer, *coarse], (fine,), inner, pages)
    ]


def _nearest(outer: list[Loop], inner: Loop, run: int) -> int | None:
    """The loop whose turns share lines at the source, unless the innermost does so more closely."""
    sharing = [(loop.source, k) for k, loop in enumerate(outer) if not _steps(loop) and loop.source < LINE]
    if run >= LINE or not sharing or inner.source <= min(sharing)[0]:
        return None
    near = min(sharing)[1]
    between = prod(loop.count for loop in outer[near + 1 :]) * inner.count
    return near if inner.count * run >= LINE or between * LINE > BLOCK else None


def _turns_beside(run: int, beside: Loop, inner: Loop) -> int:
    """How many turns of the loop beside the innermost one block takes.

    Where single elements are transposed they make squares: as many as are a line of the source, or four
    lines where each line of the square is on a memory page of its own, whose visit must pay.
    """
    if beside.source != run or inner.destination != run or run > WORD:
        return BLOCK // LINE
    return (LINE if inner.source < PAGE else 4 * LINE) // run


def _arrange(
    program: Program, outer: list[Loop], beside: tuple[Loop, ...], inner: Loop, pages: tuple[int, int]
) -> list[Program]:
    """Put `beside` round the innermost loop, cut that to a block, and order the loops outside."""
    done = []
    for before, coarse, fine in _split(inner, _turns(program.run, beside, inner, outer)):
        block = (*beside, fine)
        side = _finer_side(program.run, block, pages)
        around = sorted([*outer, *coarse], key=lambda loop: _distance(loop, side, pages), reverse=True)
        done.append(replace(advance(program, inner, before), loops=(*around, *block)))
    return done


def _turns(run: int, beside: tuple[Loop, ...], inner: Loop, outer: list[Loop]) -> int:
    """How many turns of the innermost loop one block takes."""
    if run < LINE:
        line = LINE // run  # a cut inside a line could not be streamed
        return max(1, BLOCK // (run * prod(loop.count for loop in beside)) // line) * line
    interleaved = any(0 < loop.source < inner.source for loop in outer)
    return max(1, STRETCH // run) if interleaved else inner.count


def _finer_side(run: int, block: tuple[Loop, ...], pages: tuple[int, int]) -> int:
    """The side (0 source, 1 destination) that a block touches in smaller pieces; in a tie the paged."""
    source, destination = (_piece(run, block, side) for side in (0, 1))
    if source == destination:
        return 0 if pages[0] and not pages[1] else 1
    return 0 if source < destination else 1


def _piece(run: int, block: tuple[Loop, ...], side: int) -> int:
    """Bytes that are contiguous at one side within a block."""
    for loop in sorted(block, key=lambda loop: loop.steps[side]):
        if loop.steps[side] == run:
            run *= loop.count
    return run


def _distance(loop: Loop, side: int, pages: tuple[int, int]) -> int:
    """How far one turn goes at a side, block table included."""
    return loop.steps[side] + loop.steps[side + 3] * pages[side]


def _split(loop: Loop, most: int) -> list[tuple[int, tuple[Loop, ...], Loop]]:
    """A loop in turns of at most `most`: steps before, the loop of whole turns if any, the turn."""
    whole, rest = divmod(loop.count, most)
    parts: list[tuple[int, tuple[Loop, ...], Loop]] = []
    if whole:
        coarse = (Loop(whole, *(step * most for step in loop.steps)),) if whole > 1 else ()
        parts.append((0, coarse, replace(loop, count=most)))
    if rest:
        parts.append((whole * most, (), replace(loop, count=rest)))
    return parts


def _steps(loop: Loop) -> bool:
    return bool(loop.source_step or loop.destination_step)
