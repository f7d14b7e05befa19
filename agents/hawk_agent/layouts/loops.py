"""Loops: the arithmetic of a nest.

A loop steps three places at once: in the source, in the destination and in the logical order that
the digest counts by, all in bytes, and the two block tables, in entries. Two laws make nests small:

* a loop whose step equals the run inside it on every side is part of the run;
* two neighbouring loops of which the outer steps as far as the whole inner one are one loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Loop:
    """`count` steps; byte steps in source, destination and logical order, entry steps in the tables."""

    count: int
    source: int
    destination: int
    logical: int
    source_step: int = 0
    destination_step: int = 0

    @property
    def steps(self) -> tuple[int, int, int, int, int]:
        """All five steps."""
        return (self.source, self.destination, self.logical, self.source_step, self.destination_step)


@dataclass(frozen=True, slots=True)
class Program:
    """One box of a nest: where it begins, its loops (outermost first) and its contiguous run in bytes."""

    source: int
    destination: int
    logical: int
    source_entry: int
    destination_entry: int
    loops: tuple[Loop, ...]
    run: int

    @property
    def runs(self) -> int:
        """How many runs the loops make."""
        total = 1
        for loop in self.loops:
            total *= loop.count
        return total

    @property
    def nbytes(self) -> int:
        """Bytes moved."""
        return self.runs * self.run


def coalesce(program: Program, *, logical: bool) -> Program:
    """The same moves in the fewest loops.

    Args:
        program: its loops in the order of the destination's steps, outermost first.
        logical: whether the logical order counts as a side (it does for a digest, not for a copy).
    """
    run, rest = program.run, [loop for loop in program.loops if loop.count > 1]
    while rest and _continues(rest[-1], run, logical=logical):
        run *= rest.pop().count
    merged: list[Loop] = []
    for loop in rest:
        if merged and _merges(merged[-1], loop, logical=logical):
            merged[-1] = replace(loop, count=merged[-1].count * loop.count)
        else:
            merged.append(loop)
    return replace(program, loops=tuple(merged), run=run)


def _continues(loop: Loop, run: int, *, logical: bool) -> bool:
    sides = (loop.source, loop.destination, loop.logical) if logical else (loop.source, loop.destination)
    return not loop.source_step and not loop.destination_step and all(step == run for step in sides)


def _merges(outer: Loop, inner: Loop, *, logical: bool) -> bool:
    pairs = zip(outer.steps, inner.steps, strict=True)
    return all(a == b * inner.count for i, (a, b) in enumerate(pairs) if logical or i != 2)


def shorten(program: Program, most: int) -> list[Program]:
    """The same moves in runs of at most `most` bytes: a loop round them, and the rest of each run."""
    turns, rest = divmod(program.run, most)
    if turns < 2 and not (turns and rest):
        return [program]
    body = replace(program, loops=(*program.loops, Loop(turns, most, most, most)), run=most)
    done = [body if turns > 1 else replace(program, run=most)]
    if rest:
        tail = advance(program, Loop(1, most, most, most), turns)
        done.append(replace(tail, run=rest))
    return done


def part(program: Program, first: int, count: int) -> list[Program]:
    """Runs ``first`` to ``first + count`` of a program, in its own order, as the fewest programs."""
    if count <= 0:
        return []
    if not program.loops:
        return [program]
    outer, *inner = program.loops
    body = replace(program, loops=tuple(inner))
    each = body.runs
    begin, skip = divmod(first, each)
    parts: list[Program] = []
    if skip:
        head = min(each - skip, count)
        parts += part(advance(body, outer, begin), skip, head)
        begin, count = begin + 1, count - head
    whole, rest = divmod(count, each)
    if whole:
        loops = (replace(outer, count=whole), *inner) if whole > 1 else tuple(inner)
        parts.append(replace(advance(body, outer, begin), loops=loops))
    if rest:
        parts += part(advance(body, outer, begin + whole), 0, rest)
    return parts


def advance(program: Program, loop: Loop, steps: int) -> Program:
    """The same program `steps` further along a loop that stood round it."""
    return replace(
        program,
        source=program.source + steps * loop.source,
        destination=program.destination + steps * loop.destination,
        logical=program.logical + steps * loop.logical,
        source_entry=program.source_entry + steps * loop.source_step,
        destination_entry=program.destination_entry + steps * loop.destination_step,
    )


def by_words(program: Program, unit: int) -> Program:
    """The same moves with the loop that joins a unit's pieces innermost, if runs are shorter than one.

    Next to it comes the loop that steps least on either side, so that a block of the two touches whole lines.
    """
    joining = next((loop for loop in program.loops if loop.logical == program.run < unit), None)
    if joining is None:
        return program
    others = [loop for loop in program.loops if loop is not joining]
    flat = [loop for loop in others if not loop.source_step and not loop.destination_step]
    if flat:
        beside = min(flat, key=lambda loop: min(loop.source, loop.destination))
        others = [*(loop for loop in others if loop is not beside), beside]
    return replace(program, loops=(*others, joining))
