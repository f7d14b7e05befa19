"""The memory that engines of this node registered: mapped, made known to the data paths, told to peers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hawk_agent.protocol import peer_pb2
from hawk_agent.service.pools import IDLE_SECONDS
from hawk_agent.transfer import translation as translations

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_agent.memory.region import CacheRegion, CacheRegions
    from hawk_agent.protocol import engine_pb2
    from hawk_agent.service.data_paths import DataPaths

LOOK_SECONDS = 0.05


class EngineMemory:
    """Registers and unregisters regions. `changed` is called after each change."""

    def __init__(self, regions: CacheRegions, paths: DataPaths) -> None:
        self._regions = regions
        self._paths = paths
        self._event = asyncio.Event()
        self.changed: list[Callable[[], None]] = []
        self.closed = False
        """True when the agent stops: nobody waits for a change any more."""

    async def register(self, descriptor: int, request: engine_pb2.Register) -> CacheRegion:
        """Map an engine's memory. An error of any data path refuses it."""
        layout = translations.layout_from_wire(request.layout)
        region = await self._regions.register(
            descriptor, request.region, layout, pool=request.pool, group=request.group, worker=request.worker
        )
        try:
            await self._paths.adopt(region)
        except BaseException:
            self._regions.drop(region)
            raise
        self._tell()
        return region

    def unregister(self, region: CacheRegion) -> None:
        """Forget a region; leases and transfers that use it end by themselves."""
        self._regions.drop(region)
        self._tell()

    async def idle(self, pool: str, worker: str) -> None:
        """Return when no lease or transfer has used a worker's memory for a second; at once without memory.

        A second, because one request's transfer follows another's.
        """
        loop = asyncio.get_running_loop()
        used_at = loop.time()
        while mine := [region for region in self._regions if (region.pool, region.worker) == (pool, worker)]:
            now = loop.time()
            if any(region.users for region in mine):
                used_at = now
            elif now - used_at >= IDLE_SECONDS:
                return
            await asyncio.sleep(LOOK_SECONDS)

    def facts(self) -> list[peer_pb2.Region]:
        """Regions as peers are told of them."""
        return [
            peer_pb2.Region(
                pool=r.pool,
                group=r.group,
                worker=r.worker,
                layout=translations.layout_to_wire(r.layout),
                identity=r.identity,
            )
            for r in self._regions
        ]

    async def change(self) -> None:
        """Returns at the next change of regions, and when the agent stops."""
        await self._event.wait()

    def close(self) -> None:
        """Let go of everybody who waits for a change."""
        self.closed = True
        self._event.set()

    def _tell(self) -> None:
        self._event.set()
        self._event = asyncio.Event()
        for heard in self.changed:
            heard()
