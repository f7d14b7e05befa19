"""A model of a card with strided keys, which moves real bytes.

It takes what the provider takes, encodes it into the segments that the provider writes, and reads memory by
those segments alone. So a number that doesn't fit its field goes wrong here in the way in which it would
on the card: the low bits count. Segments: rdma-core, providers/mlx5/mlx5dv.h (``mlx5_wqe_umr_*_seg``) and
how qp.c fills them. It says nothing about time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hawk_agent.errors import TransportError
from hawk_agent.layouts.buffers import as_bytes
from hawk_agent.plans.counts import RequestLimits
from hawk_agent.transports.verbs.mlx5_keys import KeyedMemory, streams

if TYPE_CHECKING:
    from hawk_agent.layouts import Nest
    from hawk_agent.layouts.buffers import Bytes
    from hawk_agent.plans import KeyPlan
    from hawk_agent.transports.verbs.mlx5_keys import Entries, KeyRegistration, StreamSide, Table

REPEAT_BLOCK = np.dtype(
    [("byte_count", ">u4"), ("op", ">u4"), ("repeat_count", ">u4"), ("reserved", ">u2"), ("num_ent", ">u2")]
)
REPEAT_ENTRY = np.dtype([("stride", ">u2"), ("byte_count", ">u2"), ("memkey", ">u4"), ("va", ">u8")])
KLM = np.dtype([("byte_count", ">u4"), ("mkey", ">u4"), ("address", ">u8")])

LOCAL_WRITE, REMOTE_WRITE = 1, 2
"""``IBV_ACCESS_LOCAL_WRITE`` and ``IBV_ACCESS_REMOTE_WRITE``."""
_OP_STRIDED = 0x400
_WQE_BYTES, _RESERVED_BYTES, _INLINE_HEADER = 1024, 192, 4
_RING = 4

Addresses = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Region:
    address: int
    memory: Bytes
    access: int


@dataclass(slots=True)
class _Handle:
    """A key's handle: how much it may hold, and what it holds; None when it is free."""

    max_entries: int
    access: int = 0
    listed: bool = False
    segment: bytes | None = None
    nbytes: int = 0


@dataclass
class Card:
    """One card: registered memory, keys, and writes to a peer's card."""

    limits: RequestLimits = field(default_factory=RequestLimits)
    _keys: dict[int, _Region | _Handle] = field(default_factory=dict)

    def register(self, memory: Bytes, address: int, access: int = 0) -> int:
        """`ibv_reg_mr`: memory that is to be seen at an address; returns its key."""
        return self._add(_Region(address, memory, access))

    def create(self, max_entries: int) -> int:
        """`mlx5dv_create_mkey`, which rounds up to four entries."""
        return self._add(_Handle(-(-max_entries // 4) * 4))

    def _add(self, what: _Region | _Handle) -> int:
        key = (len(self._keys) + 1) << 8
        self._keys[key] = what
        return key

    def make(self, key: int, registration: KeyRegistration, access: int) -> None:
        """Post the work request that makes a key."""
        handle = self._handle(key)
        if handle.segment is not None:
            raise TransportError(f"key {key:#x} is in use; invalidate it before it is made again")
        listed, entries = registration.listed, registration.entries
        inline = (_WQE_BYTES - _RESERVED_BYTES) // 16 - (not listed)
        if len(entries) > min(inline, handle.max_entries):
            raise TransportError(
                f"{len(entries)} entries; the work request takes {inline}, the key {handle.max_entries}"
            )
        handle.listed, handle.access = listed, access
        handle.segment = _list(entries) if listed else _strided(entries, registration.repeat)
        turn = int(entries["length" if listed else "bytes_count"].astype(np.uint64).sum())
        handle.nbytes = turn * registration.repeat

    def invalidate(self, key: int) -> None:
        """`IBV_WR_LOCAL_INV`."""
        self._handle(key).segment = None

    def _handle(self, key: int) -> _Handle:
        found = self._keys.get(key)
        if not isinstance(found, _Handle):
            raise TransportError(f"key {key:#x} is no handle of this card")
        return found

    def write(self, peer: Card, source: tuple[int, int], destination: tuple[int, int], nbytes: int) -> None:
        """`IBV_WR_RDMA_WRITE` with one SGE; `source` and `destination` are (key, address)."""
        if nbytes > self.limits.max_message_bytes:
            raise TransportError(f"a message of {nbytes} bytes; {self.limits.max_message_bytes} at most")
        peer.store(*destination, self._load(*source, nbytes))

    def _load(self, key: int, address: int, nbytes: int) -> Bytes:
        out = np.empty(nbytes, np.uint8)
        for region, mask, at in self._pieces(key, address, nbytes, 0):
            out[mask] = region.memory[at]
        return out

    def store(self, key: int, address: int, data: Bytes) -> None:
        """Carry out the peer's write."""
        for region, mask, at in self._pieces(key, address, data.size, REMOTE_WRITE):
            region.memory[at] = data[mask]

    def _pieces(self, key: int, address: int, nbytes: int, access: int) -> list[tuple[_Region, Any, Any]]:
        """The regions of a range behind a key, each with which of its bytes those are and where they are."""
        found = self._keys.get(key)
        if isinstance(found, _Region):
            addresses = np.arange(address, address + nbytes)
            owners = np.full(nbytes, key)
        elif found is not None and found.segment is not None and address + nbytes <= found.nbytes:
            _allow(found.access, access, key)
            addresses, owners = _addresses(found, address, nbytes)
        else:
            raise TransportError(f"key {key:#x} doesn't reach over {nbytes} bytes from {address}")
        pieces: list[tuple[_Region, Any, Any]] = []
        for owner in np.unique(owners):
            region = self._keys.get(int(owner))
            mask = owners == owner
            if not isinstance(region, _Region):
                raise TransportError(f"key {int(owner):#x} is no memory of this card")
            _allow(region.access, access, int(owner))
            at = addresses[mask] - region.address
            if at.min() < 0 or at.max() >= region.memory.size:
                raise TransportError(f"key {int(owner):#x}: the range is outside its memory")
            pieces.append((region, mask, at))
        return pieces


def _allow(have: int, need: int, key: int) -> None:
    if need & ~have:
        raise TransportError(f"key {key:#x} doesn't allow it: access {have:#x}, needed {need:#x}")


def _strided(entries: Entries, repeat: int) -> bytes:
    """The segment as the provider fills it; sixteen bits of lengths and strides are kept."""
    head, body = np.zeros(1, REPEAT_BLOCK), np.zeros(len(entries), REPEAT_ENTRY)
    count = entries["bytes_count"].astype(np.uint64)
    head["byte_count"] = int(count.sum()) & 0xFFFFFFFF
    head["op"], head["repeat_count"], head["num_ent"] = _OP_STRIDED, repeat & 0xFFFFFFFF, len(entries)
    body["stride"] = (count + entries["bytes_skip"]) & np.uint64(0xFFFF)
    body["byte_count"] = count & np.uint64(0xFFFF)
    body["memkey"], body["va"] = entries["lkey"], entries["addr"]
    return head.tobytes() + body.tobytes()


def _list(entries: Entries) -> bytes:
    body = np.zeros(len(entries), KLM)
    body["byte_count"], body["mkey"], body["address"] = entries["length"], entries["lkey"], entries["addr"]
    return body.tobytes()


def _addresses(handle: _Handle, start: int, nbytes: int) -> tuple[Addresses, Addresses]:
    """Address and memory key of each byte of a range of a key's stream."""
    assert handle.segment is not None
    if handle.listed:
        klm = np.frombuffer(handle.segment, KLM)
        lengths, places, keys = (klm[name].astype(np.int64) for name in ("byte_count", "address", "mkey"))
        strides, first, turns = np.zeros_like(lengths), 0, 1
    else:
        entries = np.frombuffer(handle.segment, REPEAT_ENTRY, offset=REPEAT_BLOCK.itemsize)
        lengths, places, keys, strides = (
            entries[name].astype(np.int64) for name in ("byte_count", "va", "memkey", "stride")
        )
        turn = int(lengths.sum())
        first = start // turn
        turns = -(-(start + nbytes) // turn) - first
    step = np.arange(first, first + turns)[:, None]
    one = np.concatenate([place + np.arange(length) for place, length in zip(places, lengths, strict=True)])
    jump = np.repeat(strides, lengths)
    skip = start - first * int(lengths.sum())
    addresses = (one + step * jump).ravel()[skip : skip + nbytes]
    return addresses, np.tile(np.repeat(keys, lengths), turns)[skip : skip + nbytes]


@dataclass(slots=True)
class Tally:
    """Counts of two cards' operations under a plan."""

    writes: int = 0
    source_keys: int = 0
    destination_keys: int = 0
    invalidations: int = 0
    nbytes: int = 0


def execute_plan(
    plan: KeyPlan,
    nest: Nest,
    source: object,
    destination: object,
    tables: tuple[Table, Table] = (None, None),
    *,
    limits: RequestLimits | None = None,
) -> Tally:
    """Move a nest's payload (no padding) from one buffer to another through two cards.

    A few handles a side are used in turn, so that each is made, used, ended and made again.
    """
    cards = Card(limits or RequestLimits()), Card(limits or RequestLimits())
    buffers = (
        as_bytes("source", source, nest.source.nbytes, writable=False),
        as_bytes("destination", destination, nest.destination.nbytes, writable=True),
    )
    ends: list[KeyedMemory] = []
    for card, buffer, table, page, access in zip(
        cards, buffers, tables, nest.pages, (0, LOCAL_WRITE | REMOTE_WRITE), strict=True
    ):
        base = 0x7F0000001000
        key = card.register(buffer, base, access)
        ends.append(KeyedMemory(base, lambda _, key=key: key, table, page))  # type: ignore[misc]
    rings = [[card.create(card.limits.key_entries + 1) for _ in range(_RING)] for card in cards]
    done = Tally()
    for number, stream in enumerate(streams(plan, *ends)):
        places = (stream.source, stream.destination)
        keys = [
            _ready(card, ring[number % _RING], place, access)
            for card, ring, place, access in zip(cards, rings, places, (0, REMOTE_WRITE), strict=True)
        ]
        for offset, nbytes in stream.writes():
            local, remote = ((key, place.address + offset) for key, place in zip(keys, places, strict=True))
            cards[0].write(cards[1], local, remote, nbytes)
            done.writes, done.nbytes = done.writes + 1, done.nbytes + nbytes
        for card, key, place in zip(cards, keys, places, strict=True):
            if place.registration is not None:
                card.invalidate(key)
                done.invalidations += 1
        done.source_keys += stream.source.registration is not None
        done.destination_keys += stream.destination.registration is not None
    return done


def _ready(card: Card, handle: int, place: StreamSide, access: int) -> int:
    if place.registration is None:
        return place.key
    card.make(handle, place.registration, access)
    return handle
