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
import os
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import grpc

from hawk_agent.errors import BadRequestError, EventsRequiredError, LimitReachedError, SocketInUseError
from hawk_agent.memory.mapping import is_event
from hawk_agent.memory.region import Region, Regions
from hawk_agent.protocol import common_pb2, engine_pb2, peer_pb2, peer_pb2_grpc
from hawk_agent.service import wire
from hawk_agent.service.canary import Canaries
from hawk_agent.service.engines import EngineServer
from hawk_agent.service.links import Link, Links
from hawk_agent.service.metrics import Metrics
from hawk_agent.service.peers import PeerService
from hawk_agent.service.settings import PROTOCOL, Settings, host_id
from hawk_agent.streaming import translation as translations
from hawk_agent.streaming.job import Job
from hawk_agent.streaming.lease import Terms
from hawk_agent.streaming.outcome import Outcome
from hawk_agent.streaming.receiver import Receiver
from hawk_agent.streaming.report import Report
from hawk_agent.streaming.sender import Outgoing
from hawk_agent.streaming.table import Held, LeaseTable
from hawk_agent.transports.faults import equip
from hawk_agent.transports.shm import SharedMemory
from hawk_agent.transports.tcp import Tcp
from hawk_api import addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from hawk_agent.transports.base import Transport

log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
UNHEALTHY_SECONDS = 15.0
STOP_SECONDS = 5.0
MAX_SENDING = 1024


class Agent:
    """One node's agent. `start` opens its sockets, `stop` ends every transfer and closes them."""

    def __init__(self, settings: Settings, transports: dict[str, Transport] | None = None) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.regions = Regions()
        self.table = LeaseTable()
        self.identity = peer_pb2.Identity(
            node=settings.node,
            epoch=f"{time.time_ns():016x}-{secrets.token_hex(4)}",
            version=importlib.metadata.version("hawkpool"),
            protocol=PROTOCOL,
            host=settings.host_id or host_id(),
        )
        self.address = ""
        self.canaries = Canaries(self)
        self.on_change: Callable[[], None] = lambda: None
        self._given = transports
        self._pools = [
            ThreadPoolExecutor(settings.copy_threads, thread_name_prefix=name)
            for name in ("send", "receive", "hash")
        ]
        self._ticked = self.table.clock()
        self._slots = asyncio.Semaphore(settings.copy_threads)
        self._sending: set[Outgoing] = set()
        self._regions_event = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Open everything. SocketInUseError names what is in the way; nothing stays open then."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def _start(self) -> None:
        host = addresses.parse(self.settings.listen).host
        for pool in self._pools:
            self._stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        self.transports = equip(await self._open_transports(host))
        self.identity.transports.extend(self.transports)
        self.receiver = Receiver(
            self.identity.epoch, self.table, self.transports, self._pools[2], self.metrics
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
        )
        self._stack.push_async_callback(self.canaries.close)
        await self._open_peers(host)
        self._tick = asyncio.create_task(self._ticking(), name="tick")
        self._stack.push_async_callback(_cancelled, self._tick)
        self._stack.push_async_callback(self.links.close)
        engines = EngineServer(self, self.settings.socket, self.settings.socket_mode)
        await engines.start()
        self._stack.push_async_callback(engines.close)
        self.links.wire(self.settings.peers)
        log.info("agent of %s, epoch %s, peers at %s, engines at %s", self.settings.node, self.identity.epoch,
                 self.address, self.settings.socket)  # fmt: skip

    async def _open_transports(self, host: str) -> dict[str, Transport]:
        if self._given is not None:
            return self._given
        advertised = addresses.parse(self.settings.advertise, 0).host if self.settings.advertise else host
        found: dict[str, Transport] = {}
        for name in self.settings.transports:
            if name == "shm":
                shm = SharedMemory(
                    self.settings.socket.with_name(self.settings.socket.name + ".peer"), self._pools[1]
                )
                await shm.start()
                self._stack.push_async_callback(shm.close)
                found[name] = shm
            elif name == "tcp":
                tcp = Tcp(host, self.settings.data_port, advertised, self._pools[0], self._pools[1])
                await tcp.start()
                self._stack.push_async_callback(tcp.close)
                found[name] = tcp
            else:
                raise BadRequestError(f"transport {name!r} is unknown; use shm, tcp")
        return found

    async def _open_peers(self, host: str) -> None:
        settings = self.settings
        if settings.tls is None and not settings.insecure:
            raise BadRequestError(
                "no certificate: give --tls-cert, --tls-key and --tls-ca, or say --insecure for a test"
            )
        server = grpc.aio.server(options=wire.SERVER_OPTIONS)
        peer_pb2_grpc.add_PeerServicer_to_server(PeerService(self), server)
        wanted = addresses.parse(settings.listen)
        try:
            if settings.tls is None:
                port = server.add_insecure_port(str(wanted))
            else:
                port = server.add_secure_port(str(wanted), wire.server_credentials(settings.tls))
        except RuntimeError as error:
            raise SocketInUseError(
                f"{wanted} can't be listened on; port 0 takes a free one ({error})"
            ) from error
        if port == 0:
            raise SocketInUseError(f"{wanted} can't be listened on; port 0 takes a free one")
        await server.start()
        self._stack.push_async_callback(server.stop, 0.5)
        told = (
            addresses.parse(settings.advertise, port) if settings.advertise else addresses.Address(host, port)
        )
        self.address = addresses.format(told.host, told.port or port)

    async def stop(self) -> None:
        """End every transfer and lease, tell the peers, close."""
        for outgoing in tuple(self._sending):
            outgoing.abort(Outcome.ABORTED_BY_SENDER, "the agent stops")
        leases = [
            self.receiver.end(held, Outcome.ABORTED_BY_RECEIVER, "the agent stops")
            for held in self.table.live()
        ]
        results = [outgoing.result for outgoing in self._sending]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.gather(*leases, *results, return_exceptions=True)
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
        default = self.settings.terms
        terms = Terms(
            grant=default.grant,
            stall=default.stall,
            grace=request.grace_ms / 1000 or default.grace,
            max_grace=request.max_grace_ms / 1000 or max(default.max_grace, request.grace_ms / 1000),
        )
        return self.table.grant(
            region,
            selection,
            terms,
            request=request.request,
            verify=request.verify or common_pb2.VERIFY_ALWAYS,
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

    async def push(
        self, request: engine_pb2.Push, events: Sequence[int], own: Callable[[str], str]
    ) -> Outgoing:
        """Start to fill a lease. Takes the event descriptors over. On an error the receiver is told at once.

        `own` raises for a region that isn't the caller's.
        """
        ticket = engine_pb2.Ticket()
        link: Link | None = None
        job: Job | None = None
        try:
            ticket = parse_ticket(request.ticket)
            link = self.links.to(ticket.node, ticket.epoch)
            own(request.region)
            job = self._job(request, ticket, events)
            outgoing = self.outgoing(job, link, link.transport)
        except BaseException as error:
            for event in events:
                os.close(event)
            if link is not None:
                self._spawn(self._decline(link, ticket, str(error)))
            raise
        self._spawn(self._run(outgoing, link))
        return outgoing

    def _job(self, request: engine_pb2.Push, ticket: engine_pb2.Ticket, events: Sequence[int]) -> Job:
        if len(self._sending) >= MAX_SENDING:
            raise LimitReachedError(f"{MAX_SENDING} transfers are under way, the most at once")
        region = self.regions.get(request.region)
        if not request.all_complete and not events and not ticket.empty:
            raise EventsRequiredError(
                "a push sends layers when their eventfds fire, one a layer or one a chunk; "
                "without events say all_complete, and only if every layer is in memory already"
            )
        if events and (request.all_complete or ticket.empty):
            raise BadRequestError(
                "layer events make no sense with all_complete or an empty ticket; leave one out"
            )
        for event in events:
            if not is_event(event):
                raise EventsRequiredError(
                    "a layer event must be an eventfd that the engine signals when the layer is in memory"
                )
        translation = None
        if not ticket.empty:
            source = translations.select(region.layout, request.extent.windows, request.extent.blocks)
            destination = translations.Selection(translations.from_wire(ticket.layout), tuple(ticket.blocks))
            translation = translations.Translation(source, destination)
        timeout = request.layer_timeout_ms / 1000 or self.settings.layer_timeout
        return Job(
            ticket,
            region,
            translation,
            request.chunk_layers,
            events,
            all_complete=not events,
            layer_timeout=min(timeout, self.settings.layer_timeout),
        )

    def outgoing(self, job: Job, link: Link, transport: str) -> Outgoing:
        """A transfer over a link, not yet running."""
        return Outgoing(
            job,
            lambda: link.stub,
            self.transports[transport],
            identity=self.identity,
            hashing=self._pools[2],
            slots=self._slots,
            clock=self.table.clock,
        )

    async def _run(self, outgoing: Outgoing, link: Link) -> None:
        self._sending.add(outgoing)
        try:
            report = await outgoing.run()
        except Exception as error:
            log.exception("a transfer to %s", outgoing.peer)
            report = Report(Outcome.INTERNAL, f"{type(error).__name__}: {error}")
            outgoing.result.set_result(report)
        finally:
            self._sending.discard(outgoing)
        self.metrics.sent(report)
        if report.outcome in {Outcome.TRANSPORT_FAILED, Outcome.DIGEST_MISMATCH, Outcome.TIMED_OUT}:
            link.suspect()

    async def decline(self, ticket: bytes, reason: str) -> None:
        """The prefill side will not use a ticket: the receiver's blocks are free at once."""
        parsed = parse_ticket(ticket)
        await self._decline(self.links.to(parsed.node, parsed.epoch), parsed, reason)

    async def _decline(self, link: Link, ticket: engine_pb2.Ticket, reason: str) -> None:
        request = peer_pb2.DeclineRequest(
            epoch=ticket.epoch,
            lease=ticket.lease,
            generation=ticket.generation,
            token=ticket.token,
            reason=reason,
        )
        if link.stub is not None:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await link.stub.Decline(request, timeout=1.0)

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
        """Returns at the next change of regions."""
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
        return f"no tick for {idle:.0f} s\n" if idle > UNHEALTHY_SECONDS else ""

    async def _ticking(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                await self.receiver.tick()
                self._count()
                self._ticked = self.table.clock()
            except Exception:
                log.exception("tick")

    def _count(self) -> None:
        metrics = self.metrics
        metrics.leases.set(len(self.table))
        metrics.sending.set(len(self._sending))
        metrics.regions.set(len(self.regions))
        metrics.region_bytes.set(sum(region.nbytes for region in self.regions))
        metrics.blocks.clear()
        for region in self.regions:
            metrics.blocks.labels(region.name).set(len(region.blocks))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)


def parse_ticket(data: bytes) -> engine_pb2.Ticket:
    """A ticket, or BadRequestError."""
    try:
        ticket = engine_pb2.Ticket.FromString(data)
    except Exception as error:
        raise BadRequestError(
            f"the ticket can't be read ({error}); pass the bytes of Reserved unchanged"
        ) from error
    if not ticket.node or not ticket.epoch or not ticket.token:
        raise BadRequestError(
            "the ticket names no node, epoch or token; pass the bytes of Reserved unchanged"
        )
    return ticket


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
