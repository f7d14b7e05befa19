"""Strided keys as the mlx5 provider takes them: what `mlx5dv_wr_mr_interleaved` and its kin are given.

A key is made by a work request on the queue pair itself, so what uses it can follow at once; it is ended
by an ``IBV_WR_LOCAL_INV`` and can be made again with another start. The stream of a key is addressed from
zero (``ibv_sge.addr`` and the remote address are offsets in it). The work request carries the pieces
inline: the queue pair needs `max_inline_data`, and the handle (`mlx5dv_create_mkey`) `max_entries`.

Layouts of the structures: rdma-core, providers/mlx5/mlx5dv.h and libibverbs/verbs.h; a test compiles them
against the header. **No such card was there to try it on**: what is built here runs on `mlx5_model`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hawk_agent.errors import TransportError
from hawk_agent.plans.keys import DESTINATION, SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hawk_agent.layouts.loops import Program
    from hawk_agent.plans import KeyPlan
    from hawk_agent.plans.keys import KeyPiece, StridedKey

INTERLEAVED = np.dtype(
    {
        "names": ["addr", "bytes_count", "bytes_skip", "lkey"],
        "formats": ["u8", "u4", "u4", "u4"],
        "offsets": [0, 8, 12, 16],
        "itemsize": 24,
    }
)
"""``struct mlx5dv_mr_interleaved``."""
SGE = np.dtype(
    {
        "names": ["addr", "length", "lkey"],
        "formats": ["u8", "u4", "u4"],
        "offsets": [0, 8, 12],
        "itemsize": 16,
    }
)
"""``struct ibv_sge``."""

Entries = npt.NDArray[np.void]
Table = npt.NDArray[np.integer[Any]] | None


@dataclass(frozen=True, slots=True)
class KeyedMemory:
    """Registered memory of one side, as one transfer uses it.

    Attributes:
        address: where the layout's buffer begins.
        key_of: the key (lkey at the source, rkey at the destination) of the byte at an offset. A large
            region is registered in several parts.
        table: the block table, or None.
        page_nbytes: bytes between two entries' pages.
    """

    address: int
    key_of: Callable[[int], int]
    table: Table = None
    page_nbytes: int = 0

    def offset(self, offset: int, entry: int) -> int:
        """Bytes from the buffer's start, through the block table."""
        return offset if self.table is None else offset + int(self.table[entry]) * self.page_nbytes

    def key(self, first: int, last: int) -> int:
        """The key of bytes first to last.

        Raises:
            TransportError: they lie in two registrations.
        """
        key = self.key_of(first)
        if key != self.key_of(last):
            raise TransportError(
                f"bytes {first} to {last} lie in two registrations, and a piece of a strided key in one; "
                "register the region in larger parts, or choose another strategy"
            )
        return key


@dataclass(frozen=True, slots=True)
class KeyRegistration:
    """One work request that makes a key.

    Attributes:
        listed: whether it is `mlx5dv_wr_mr_list`, with ``num_sges`` SGEs; else `mlx5dv_wr_mr_interleaved`.
        repeat: its ``repeat_count``.
        entries: its array, of dtype `INTERLEAVED` or `SGE`.
        max_entries: what `mlx5dv_create_mkey` must have been asked for: a header takes one.
    """

    listed: bool
    repeat: int
    entries: Entries

    @property
    def max_entries(self) -> int:
        """Entries that the handle needs."""
        return len(self.entries) + (not self.listed)


@dataclass(frozen=True, slots=True)
class StreamSide:
    """One side of a stream: through a key that is made for it, or plain memory at an address with a key."""

    registration: KeyRegistration | None
    address: int
    key: int


@dataclass(frozen=True, slots=True)
class KeyStream:
    """Bytes that are contiguous on both sides, once the keys are made."""

    source: StreamSide
    destination: StreamSide
    nbytes: int
    max_message_bytes: int

    def writes(self) -> Iterator[tuple[int, int]]:
        """Offset and bytes of each work request."""
        for offset in range(0, self.nbytes, self.max_message_bytes):
            yield offset, min(self.max_message_bytes, self.nbytes - offset)


def streams(plan: KeyPlan, source: KeyedMemory, destination: KeyedMemory) -> Iterator[KeyStream]:
    """A plan's streams in order, one at a time. Each agent makes the keys of its own side.

    Raises:
        TransportError: the plan was refused for this device, or a piece lies in two registrations.
    """
    if plan.refused:
        raise TransportError(f"{plan.name} keys: {plan.refused}; choose another strategy")
    for part, place in plan.walk():
        yield KeyStream(
            _place(part.keys[SOURCE], source, place, SOURCE),
            _place(part.keys[DESTINATION], destination, place, DESTINATION),
            place.run,
            plan.max_message_bytes,
        )


def _place(key: StridedKey | None, end: KeyedMemory, place: Program, side: int) -> StreamSide:
    start, entry = (
        (place.source, place.source_entry) if side == SOURCE else (place.destination, place.destination_entry)
    )
    if key is None:
        first = end.offset(start, entry)
        return StreamSide(None, end.address + first, end.key(first, first + place.run - 1))
    return StreamSide(_registration(key, end, start, entry), 0, 0)


def _registration(key: StridedKey, end: KeyedMemory, start: int, entry: int) -> KeyRegistration:
    entries = np.zeros(key.entries, SGE if key.listed else INTERLEAVED)
    for row, piece in zip(entries, key.pieces, strict=True):
        first = end.offset(start + piece.offset, entry + piece.entry)
        row["addr"] = end.address + first
        row["lkey"] = end.key(first, first + _reach(key, piece) - 1)
        row["length" if key.listed else "bytes_count"] = piece.nbytes
        if not key.listed:
            row["bytes_skip"] = piece.skip
    return KeyRegistration(key.listed, key.repeat, entries)


def _reach(key: StridedKey, piece: KeyPiece) -> int:
    """Bytes from the first to the last that a piece touches in all its turns."""
    return (key.repeat - 1) * (piece.nbytes + piece.skip) + piece.nbytes
