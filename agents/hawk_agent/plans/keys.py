"""Strided memory keys: address spaces that a network card reads in the other side's order.

A key turns pieces of memory into one stream of bytes. An *interleaved* key takes its pieces in turn and
starts over so many times, each piece a fixed step further; with one piece it is a plain stride. A *list*
takes each of its pieces once, wherever they stand. Through a key at the source, at the destination or at
both, a column of tiles or a page of them is one message.

A key spans the tokens of one head at most, so that layers and heads can go as they are complete, and keys
made for one head can be kept. What is counted here is what `walk` yields, key by key, in memory that
doesn't grow with the sequence. Which bytes a key may hold in hardware: `Key.refusal`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from hawk_agent.layouts.compiler import Sides, boxes
from hawk_agent.layouts.loops import Loop, Program, advance, coalesce
from hawk_agent.layouts.notation import AXES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawk_agent.layouts import Nest
    from hawk_agent.plans.counts import Limits

SOURCE, DESTINATION = 0, 1
_OUTER = "lcbh"
"""Axes that a key doesn't span."""
_MOST_BYTES = (1 << 32) - 1
"""Largest count in the header of an interleaved key, and largest piece of a list: 32 bits each."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A contiguous piece of a key: bytes and block-table entries from the key's start, length, and gap."""

    offset: int
    entry: int
    nbytes: int
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Key:
    """The shape of a key; its start is another for each message.

    Attributes:
        pieces: taken in turn.
        repeat: how often they are, each `nbytes + skip` further than before.
        listed: whether it is a list, which takes each piece once and has no such step.
    """

    pieces: tuple[Piece, ...]
    repeat: int = 1
    listed: bool = False

    @property
    def entries(self) -> int:
        """How many pieces take turns."""
        return len(self.pieces)

    @property
    def nbytes(self) -> int:
        """Bytes of the first piece."""
        return self.pieces[0].nbytes

    @property
    def skip(self) -> int:
        """Gap after the first piece."""
        return self.pieces[0].skip

    @property
    def stream_nbytes(self) -> int:
        """Bytes that can be reached through it."""
        return self.repeat * sum(piece.nbytes for piece in self.pieces)

    @property
    def octowords(self) -> int:
        """Units of 16 bytes that its translation takes on the card: entries and a header, in fours."""
        return -(-(self.entries + (not self.listed)) // 4) * 4

    def refusal(self, limits: Limits) -> str:
        """Why a card can't hold it, or an empty text.

        The provider checks none of the widths: it writes the low 16 bits and moves other bytes.
        """
        if self.entries > limits.key_entries:
            return f"{self.entries} entries in turn; the device takes {limits.key_entries} at most"
        if self.listed:
            return _wide("a piece", max(piece.nbytes for piece in self.pieces), _MOST_BYTES)
        stride = max(piece.nbytes + piece.skip for piece in self.pieces)
        return (
            _wide("a stride", stride, limits.key_stride_bytes)
            or _wide("one turn", sum(piece.nbytes for piece in self.pieces), _MOST_BYTES)
            or ("" if self.repeat <= _MOST_BYTES else f"{self.repeat} turns; the device counts {_MOST_BYTES}")
        )


def _wide(what: str, nbytes: int, most: int) -> str:
    return f"{what} of {nbytes} bytes; the device takes {most} at most" if nbytes > most else ""


@dataclass(frozen=True, slots=True)
class Part:
    """Messages of one shape.

    Attributes:
        program: where the first begins, the loops from one to the next (outermost first), and as its
            run the bytes of one key's stream.
        keys: the shapes at the source and at the destination; None where that side is contiguous.
        pieces: pieces of the nest in one stream.
    """

    program: Program
    keys: tuple[Key | None, Key | None]
    pieces: int


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """A nest moved through keys, at the source, the destination or both.

    Attributes:
        name: ``strided``, ``interleaved`` or ``list``.
        parts: the messages by shape.
        max_message_bytes: where a stream is cut into several writes through the same keys.
        refused: why a device can't do it, or an empty text.
    """

    name: str
    parts: tuple[Part, ...]
    max_message_bytes: int
    refused: str

    @property
    def writes(self) -> int:
        """Work requests."""
        most = self.max_message_bytes
        return sum(part.program.runs * -(-part.program.run // most) for part in self.parts)

    @property
    def source_keys(self) -> int:
        """Keys at the source."""
        return self._keys(SOURCE)

    @property
    def destination_keys(self) -> int:
        """Keys at the destination; each is a remote key to exchange."""
        return self._keys(DESTINATION)

    def _keys(self, side: int) -> int:
        return sum(part.program.runs for part in self.parts if part.keys[side])

    @property
    def invalidations(self) -> int:
        """Keys to invalidate afterwards, if they aren't kept."""
        return self.source_keys + self.destination_keys

    @property
    def entries(self) -> int:
        """Pieces that the cards walk over in all."""
        return sum(part.program.runs * part.pieces for part in self.parts)

    @property
    def largest(self) -> Part:
        """The part that moves most."""
        return max(self.parts, key=lambda part: part.program.nbytes)

    @property
    def source(self) -> Key | None:
        """The source key of the largest part."""
        return self.largest.keys[SOURCE]

    @property
    def destination(self) -> Key | None:
        """The destination key of the largest part."""
        return self.largest.keys[DESTINATION]

    @property
    def write_nbytes(self) -> int:
        """Bytes of a write of the largest part."""
        return min(self.largest.program.run, self.max_message_bytes)

    def walk(self) -> Iterator[tuple[Part, Program]]:
        """Each stream in order: its part, and a program without loops that says where it begins."""
        for part in self.parts:
            for place in _places(replace(part.program, loops=()), part.program.loops):
                yield part, place


def _places(place: Program, loops: tuple[Loop, ...]) -> Iterator[Program]:
    if not loops:
        yield place
        return
    outer, *inner = loops
    for step in range(outer.count):
        yield from _places(advance(place, outer, step), tuple(inner))


def key_plans(nest: Nest, limits: Limits) -> list[KeyPlan]:
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


def _plan(name: str, parts: list[Part], limits: Limits) -> KeyPlan:
    keys = [key for part in parts for key in part.keys if key is not None]
    refused = next(filter(None, (key.refusal(limits) for key in keys)), "")
    return KeyPlan(name, tuple(parts), limits.max_message_bytes, refused)


def _heads(nest: Nest) -> Iterator[tuple[Program, tuple[Loop, ...]]]:
    """For each box of the nest one head's program, and the loops over layers, keys and values, and heads."""
    sides = Sides(nest.source, nest.destination)
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


def _strided(program: Program, outer: tuple[Loop, ...], limits: Limits) -> Part:
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


def _holds(chain: list[Loop], run: int, limits: Limits) -> bool:
    for side in (SOURCE, DESTINATION):
        key, regular = _stride(chain, run, side)
        if not regular or (key and key.refusal(limits)):
            return False
    return True


def _stride(chain: list[Loop], run: int, side: int) -> tuple[Key | None, bool]:
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
    return Key((Piece(0, 0, stretch, stride - stretch),), count), True


def _interleaved(program: Program, outer: tuple[Loop, ...]) -> Part | None:
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
    pieces = tuple(Piece(row * rows.source, 0, program.run, step) for row in range(rows.count))
    return _part(program, outer, [rows, columns], (Key(pieces, columns.count), landing))


def _listed(program: Program, outer: tuple[Loop, ...], limits: Limits) -> list[Part]:
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


def _list(program: Program, outer: tuple[Loop, ...], rest: list[Loop], inner: list[Loop]) -> Part:
    keys = (_pieces(inner, program.run, SOURCE), _pieces(inner, program.run, DESTINATION))
    return _part(replace(program, loops=(*rest, *inner)), outer, inner, keys)


def _pieces(inner: list[Loop], run: int, side: int) -> Key | None:
    """The list of one side over a few loops, outermost first; None if it is contiguous."""
    found: list[Piece] = []
    for steps in product(*(range(loop.count) for loop in inner)):
        pairs = list(zip(steps, inner, strict=True))
        offset = sum(step * loop.steps[side] for step, loop in pairs)
        entry = sum(step * loop.steps[side + 3] for step, loop in pairs)
        last = found[-1] if found else None
        if last and last.entry == entry and last.offset + last.nbytes == offset:
            found[-1] = replace(last, nbytes=last.nbytes + run)
        else:
            found.append(Piece(offset, entry, run))
    return Key(tuple(found), listed=True) if len(found) > 1 else None


def _part(
    program: Program, outer: tuple[Loop, ...], inside: list[Loop], keys: tuple[Key | None, Key | None]
) -> Part:
    """Messages over the loops that aren't inside a key."""
    loops = (*outer, *(loop for loop in program.loops if loop not in inside))
    pieces = prod(loop.count for loop in inside)
    return Part(replace(program, loops=loops, run=program.run * pieces), keys, pieces)


def _steps(loop: Loop) -> bool:
    return bool(loop.source_step or loop.destination_step)
