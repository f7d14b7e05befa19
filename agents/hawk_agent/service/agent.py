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

from hawk_agent.memory.region import CacheRegions
from hawk_agent.metrics import AgentMetrics
from hawk_agent.protocol import peer_pb2
from hawk_agent.service.canary import Canaries
from hawk_agent.service.data_paths import DataPaths
from hawk_agent.service.engine_memory import EngineMemory
from hawk_agent.service.engines import EngineServer
from hawk_agent.service.links import PeerLinks
from hawk_agent.service.listening import open_peers
from hawk_agent.service.peers import PeerService
from hawk_agent.service.pools import PoolTable, Usage
from hawk_agent.service.requests import Requests
from hawk_agent.service.reservations import Reservations
from hawk_agent.service.sends import Outbound, Sends
from hawk_agent.service.settings import PROTOCOL, AgentSettings, host_id
from hawk_agent.streaming.receiver import Receiver
from hawk_agent.streaming.table import LeaseTable
from hawk_agent.supervision import TaskSupervisor
from hawk_agent.transfer.outcome import TransferOutcome
from hawk_agent.transfer.transport import TransportContext
from hawk_agent.transports.calibration import machine_costs
from hawk_agent.transports.registry import TransportRegistry
from hawk_api import addresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_agent.service.engine_identity import Reviewer

log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
UNHEALTHY_SECONDS = 15.0
STOP_SECONDS = 5.0


class NodeAgent:
    """One node's agent. `start` opens its sockets, `stop` ends every transfer and closes them.

    Args:
        settings: what it is told.
        registry: the data paths that there are; by default those of the installed packages.
        reviewer: tells engines by their tokens; without one the socket's permissions suffice.
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        registry: TransportRegistry | None = None,
        reviewer: Reviewer | None = None,
    ) -> None:
        self.settings = settings
        self._registry = registry
        self._reviewer = reviewer
        self.metrics = AgentMetrics()
        self.regions = CacheRegions()
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
        self.pools = PoolTable()
        """The pools' settings; set from outside."""
        self.usage = Usage()
        self.on_change: Callable[[], None] = lambda: None
        self._pools = [
            ThreadPoolExecutor(settings.copy_threads, thread_name_prefix=name)
            for name in ("send", "receive", "hash")
        ]
        self._ticked = self.table.clock()
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
        await asyncio.to_thread(machine_costs)  # once, and not while the first transfer waits
        paths = await self._open_paths()
        self.identity.transports.extend(self.transports)
        hashing, clock, settings = self._pools[2], self.table.clock, self.settings
        memory = EngineMemory(self.regions, paths)
        self.receiver = Receiver(
            self.identity.epoch,
            self.table,
            self.transports,
            hashing=hashing,
            metrics=self.metrics,
            supervisor=self.supervisor,
        )
        reservations = Reservations(self.table, self.pools, self.identity, settings.terms)
        outbound = Outbound(
            self.identity,
            paths,
            hashing=hashing,
            at_once=settings.copy_threads,
            clock=clock,
            supervisor=self.supervisor,
        )
        canaries = Canaries(
            self.identity,
            table=self.table,
            reservations=reservations,
            receiver=self.receiver,
            outbound=outbound,
            supervisor=self.supervisor,
        )
        self.links = PeerLinks(
            self.identity,
            settings.tls,
            self.metrics,
            memory=memory,
            paths=paths,
            prove=canaries.prove,
            changed=self._changed,
            supervisor=self.supervisor,
        )
        memory.changed += [self.links.regions_changed, self._changed]
        self.sends = Sends(
            outbound,
            self.links,
            metrics=self.metrics,
            supervisor=self.supervisor,
            layer_timeout=settings.layer_timeout,
            stall=settings.stall,
        )
        self._stack.push_async_callback(self.supervisor.close)
        peers = PeerService(
            self.identity,
            memory=memory,
            paths=paths,
            receiver=self.receiver,
            table=self.table,
            canaries=canaries,
        )
        self.address = reservations.address = await open_peers(settings, self._stack, peers)
        self._stack.callback(memory.close)  # lets peers go that attend
        self.supervisor.keep("tick", self._ticking)
        self._stack.callback(self.links.close)

        def requests(owner: object) -> Requests:
            return Requests(
                owner,
                identity=self.identity,
                reviewer=self._reviewer,
                memory=memory,
                reservations=reservations,
                receiver=self.receiver,
                sends=self.sends,
            )

        engines = EngineServer(
            settings.socket,
            settings.socket_mode,
            metrics=self.metrics,
            requests=requests,
            supervisor=self.supervisor,
        )
        await engines.start()
        self._stack.push_async_callback(engines.close)
        log.info("agent of %s, epoch %s, peers at %s, engines at %s", settings.node, self.identity.epoch,
                 self.address, settings.socket)  # fmt: skip
        self.links.wire(self.settings.peers)

    async def _open_paths(self) -> DataPaths:
        settings = self.settings
        host = addresses.parse_address(settings.listen).host
        context = TransportContext(
            sending=self._pools[0],
            receiving=self._pools[1],
            metrics=self.metrics,
            supervisor=self.supervisor,
            socket=settings.socket,
            listen_host=host,
            advertised_host=addresses.parse_address(settings.advertise, 0).host
            if settings.advertise
            else host,
            data_port=settings.data_port,
            rdma_devices=settings.rdma_device,
            rdma_gid_index=settings.rdma_gid_index,
            rails=settings.rails,
            strategy=settings.strategy,
        )
        registry = self._registry or TransportRegistry()
        self.transports, self.unused = await registry.open(settings.transports, context, self._stack)
        return DataPaths(self.transports, self.identity)

    async def stop(self) -> None:
        """End every transfer and lease, tell the peers, close."""
        results = self.sends.leave_all("the agent stops")
        leases = [
            self.receiver.end(held, TransferOutcome.ABORTED_BY_RECEIVER, "the agent stops")
            for held in self.table.live()
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.gather(*leases, *results, return_exceptions=True)
        await self._stack.aclose()
        for region in self.regions:
            self.regions.drop(region)

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
            if self.usage.look(self.regions, self.pools.terms, self.table.clock()):
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
            metrics.blocks.labels(*region.key).set(len(region.blocks))
