"""How a lease's remote access is ended for real, and which way a lease gets. The choice is pure.

A sender may write as long as it has a key and a queue pair that takes it. There are three ways to end that:

- `QUEUE_PAIR`: every lease has queue pairs of its own, which are moved to the error state. From then on the
  device drops whatever comes for them, whoever holds a key. Works everywhere and for any number of ranges;
  while the lease lives, though, the sender's key opens the whole region.
- `WINDOW`: a memory window of type 2 for each contiguous range of the lease, bound to the lease's queue pair
  and invalidated at its end. The sender's key opens the lease's bytes alone. A window covers one range, so
  this is for leases of few: `MOST_WINDOWS` a rail. The queue pair goes to the error state afterwards as well.
- An indirect key over many ranges (mlx5) would be a window for paged leases. It is not available here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hawk_agent.layouts import Nest
    from hawk_agent.layouts.loops import Loop, Program

MOST_WINDOWS: Final = 64
MOST_STARTS: Final = 1 << 16
"""Ranges that are looked at, at most, to see whether they join to few."""


class FenceKind(Enum):
    """The ways to end access, as status, logs and metrics name them."""

    QUEUE_PAIR = "queue-pair"
    WINDOW = "memory-window"


@dataclass(frozen=True, slots=True)
class FenceChoice:
    """A lease's fence: `ranges` are the (offset, bytes) that windows open, empty for a queue pair."""

    kind: FenceKind
    ranges: tuple[tuple[int, int], ...]
    why: str


def choose_fence(
    nest: Nest, table: NDArray[np.int64] | None, *, windows: int, forced: FenceKind | None = None
) -> FenceChoice:
    """The fence of a lease that `nest` writes, with the destination's block table.

    `windows` is how many memory windows of type 2 the device can have, 0 if it has none.
    """
    if forced is FenceKind.QUEUE_PAIR:
        return FenceChoice(FenceKind.QUEUE_PAIR, (), "asked for")
    if not windows:
        return FenceChoice(FenceKind.QUEUE_PAIR, (), "the device has no memory windows of type 2")
    ranges = footprint(nest, table)
    most = min(windows, MOST_WINDOWS)
    if ranges is None or len(ranges) > most:
        count = f"over {MOST_STARTS}" if ranges is None else f"{len(ranges)}"
        return FenceChoice(FenceKind.QUEUE_PAIR, (), f"{count} ranges; windows are for {most} at most")
    return FenceChoice(FenceKind.WINDOW, tuple(ranges), f"{len(ranges)} ranges")


def footprint(nest: Nest, table: NDArray[np.int64] | None) -> list[tuple[int, int]] | None:
    """The destination's bytes that belong to a nest, padding included, as the fewest (offset, bytes).

    None where there are more than `MOST_STARTS` stretches to join.
    """
    found = []
    seen = 0
    for program in (*nest.moves, *nest.zeros):
        nbytes, loops = _stretch(program)
        seen += program.nbytes // nbytes
        if seen > MOST_STARTS:
            return None
        starts = _starts(program, loops, table, nest.pages[1])
        found.append(np.stack([starts, np.full_like(starts, nbytes)], axis=1))
    return _joined(np.concatenate(found)) if found else []


def _stretch(program: Program) -> tuple[int, list[Loop]]:
    """The contiguous bytes that a program's innermost loops make at the destination, and the loops left."""
    nbytes, left = program.run, []
    for loop in sorted(program.loops, key=lambda one: (one.destination_step != 0, one.destination)):
        if loop.destination == nbytes and not loop.destination_step:
            nbytes *= loop.count
        else:
            left.append(loop)
    return nbytes, left


def _starts(
    program: Program, loops: list[Loop], table: NDArray[np.int64] | None, page: int
) -> NDArray[np.int64]:
    at = np.array([program.destination], np.int64)
    entry = np.array([program.destination_entry], np.int64)
    for loop in loops:
        turns = np.arange(loop.count, dtype=np.int64)[:, None]
        at = (at[None, :] + turns * loop.destination).ravel()
        entry = (entry[None, :] + turns * loop.destination_step).ravel()
    return at if table is None or not page else at + table[entry] * page


def _joined(pieces: NDArray[np.int64]) -> list[tuple[int, int]]:
    pieces = pieces[np.argsort(pieces[:, 0], kind="stable")]
    ends = pieces.sum(axis=1)
    heads = np.flatnonzero(np.concatenate(([True], pieces[1:, 0] != ends[:-1])))
    tails = np.append(heads[1:] - 1, len(pieces) - 1)
    return [(int(pieces[a, 0]), int(ends[b] - pieces[a, 0])) for a, b in zip(heads, tails, strict=True)]
