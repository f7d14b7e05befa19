"""Strided memory keys: address spaces that a network card reads in the other side's order.

A strided key repeats (bytes, skip) so many times; an interleaved key does so with several entries in
turn. Through one of them a column of tiles, or a page of them, is one contiguous message. A key spans
the tokens of one head at most: heads and layers are sent as they are complete, and keys made for
one head can be kept and used again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hawk_agent.layouts import Nest
    from hawk_agent.layouts.loops import Loop, Program
    from hawk_agent.plans.counts import Limits


@dataclass(frozen=True, slots=True)
class Key:
    """The shape of one key: `entries` in turn, each (bytes, skip), all repeated `repeat` times."""

    entries: int
    nbytes: int
    skip: int
    repeat: int


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """What a translation through keys asks for; the shapes are those of the largest part.

    Attributes:
        name: ``strided`` or ``interleaved``.
        writes: work requests.
        source_keys: keys at the source, one for each write if there is a shape.
        destination_keys: keys at the destination; each is a remote key to exchange.
        source: shape of a source key; None where the source is contiguous.
        destination: shape of a destination key; None where the destination is contiguous.
        entries: pieces that the keys walk over in all, on the side that has more.
        write_nbytes: bytes of one write.
        refused: why a device can't do it, or an empty text.
    """

    name: str
    writes: int
    source_keys: int
    destination_keys: int
    source: Key | None
    destination: Key | None
    entries: int
    write_nbytes: int
    refused: str

    @property
    def invalidations(self) -> int:
        """Keys to invalidate afterwards, if they aren't kept."""
        return self.source_keys + self.destination_keys


def key_plans(nest: Nest, limits: Limits) -> list[KeyPlan]:
    """The ways of moving a nest through keys: strided, and interleaved where that makes other messages."""
    if not nest.moves:
        return []
    heads = 1
    head = nest
    for axis in "lcbh":
        heads *= nest.destination.extent(axis).count
        head = head.window(axis, 0, 1)
    plans = [_total("strided", [_strided(move) for move in head.moves], heads, limits)]
    pages = [_interleaved(move) for move in head.moves]
    if all(page is not None for page in pages):
        plans.append(_total("interleaved", [page for page in pages if page is not None], heads, limits))
    return plans


@dataclass(frozen=True, slots=True)
class _Part:
    """One program's writes with the shape of their keys."""

    writes: int
    nbytes: int
    source: Key | None
    destination: Key | None
    pieces: int


def _strided(program: Program) -> _Part:
    """One key over the loops that keep one stride at the source, from the innermost outwards."""
    chain: list[Loop] = []
    if program.loops and not _steps(program.loops[-1]):
        chain = [program.loops[-1]]
        for loop in sorted(program.loops[:-1], key=lambda loop: loop.source):
            follows = loop.source == chain[-1].source * chain[-1].count
            if follows and not _steps(loop) and _continues(chain, loop, program.run):
                chain.append(loop)
    count = 1
    for loop in chain:
        count *= loop.count
    source = Key(1, program.run, chain[0].source - program.run, count) if chain else None
    nbytes = program.run * count
    return _Part(program.nbytes // nbytes, nbytes, source, _landing(chain, program.run), program.runs)


def _continues(chain: list[Loop], loop: Loop, run: int) -> bool:
    """Whether the destination keeps one stride too when `loop` joins the chain."""
    landing = _landing([*chain, loop], run)
    return landing is None or landing.entries == 1


def _landing(chain: list[Loop], run: int) -> Key | None:
    """The shape of what a chain of loops writes; None if contiguous, several entries if irregular."""
    stretch, rest = run, list(chain)
    while rest and rest[0].destination == stretch:
        stretch *= rest.pop(0).count
    if not rest:
        return None
    stride, count = rest[0].destination, rest[0].count
    for loop in rest[1:]:
        if loop.destination != stride * count:
            return Key(loop.count, stretch, stride - stretch, count)
        count *= loop.count
    return Key(1, stretch, stride - stretch, count)


def _interleaved(program: Program) -> _Part | None:
    """One key of an entry for each row of a block: the rows in turn, each going on where it stopped."""
    if len(program.loops) < 2:
        return None
    columns, rows = program.loops[-2:]
    block = rows.count * program.run
    if _steps(columns) or _steps(rows) or columns.source != program.run or columns.destination != block:
        return None
    if rows.destination != program.run:
        return None
    key = Key(rows.count, program.run, 0, columns.count)
    return _Part(program.runs // (rows.count * columns.count), block * columns.count, key, None, program.runs)


def _total(name: str, parts: list[_Part], heads: int, limits: Limits) -> KeyPlan:
    largest = max(parts, key=lambda part: part.writes * part.nbytes)
    refused = [
        why
        for part in parts
        for key in (part.source, part.destination)
        if key and (why := _refuse(key, limits))
    ]
    return KeyPlan(
        name=name,
        writes=heads * sum(part.writes for part in parts),
        source_keys=heads * sum(part.writes for part in parts if part.source),
        destination_keys=heads * sum(part.writes for part in parts if part.destination),
        source=largest.source,
        destination=largest.destination,
        entries=heads * sum(part.pieces for part in parts),
        write_nbytes=largest.nbytes,
        refused=refused[0] if refused else "",
    )


def _refuse(key: Key, limits: Limits) -> str:
    stride = key.nbytes + key.skip
    if stride > limits.key_stride_bytes:
        return f"a stride of {stride} bytes; the device takes {limits.key_stride_bytes} at most"
    if key.entries > limits.key_entries:
        return f"{key.entries} entries in turn; the device takes {limits.key_entries} at most"
    return ""


def _steps(loop: Loop) -> bool:
    return bool(loop.source_step or loop.destination_step)
