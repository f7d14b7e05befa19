"""From a nest to keys: which of its loops a key takes in.

A key spans the tokens of one head at most, so that layers and heads can go as they are complete, and keys
made for one head can be kept.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from hawk_agent.layouts.compiler import LayoutPair, boxes
from hawk_agent.layouts.loops import Loop, Program, advance, coalesce
from hawk_agent.layouts.notation import AXES
from hawk_agent.plans.keys import DESTINATION, SOURCE, KeyPart, KeyPiece, KeyPlan, StridedKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawk_agent.layouts import Nest
    from hawk_agent.plans.counts import RequestLimits

_OUTER = "lcbh"
"""Axes that a key doesn't span."""


def key_plans(nest: Nest, limits: RequestLimits) -> list[KeyPlan]:
    """The ways of moving a nest through keys.

    ``strided`` is always there; ``interleaved`` and ``list`` where they make other messages.
    """
    heads = list(_heads(nest))
    if not heads:
        return []
    plans = [_plan("strided", [_strided(program, outer, limits) for program, outer in heads], limits)]
    turns = [_interleaved(program, outer) for program, outer in heads]
    if all(part is not None for part in turns):
        plans.append(_plan("interleaved", [part for part in turns if part is not None], limits))
    listed = [part for program, outer in heads for part in _listed(program, outer, limits)]
    if any(any(part.keys) for part in listed):
        plans.append(_plan("list", listed, limits))
    return plans


def _plan(name: str, parts: list[KeyPart], limits: RequestLimits) -> KeyPlan:
    keys = [key for part in parts for key in part.keys if key is not None]
    refused = next(filter(None, (key.refusal(limits) for key in keys)), "")
    return KeyPlan(name, tuple(parts), limits.max_message_bytes, refused)


def _heads(nest: Nest) -> Iterator[tuple[Program, tuple[Loop, ...]]]:
    """For each box of the nest one head's program, and the loops over layers, keys and values, and heads."""
    sides = LayoutPair(nest.source, nest.destination)
    for box in boxes(nest.source, nest.destination):
        inner = tuple(
            replace(piece, loops=()) if axis in _OUTER else piece
            for axis, piece in zip(AXES, box, strict=True)
        )
        outer = [
            sides.loop(axis, count, indices)
            for axis, piece in zip(AXES, box, strict=True)
            if axis in _OUTER
            for count, indices in piece.loops
            if count > 1
        ]
        yield coalesce(sides.box(inner), logical=False), tuple(outer)


def _strided(program: Program, outer: tuple[Loop, ...], limits: RequestLimits) -> KeyPart:
    """A key of one piece over the loops that keep one stride, from the innermost outwards.

    A loop joins while both sides keep a stride and a device can hold both keys.
    """
    chain: list[Loop] = []
    if program.loops and not _steps(program.loops[-1]):
        chain = [program.loops[-1]]
        for loop in sorted(program.loops[:-1], key=lambda loop: loop.source):
            if not _steps(loop) and _holds([*chain, loop], program.run, limits):
                chain.append(loop)
    keys = [_stride(chain, program.run, side)[0] for side in (SOURCE, DESTINATION)]
    return _part(program, outer, chain, (keys[SOURCE], keys[DESTINATION]))


def _holds(chain: list[Loop], run: int, limits: RequestLimits) -> bool:
    for side in (SOURCE, DESTINATION):
        key, regular = _stride(chain, run, side)
        if not regular or (key and key.refusal(limits)):
            return False
    return True


def _stride(chain: list[Loop], run: int, side: int) -> tuple[StridedKey | None, bool]:
    """The key of one side of a chain of loops, innermost first, and whether they keep one stride there.

    None if the side is contiguous.
    """
    stretch, rest = run, list(chain)
    while rest and rest[0].steps[side] == stretch:
        stretch *= rest.pop(0).count
    if not rest:
        return None, True
    stride, count = rest[0].steps[side], rest[0].count
    for loop in rest[1:]:
        if loop.steps[side] != stride * count:
            return None, False
        count *= loop.count
    return StridedKey((KeyPiece(0, 0, stretch, stride - stretch),), count), True


def _interleaved(program: Program, outer: tuple[Loop, ...]) -> KeyPart | None:
    """A source key of a piece for each row of a block: the rows in turn, each going on where it stopped."""
    if len(program.loops) < 2:
        return None
    columns, rows = program.loops[-2:]
    step = columns.source - program.run
    if _steps(columns) or _steps(rows) or step < 0 or rows.source == program.run:
        return None
    landing, regular = _stride([rows, columns], program.run, DESTINATION)
    if not regular:
        return None
    pieces = tuple(KeyPiece(row * rows.source, 0, program.run, step) for row in range(rows.count))
    return _part(program, outer, [rows, columns], (StridedKey(pieces, columns.count), landing))


def _listed(program: Program, outer: tuple[Loop, ...], limits: RequestLimits) -> list[KeyPart]:
    """Lists of as many pieces as a key takes: whole inner loops, and as much of the next as fits."""
    rest, inner = list(program.loops), list[Loop]()
    while rest and prod(loop.count for loop in inner) * rest[-1].count <= limits.key_entries:
        inner.insert(0, rest.pop())
    most = limits.key_entries // prod(loop.count for loop in inner)
    if not rest or most < 2:
        return [_list(program, outer, rest, inner)]
    cut = rest.pop()
    turns, left = divmod(cut.count, most)
    whole = Loop(turns, *(step * most for step in cut.steps))
    parts = [_list(program, outer, [*rest, whole], [replace(cut, count=most), *inner])]
    if left:
        tail = advance(program, cut, turns * most)
        parts.append(_list(tail, outer, rest, [replace(cut, count=left), *inner]))
    return parts


def _list(program: Program, outer: tuple[Loop, ...], rest: list[Loop], inner: list[Loop]) -> KeyPart:
    keys = (_pieces(inner, program.run, SOURCE), _pieces(inner, program.run, DESTINATION))
    return _part(replace(program, loops=(*rest, *inner)), outer, inner, keys)


def _pieces(inner: list[Loop], run: int, side: int) -> StridedKey | None:
    """The list of one side over a few loops, outermost first; None if it is contiguous."""
    found: list[KeyPiece] = []
    for steps in product(*(range(loop.count) for loop in inner)):
        pairs = list(zip(steps, inner, strict=True))
        offset = sum(step * loop.steps[side] for step, loop in pairs)
        entry = sum(step * loop.steps[side + 3] for step, loop in pairs)
        last = found[-1] if found else None
        if last and last.entry == entry and last.offset + last.nbytes == offset:
            found[-1] = replace(last, nbytes=last.nbytes + run)
        else:
            found.append(KeyPiece(offset, entry, run))
    return StridedKey(tuple(found), listed=True) if len(found) > 1 else None


def _part(
    program: Program,
    outer: tuple[Loop, ...],
    inside: list[Loop],
    keys: tuple[StridedKey | None, StridedKey | None],
) -> KeyPart:
    """Messages over the loops that aren't inside a key."""
    loops = (*outer, *(loop for loop in program.loops if loop not in inside))
    pieces = prod(loop.count for loop in inside)
    return KeyPart(replace(program, loops=loops, run=program.run * pieces), keys, pieces)


def _steps(loop: Loop) -> bool:
    return bool(loop.source_step or loop.destination_step)
