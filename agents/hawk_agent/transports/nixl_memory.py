"""NIXL's resources of this agent: registered regions, buffers, and the peers' agents it has met."""

from __future__ import annotations

import contextlib
import mmap
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hawk_agent.errors import TransportError

if TYPE_CHECKING:
    from hawk_agent.layouts.buffers import Bytes
    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.transports.nixl_library import Library


@dataclass(frozen=True, slots=True)
class Opened:
    """A registered region: where it is here, and what a peer needs to reach it."""

    address: int
    metadata: bytes
    registered: object


class Registrations:
    """Regions, each registered once and until it is unmapped."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._opened: dict[int, Opened] = {}

    def of(self, region: CacheRegion) -> Opened:
        """The registration of a region, made on first use."""
        known = self._opened.get(id(region))
        if known is not None:  # without waiting for another region's registration
            return known
        with self._lock:
            found = self._opened.get(id(region))
            if found is None:
                address = _address(region.memory)
                registered = self._library.register(address, region.nbytes)
                found = Opened(address, self._library.metadata(registered), registered)
                self._opened[id(region)] = found
                region.closing.append(lambda: self._drop(id(region)))
            return found

    def _drop(self, region: int) -> None:
        with self._lock:
            found = self._opened.pop(region, None)
        if found is not None:
            with contextlib.suppress(TransportError):
                self._library.deregister(found.registered)

    def close(self) -> None:
        """Deregister all."""
        for region in tuple(self._opened):
            self._drop(region)


def _address(memory: mmap.mmap) -> int:
    """Where a mapping begins. The view that tells is gone at once, for it would keep the mapping open."""
    return int(np.frombuffer(memory, np.uint8).ctypes.data)


class Buffer:
    """Registered memory of this agent: what a transfer reads into, or a small source that came to stay."""

    def __init__(self, library: Library, nbytes: int) -> None:
        self.memory: Bytes = np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)
        self.address = int(self.memory.ctypes.data)
        self.registered = library.register(self.address, nbytes)
        self.metadata = library.metadata(self.registered)


class Buffers:
    """Buffers of one size, made as they are needed and kept: two a running transfer."""

    def __init__(self, library: Library, nbytes: int) -> None:
        self._library = library
        self._nbytes = nbytes
        self._free: list[Buffer] = []

    def take(self) -> Buffer:
        """One that nobody uses."""
        with contextlib.suppress(IndexError):
            return self._free.pop()
        return Buffer(self._library, self._nbytes)

    def give(self, buffer: Buffer) -> None:
        """Back, when no read is under way into it."""
        self._free.append(buffer)

    def close(self) -> None:
        """Deregister those that were given back."""
        while self._free:
            with contextlib.suppress(TransportError):
                self._library.deregister(self._free.pop().registered)


@dataclass(slots=True)
class _Peer:
    name: str
    users: int = 0
    forgotten: bool = False
    known: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """Its memory that was met, as (address, end), with the metadata."""


class Peers:
    """NIXL agents of peers' incarnations.

    What was once met of a peer stays until all of it is forgotten. Memory that lies where other memory lay
    would be looked for under the old keys; so then everything is forgotten and met again.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._known: dict[str, _Peer] = {}

    def meet(self, origin: str, metadata: bytes, address: int, nbytes: int) -> str:
        """The name of an incarnation's agent, whose memory at an address can be read; ends with `leave`.

        Raises:
            TransportError: the metadata can't be taken, or other memory was there and is still being read.
        """
        place = (address, address + nbytes)
        with self._lock:
            peer = self._known.get(origin)
            if peer is not None and self._contradicts(peer, place, metadata):
                if peer.users:
                    raise TransportError(
                        "the peer's memory lies where a region lay that it dropped, and transfers from there "
                        "are running; send again when they have ended"
                    )
                self._library.part(peer.name)
                peer = None
            if peer is None:
                peer = self._known[origin] = _Peer(self._library.meet(metadata))
            elif place not in peer.known:
                self._library.meet(metadata)
            peer.known[place] = metadata
            peer.users += 1
            return peer.name

    @staticmethod
    def _contradicts(peer: _Peer, place: tuple[int, int], metadata: bytes) -> bool:
        start, end = place
        if place in peer.known:
            return peer.known[place] != metadata
        return any(first < end and start < last for first, last in peer.known)

    def leave(self, origin: str) -> None:
        """One use less."""
        with self._lock:
            peer = self._known[origin]
            peer.users -= 1
            self._part(origin, peer)

    def forget(self, origin: str) -> None:
        """Part when nobody uses it any more."""
        with self._lock:
            peer = self._known.get(origin)
            if peer is not None:
                peer.forgotten = True
                self._part(origin, peer)

    def _part(self, origin: str, peer: _Peer) -> None:
        if peer.forgotten and not peer.users:
            del self._known[origin]
            self._library.part(peer.name)
