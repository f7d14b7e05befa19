"""Transfers under way from this node: pushes that engines asked for, checked, run, and reported."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from typing import TYPE_CHECKING

import grpc

from hawk_agent.errors import BadRequestError, EventsRequiredError, LimitReachedError, LinkDownError
from hawk_agent.memory.mapping import is_eventfd
from hawk_agent.protocol import engine_pb2, peer_pb2
from hawk_agent.streaming.job import SendJob
from hawk_agent.streaming.sender import Outgoing
from hawk_agent.transfer import translation as translations
from hawk_agent.transfer.outcome import TransferOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.metrics import AgentMetrics
    from hawk_agent.service.data_paths import DataPaths
    from hawk_agent.service.links import PeerLink, PeerLinks
    from hawk_agent.streaming.report import Report
    from hawk_agent.supervision import TaskSupervisor

MAX_SENDING = 1024


class Outbound:
    """Shared by every transfer from this node: data paths, threads that hash, and `at_once`, the chunks
    under way at one moment."""

    def __init__(
        self,
        identity: peer_pb2.Identity,
        paths: DataPaths,
        *,
        hashing: ThreadPoolExecutor,
        at_once: int,
        clock: Callable[[], float],
        supervisor: TaskSupervisor,
    ) -> None:
        self._identity = identity
        self._paths = paths
        self._hashing = hashing
        self._slots = asyncio.Semaphore(at_once)
        self._clock = clock
        self._supervisor = supervisor

    def start(self, job: SendJob, link: PeerLink, transport: str) -> Outgoing:
        """Start a transfer over a link."""
        channel = link.channel
        if channel is None:
            raise LinkDownError(f"the link to {link.node} is down")
        outgoing = Outgoing(
            job,
            lambda: link.stub() or channel.stub,
            self._paths.transports[transport],
            identity=self._identity,
            hashing=self._hashing,
            slots=self._slots,
            clock=self._clock,
        )
        channel.retain()
        outgoing.result.add_done_callback(lambda _: channel.release())
        self._supervisor.finish(f"transfer to {outgoing.peer}", outgoing.run)
        return outgoing


class Sends:
    """The sending half of an agent. `running` are the transfers that engines asked for."""

    def __init__(
        self,
        outbound: Outbound,
        links: PeerLinks,
        *,
        metrics: AgentMetrics,
        supervisor: TaskSupervisor,
        layer_timeout: float,
        stall: float,
    ) -> None:
        """The longest, in seconds, that a layer may take, and that a receiver may be silent."""
        self._outbound = outbound
        self._links = links
        self._metrics = metrics
        self._supervisor = supervisor
        self._layer_timeout = layer_timeout
        self._stall = stall
        self.running: set[Outgoing] = set()

    def push(
        self, request: engine_pb2.Push, events: Sequence[int], own: Callable[[str], CacheRegion]
    ) -> Outgoing:
        """Start to fill a lease. Takes the event descriptors over. On an error the receiver is told at once.

        `own` gives the caller's region of a name, and raises where there is none.
        """
        ticket = engine_pb2.Ticket()
        link: PeerLink | None = None
        job: SendJob | None = None
        try:
            ticket = parse_ticket(request.ticket)
            link = self._links.to(ticket.node, ticket.epoch)
            job = self._job(request, ticket, events, own(request.region))
            outgoing = self._outbound.start(job, link, link.transport)
        except BaseException as error:
            for event in events:
                os.close(event)
            if link is not None:
                decline = functools.partial(self._decline, link, ticket, str(error))
                self._supervisor.finish("declining a ticket", decline)
            raise
        self.running.add(outgoing)
        outgoing.result.add_done_callback(functools.partial(self._ended, outgoing, link))
        return outgoing

    def _job(
        self, request: engine_pb2.Push, ticket: engine_pb2.Ticket, events: Sequence[int], region: CacheRegion
    ) -> SendJob:
        if len(self.running) >= MAX_SENDING:
            raise LimitReachedError(f"{MAX_SENDING} transfers are under way, the most at once")
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
            if not is_eventfd(event):
                raise EventsRequiredError(
                    "a layer event must be an eventfd that the engine signals when the layer is in memory"
                )
        translation = None
        if not ticket.empty:
            source = translations.select_extent(region.layout, request.extent.windows, request.extent.blocks)
            destination = translations.Selection(
                translations.layout_from_wire(ticket.layout), tuple(ticket.blocks)
            )
            translation = translations.Translation(source, destination)
        timeout = request.layer_timeout_ms / 1000 or self._layer_timeout
        return SendJob(
            ticket,
            region,
            translation,
            request.chunk_layers,
            events,
            all_complete=not events,
            layer_timeout=min(timeout, self._layer_timeout),
            stall=self._stall,
        )

    def _ended(self, outgoing: Outgoing, link: PeerLink, result: asyncio.Future[Report]) -> None:
        self.running.discard(outgoing)
        if result.cancelled():
            return
        report = result.result()
        self._count(report)
        if report.outcome in {
            TransferOutcome.TRANSPORT_FAILED,
            TransferOutcome.DIGEST_MISMATCH,
            TransferOutcome.TIMED_OUT,
        }:
            link.suspect()

    def _count(self, report: Report) -> None:
        metrics = self._metrics
        metrics.transfer_sent(report.transport, report.outcome.label, report.nbytes, report.seconds)
        metrics.extensions.inc(report.grace_extensions)
        if report.outcome.ok:
            metrics.hidden.observe(report.hidden_share)
            metrics.exposed.observe(report.exposed_seconds)

    async def decline(self, ticket: bytes, reason: str) -> None:
        """The prefill side will not use a ticket: the receiver's blocks are free at once."""
        parsed = parse_ticket(ticket)
        await self._decline(self._links.to(parsed.node, parsed.epoch), parsed, reason)

    async def _decline(self, link: PeerLink, ticket: engine_pb2.Ticket, reason: str) -> None:
        request = peer_pb2.DeclineRequest(
            epoch=ticket.epoch,
            lease=ticket.lease,
            generation=ticket.generation,
            token=ticket.token,
            reason=reason,
        )
        if link.channel is not None:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await link.channel.stub.Decline(request, timeout=1.0)

    def leave_all(self, message: str) -> list[asyncio.Future[Report]]:
        """Let every source go; the reports to wait for."""
        results = [outgoing.result for outgoing in self.running]
        for outgoing in self.running:
            outgoing.leave(TransferOutcome.ABORTED_BY_SENDER, message, wait=False)
        return results


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
