"""How a chunk is spread over rails, and who takes over when one fails. Pure.

A chunk is cut into shares, one a rail, along its layers or its heads, whichever is more even. Both ends cut
by the same rule, so nothing of it travels. A share is sent whole on one rail; where that rail fails before
all of the share's requests are known to have completed, the share is sent whole again on the rail that has
least to do. Sending twice is harmless (the same bytes go to the same places while both sides hold them), and
a share counts once however often it arrives. So no byte is lost, and none is counted twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from hawk_agent.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hawk_agent.transfer.chunks import Chunk


class RailsExhaustedError(TransportError):
    """Every rail of a transfer has failed."""


@dataclass(frozen=True, slots=True)
class Share:
    """One rail's part of a chunk: layers [first, first + count) and heads [head, head + heads)."""

    chunk: int
    index: int
    first: int
    count: int
    head: int
    heads: int


def shares(chunk: Chunk, heads: int, rails: int) -> tuple[Share, ...]:
    """Cut a chunk for so many rails; fewer shares where there are fewer layers and heads than rails."""
    if _largest(chunk.count, rails) <= _largest(heads, rails):
        parts = _cut(chunk.first, chunk.count, rails)
        return tuple(Share(chunk.index, i, first, count, 0, heads) for i, (first, count) in enumerate(parts))
    parts = _cut(0, heads, rails)
    return tuple(
        Share(chunk.index, i, chunk.first, chunk.count, head, count) for i, (head, count) in enumerate(parts)
    )


def _largest(extent: int, rails: int) -> float:
    """The share of all bytes that the busiest rail carries."""
    return -(-extent // rails) / extent


def _cut(first: int, extent: int, rails: int) -> list[tuple[int, int]]:
    count = min(extent, rails)
    edges = [first + extent * i // count for i in range(count + 1)]
    return [(a, b - a) for a, b in pairwise(edges)]


class Ledger:
    """Which rail owes which shares, over all chunks of one end of a transfer. What a method returns is to be
    posted now."""

    def __init__(self, rails: int) -> None:
        self._alive = list(range(rails))
        self._open: dict[Share, int] = {}

    @property
    def alive(self) -> tuple[int, ...]:
        """Rails that have not failed."""
        return tuple(self._alive)

    def place(self, given: Iterable[Share]) -> list[tuple[Share, int]]:
        """Each share with the rail that has least to do. RailsExhaustedError when no rail is left."""
        placed = []
        for share in given:
            if not self._alive:
                raise RailsExhaustedError(f"chunk {share.chunk}: every rail has failed")
            load = Counter(self._open.values())
            rail = min(self._alive, key=lambda one: (load[one], one))
            self._open[share] = rail
            placed.append((share, rail))
        return placed

    def done(self, share: Share) -> None:
        """All requests of a share have completed. Again is fine."""
        self._open.pop(share, None)

    def failed(self, rail: int) -> list[tuple[Share, int]]:
        """A rail is gone: what it owed, each with the rail that takes it. RailsExhaustedError without one."""
        if rail in self._alive:
            self._alive.remove(rail)
        owed = [share for share, on in self._open.items() if on == rail]
        for share in owed:
            del self._open[share]
        return self.place(owed)


class Arrivals:
    """Which shares of which chunks are in, at the receiver. A chunk is in when all of its shares are."""

    def __init__(self) -> None:
        self._in: dict[int, set[int]] = {}

    def add(self, chunk: int, share: int) -> None:
        """A share's last write has arrived. Again is fine: a rail may fail after it delivered."""
        self._in.setdefault(chunk, set()).add(share)

    def complete(self, chunk: int, of: int) -> bool:
        """True if `of` shares of the chunk are in."""
        return len(self._in.get(chunk, ())) == of
