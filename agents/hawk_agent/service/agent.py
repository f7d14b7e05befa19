"""The agent as a whole: what it holds, and what engines and peers can ask of it.

One event loop does the talking. Copies and digests run in a few threads, whose kernels release the
interpreter. Three pools, because one would deadlock: a receiving thread may wait for a sending one of another
agent, and a chunk is announced only when its sender has a thread to send it with.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from hawk_agent.memory.region import Region, Regions
from hawk_agent.metrics import Metrics
from hawk_agent.protocol import common_pb2, engine_pb2, peer_pb2
from hawk_agent.service.canary import Canaries
from hawk_agent.service.engines import EngineServer
from hawk_agent.service.links import Link, Links
from hawk_agent.service.listening import open_peers, open_transports
from hawk_agent.service.peers import PeerService
from hawk_agent.service.pools import NOTHING, PoolTerms, Usage
from hawk_agent.service.sends import Sends
from hawk_agent.service.settings import PROTOCOL, Settings, host_id
from hawk_agent.streaming.receiver import Receiver
from hawk_agent.streaming.table import Held, LeaseTable
from hawk_agent.supervision import TaskSupervisor
from hawk_agent.transfer import translation as translations
from hawk_agent.transfer.outcome import Outcome
from hawk_agent.transports.calibration import machine
from hawk_agent.transports.faults import equip

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_agent.service.engine_identity import Reviewer
    from hawk_agent.transfer.transport import Transport

log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
UNHEALTHY_SECONDS = 15.0
STOP_SECONDS = 5.0


class Agent:
    """One node's agent. `start` opens its sockets, `stop` ends every transfer and closes them."""

    def __init__(self, settings: Settings, transports: dict[str, Transport] | None = None) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.regions = Regions()
        self.table = LeaseTable()
        self.supervisor = TaskSupervisor(self.metrics.restarted)
        self.identity = peer_pb2.Identity(
            node=settings.node,
            epoch=f"{time.time_ns():016x}-{secrets.token_hex(4)}",
            version=importlib.metadata.version("hawkpool"),
            protocol=PROTOCOL,
            host=settings.host_id or host_id(),
        )
        self.address = ""
        self.unused: dict[str, str] = {}
        """Allowed data paths that couldn't be opened, with the reason."""
        self.canaries = Canaries(self)
        self.pools: dict[str, PoolTerms] = {}
        """What pools ask for, by namespace/name; set from outside."""
        self.usage = Usage()
        self.reviewer: Reviewer | None = None
        """Who tells engines by their tokens; set before the start. None: the socket's permissions suffice."""
        self.on_change: Callable[[], None] = lambda: None
        self._given = transports
        self._pools = [
            ThreadPoolExecutor(settings.copy_threads, thread_name_prefix=name)
            for name in ("send", "receive", "hash")
        ]
        self._ticked = self.table.clock()
        self.sends = Sends(self, self._pools[2])
        self._regions_event = asyncio.Event()
        self.stopping = False
        """Set when peers that attend are to be let go."""
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Open everything. SocketInUseError names what is in the way; nothing stays open then."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def _start(self) -> None:
        for pool in self._pools:
            self._stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        await asyncio.to_thread(machine)  # once, and not while the first transfer waits
        opened = self._given
        if opened is None:
            opened = await open_transports(
                self.settings,
                self._stack,
                self._pools[0],
                self._pools[1],
                metrics=self.metrics,
                unused=self.unused,
            )
        self.transports = equip(opened)
        self.identity.transports.extend(self.transports)
        self.receiver = Receiver(
            self.identity.epoch,
            self.table,
            self.transports,
            hashing=self._pools[2],
            metrics=self.metrics,
            supervisor=self.supervisor,
        )
        self.links = Links(
            self.identity,
            self.settings.tls,
            self.metrics,
            regions=self.region_facts,
            keep=self.keep,
            forget=self.forget,
            paths=self._paths,
            prove=self.canaries.prove,
            changed=self._changed,
            supervisor=self.supervisor,
        )
        self._stack.push_async_callback(self.supervisor.close)
        self.address = await open_peers(self.settings, self._stack, PeerService(self))
        self.supervisor.keep("tick", self._ticking)
        self._stack.callback(self.links.close)
        engines = EngineServer(self, self.settings.socket, self.settings.socket_mode)
        await engines.start()
        self._stack.push_async_callback(engines.close)
        self.links.wire(self.settings.peers)
        log.info("agent of %s, epoch %s, peers at %s, engines at %s", self.settings.node, self.identity.epoch,
                 self.address, self.settings.socket)  # fmt: skip

    async def stop(self) -> None:
        """End every transfer and lease, tell the peers, close."""
        results = self.sends.leave_all("the agent stops")
        leases = [
            self.receiver.end(held, Outcome.ABORTED_BY_RECEIVER, "the agent stops")
            for held in self.table.live()
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.gather(*leases, *results, return_exceptions=True)
        self.stopping = True
        self._regions_event.set()
        await self._stack.aclose()
        for region in self.regions:
            self.regions.drop(region.name)

    # What engines ask

    async def register(self, descriptor: int, request: engine_pb2.Register) -> Region:
        """Map an engine's memory."""
        layout = translations.from_wire(request.layout)
        region = await self.regions.register(
            descriptor, request.region, layout, pool=request.pool, group=request.group, worker=request.worker
        )
        try:
            for transport in self.transports.values():
                await transport.adopt(region)
        except BaseException:
            self.regions.drop(region.name)
            raise
        self._regions_changed()
        return region

    def unregister(self, name: str) -> None:
        """Forget a region; leases and transfers that use it end by themselves."""
        self.regions.drop(name)
        self._regions_changed()

    def reserve(self, request: engine_pb2.Reserve, owner: object) -> Held:
        """Grant a lease on a part of a region."""
        region = self.regions.get(request.region)
        extent = request.extent
        selection = (
            translations.Selection(region.layout)
            if extent.empty
            else translations.select(region.layout, extent.windows, extent.blocks)
        )
        asked = self.pools.get(region.pool, NOTHING)
        terms = asked.over(self.settings.terms, request.grace_ms / 1000, request.max_grace_ms / 1000)
        return self.table.grant(
            region,
            selection,
            terms,
            request=request.request,
            verify=request.verify or asked.verify or common_pb2.VERIFY_ALWAYS,
            owner=owner,
            empty=extent.empty,
        )

    def ticket(self, held: Held) -> engine_pb2.Ticket:
        """What the prefill side needs to fill a lease."""
        terms = held.lease.terms
        return engine_pb2.Ticket(
            node=self.identity.node,
            address=self.address,
            epoch=self.identity.epoch,
            lease=held.id,
            slot=held.slot,
            generation=held.generation,
            token=held.token,
            layout=translations.to_wire(held.selection.layout),
            blocks=held.selection.blocks,
            empty=held.empty,
            verify=held.verify,
            grace_ms=round(terms.grace * 1000),
            max_grace_ms=round(terms.max_grace * 1000),
            request=held.request,
            pool=held.region.pool,
        )

    # What peers and links ask

    def region_facts(self) -> list[peer_pb2.Region]:
        """Regions as peers are told of them."""
        return [
            peer_pb2.Region(
                pool=r.pool,
                group=r.group,
                worker=r.worker,
                layout=translations.to_wire(r.layout),
                identity=r.identity,
            )
            for r in self.regions
        ]

    async def regions_event(self) -> None:
        """Returns at the next change of regions, and when the agent stops."""
        await self._regions_event.wait()

    def keep(self, identity: peer_pb2.Identity, regions: frozenset[str]) -> None:
        """Drop what is kept of a peer's regions other than these."""
        for transport in self.transports.values():
            transport.keep(f"{identity.node}/{identity.epoch}", regions)

    def forget(self, identity: peer_pb2.Identity) -> None:
        """Drop what is kept of a peer's incarnation."""
        for transport in self.transports.values():
            transport.forget(f"{identity.node}/{identity.epoch}")

    def _paths(self, link: Link) -> list[str]:
        """Data paths that both ends have, best first. Shared memory needs one machine."""
        theirs = link.identity
        if theirs is None:
            return []
        return [
            name
            for name in self.transports
            if name in theirs.transports and (name != "shm" or theirs.host == self.identity.host)
        ]

    def _regions_changed(self) -> None:
        self._regions_event.set()
        self._regions_event = asyncio.Event()
        self.links.regions_changed()
        self._changed()

    def _changed(self) -> None:
        self.on_change()

    def unhealthy(self) -> str:
        """Why this agent should be restarted; empty when it does its work."""
        idle = self.table.clock() - self._ticked
        problem = f"no tick for {idle:.0f} s" if idle > UNHEALTHY_SECONDS else self.supervisor.problem()
        return f"{problem}\n" if problem else ""

    async def _ticking(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.receiver.tick()
            if self.usage.look(self.regions, self.pools, self.table.clock()):
                self._changed()
            self._count()
            self._ticked = self.table.clock()

    def _count(self) -> None:
        metrics = self.metrics
        metrics.leases.set(len(self.table))
        metrics.sending.set(len(self.sends.running))
        metrics.regions.set(len(self.regions))
        metrics.region_bytes.set(sum(region.nbytes for region in self.regions))
        metrics.blocks.clear()
        for region in self.regions:
            metrics.blocks.labels(region.name).set(len(region.blocks))
