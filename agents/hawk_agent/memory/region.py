"""A region: one worker's KV cache, mapped into the agent, with its layout."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hawk_agent.errors import LimitReachedError, RegionError
from hawk_agent.memory import mapping
from hawk_agent.memory.blocks import Blocks

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Iterator

    from hawk_agent.layouts import Layout

MAX_REGIONS = 64


class RegionKey(NamedTuple):
    """A region's name, within the worker of a pool whose it is."""

    pool: str
    worker: str
    name: str


@dataclass(slots=True)
class CacheRegion:
    """Registered memory. `users` are the leases and transfers under way; it is unmapped after the last of
    them."""

    name: str
    pool: str
    group: str
    worker: str
    layout: Layout
    memory: mmap.mmap
    descriptor: int
    """Read-only: what a peer on this host is handed."""
    identity: str
    """Unique in the agent's life, so that a peer never takes an old mapping for a new region."""
    blocks: Blocks = field(default_factory=Blocks)
    users: int = 0
    retired: bool = False
    closing: list[Callable[[], None]] = field(default_factory=list)
    """Called before the memory is unmapped, such as to end a data path's registration."""

    @property
    def key(self) -> RegionKey:
        """Its identity among the agent's regions."""
        return RegionKey(self.pool, self.worker, self.name)

    @property
    def nbytes(self) -> int:
        """Bytes mapped."""
        return len(self.memory)

    def is_memory(self, descriptor: int) -> bool:
        """True if a descriptor is of this region's memory."""
        one, other = os.fstat(descriptor), os.fstat(self.descriptor)
        return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)

    def retain(self) -> None:
        """A lease or transfer starts to use it."""
        if self.retired:
            raise RegionError(f"region {self.name} is gone: its engine unregistered it or went away")
        self.users += 1

    def release(self) -> None:
        """A lease or transfer is done with it, and nothing touches the memory any more."""
        self.users -= 1
        self._close_if_idle()

    def retire(self) -> None:
        """Take no new use; unmap when the last one ends."""
        self.retired = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self.retired and self.users == 0 and self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            while self.closing:
                self.closing.pop()()
            mapping.unmap_memory(self.memory)


def _map(descriptor: int, nbytes: int, label: str) -> mmap.mmap:
    """Check and map the part of an engine's memory that a layout needs. Raises RegionError."""
    mapping.check_descriptor(descriptor, nbytes, label)
    mapping.require_pages(descriptor, nbytes, label)
    return mapping.map_memory(descriptor, nbytes, writable=True, label=label)


class CacheRegions:
    """The regions of an agent. A worker names its own; another worker may use the same names."""

    def __init__(self) -> None:
        self._regions: dict[RegionKey, CacheRegion] = {}
        self._made = 0

    async def register(
        self, descriptor: int, name: str, layout: Layout, *, pool: str, group: str, worker: str
    ) -> CacheRegion:
        """Map and keep. RegionError when the memory doesn't fit the layout. The descriptor stays the
        caller's."""
        key = RegionKey(pool, worker, name)
        self._check(key)
        memory = await asyncio.to_thread(_map, descriptor, layout.nbytes, f"region {name}")
        try:
            self._check(key)
            readable = mapping.reopen_read_only(descriptor)
        except BaseException:
            memory.close()
            raise
        self._made += 1
        region = CacheRegion(
            name, pool, group, worker, layout, memory, readable, identity=f"{self._made}", blocks=Blocks()
        )
        self._regions[key] = region
        return region

    def _check(self, key: RegionKey) -> None:
        if not 0 < len(key.name) <= 253:
            raise RegionError(f"a region's name has 1 to 253 characters, this one {len(key.name)}")
        if key in self._regions:
            raise RegionError(
                f"region {key.name} of worker {key.worker} in pool {key.pool} is registered already; "
                "unregister it first, or choose another name"
            )
        if len(self._regions) >= MAX_REGIONS:
            raise LimitReachedError(f"{MAX_REGIONS} regions are registered, the most an agent takes")

    def drop(self, region: CacheRegion) -> None:
        """Forget it at once; the memory stays mapped as long as a lease or transfer uses it."""
        self._regions.pop(region.key, None)
        region.retire()

    def __iter__(self) -> Iterator[CacheRegion]:
        return iter(tuple(self._regions.values()))

    def __len__(self) -> int:
        return len(self._regions)
