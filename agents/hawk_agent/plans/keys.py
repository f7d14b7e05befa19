"""Strided memory keys: address spaces that a network card reads in the other side's order.

A key turns pieces of memory into one stream of bytes. An *interleaved* key takes its pieces in turn and
starts over so many times, each piece a fixed step further; with one piece it is a plain stride. A *list*
takes each of its pieces once, wherever they stand. Through a key at the source, at the destination or at
both, a column of tiles or a page of them is one message.

What is counted here is what `walk` yields, key by key, in memory that doesn't grow with the sequence. Which
bytes a key may hold in hardware: `StridedKey.refusal`. How a nest becomes keys: `keying`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hawk_agent.layouts.loops import advance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawk_agent.layouts.loops import Loop, Program
    from hawk_agent.plans.counts import RequestLimits

SOURCE, DESTINATION = 0, 1
_MOST_BYTES = (1 << 32) - 1
"""Largest count in the header of an interleaved key, and largest piece of a list: 32 bits each."""


@dataclass(frozen=True, slots=True)
class KeyPiece:
    """A contiguous piece of a key: bytes and block-table entries from the key's start, length, and gap."""

    offset: int
    entry: int
    nbytes: int
    skip: int = 0


@dataclass(frozen=True, slots=True)
class StridedKey:
    """The shape of a key; its start is another for each message.

    Attributes:
        pieces: taken in turn.
        repeat: how often they are, each `nbytes + skip` further than before.
        listed: whether it is a list, which takes each piece once and has no such step.
    """

    pieces: tuple[KeyPiece, ...]
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
    def octowords(self) -> int:
        """Units of 16 bytes that its translation takes on the card: entries and a header, in fours."""
        return -(-(self.entries + (not self.listed)) // 4) * 4

    def refusal(self, limits: RequestLimits) -> str:
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
class KeyPart:
    """Messages of one shape.

    Attributes:
        program: where the first begins, the loops from one to the next (outermost first), and as its
            run the bytes of one key's stream.
        keys: the shapes at the source and at the destination; None where that side is contiguous.
        pieces: pieces of the nest in one stream.
    """

    program: Program
    keys: tuple[StridedKey | None, StridedKey | None]
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
    parts: tuple[KeyPart, ...]
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
    def largest(self) -> KeyPart:
        """The part that moves most."""
        return max(self.parts, key=lambda part: part.program.nbytes)

    @property
    def source(self) -> StridedKey | None:
        """The source key of the largest part."""
        return self.largest.keys[SOURCE]

    @property
    def destination(self) -> StridedKey | None:
        """The destination key of the largest part."""
        return self.largest.keys[DESTINATION]

    @property
    def write_nbytes(self) -> int:
        """Bytes of a write of the largest part."""
        return min(self.largest.program.run, self.max_message_bytes)

    def walk(self) -> Iterator[tuple[KeyPart, Program]]:
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
