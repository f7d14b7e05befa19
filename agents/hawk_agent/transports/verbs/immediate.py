"""The 32 bits that arrive with the last write of a chunk's share: whose they are, and what is complete.

    bit 31        24 23          16 15         4 3       0
       slot (8)      generation (8)  chunk (12)   share (4)

On the wire the most significant byte comes first, as verbs define immediate data; here it is an int. A slot
is one transfer under way at the receiver. Its generation grows with each transfer that takes the slot, so an
immediate that comes late, from a transfer that ended, matches none that runs.

A share is what a chunk's plan gave one rail. It keeps its number when another rail takes it over.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hawk_agent.errors import LimitReachedError, TransportError

SLOTS: Final = 1 << 8
GENERATIONS: Final = 1 << 8
CHUNKS: Final = 1 << 12
SHARES: Final = 1 << 4


class Immediate(NamedTuple):
    """One immediate, taken apart."""

    slot: int
    generation: int
    chunk: int
    share: int

    def pack(self) -> int:
        """The 32 bits as an int. TransportError names the field that doesn't fit."""
        for name, value, bound in zip(self._fields, self, (SLOTS, GENERATIONS, CHUNKS, SHARES), strict=True):
            if not 0 <= value < bound:
                raise TransportError(f"{name} {value} doesn't fit the immediate: 0 to {bound - 1}")
        return self.slot << 24 | self.generation << 16 | self.chunk << 4 | self.share

    @classmethod
    def unpack(cls, value: int) -> Immediate:
        """Of the 32 bits that arrived; every value is one."""
        return cls(value >> 24 & 0xFF, value >> 16 & 0xFF, value >> 4 & 0xFFF, value & 0xF)


class Slots:
    """The slots of one receiver. The one given back longest ago is taken next, so a generation lasts long."""

    def __init__(self, count: int = SLOTS) -> None:
        self._free = list(range(count))
        self._count = count
        self._generations = dict.fromkeys(range(count), -1)

    def take(self) -> tuple[int, int]:
        """A slot and its generation. LimitReachedError when all are in use."""
        if not self._free:
            raise LimitReachedError(
                f"{self._count} transfers are arriving over verbs, the most at once; send again later"
            )
        slot = self._free.pop(0)
        generation = (self._generations[slot] + 1) % GENERATIONS
        self._generations[slot] = generation
        return slot, generation

    def give(self, slot: int) -> None:
        """Back, when nothing of its transfer can arrive any more."""
        self._free.append(slot)
