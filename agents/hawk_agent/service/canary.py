"""Proof of a link: a small transfer of random bytes between two layouts, through the path that real ones
take."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Final

from hawk_agent.errors import LimitReachedError, LinkDownError
from hawk_agent.memory import mapping
from hawk_agent.memory.region import CacheRegion
from hawk_agent.protocol import common_pb2, engine_pb2, peer_pb2
from hawk_agent.streaming.job import SendJob
from hawk_agent.streaming.lease import LeaseState, LeaseTerms
from hawk_agent.transfer import translation as translations
from hawk_agent.transfer.outcome import TransferOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawk_agent.service.links import PeerLink
    from hawk_agent.service.reservations import Reservations
    from hawk_agent.service.sends import Outbound
    from hawk_agent.streaming.receiver import Receiver
    from hawk_agent.streaming.report import Report
    from hawk_agent.streaming.table import HeldLease, LeaseTable
    from hawk_agent.supervision import Duty, TaskSupervisor

_SIZES: Final = {"l": 4, "c": 2, "b": 1, "h": 2, "s": 37, "d": 32}
_SOURCE: Final = "l c b h s d"
_DESTINATION: Final = "l c b h s1 d1 s0 d0"
_TILE: Final = {"s0": 16, "d0": 16}
_TERMS: Final = LeaseTerms(grant=5.0, stall=5.0, grace=1.0, max_grace=5.0)
CHUNK_LAYERS: Final = 2
MAX_CANARIES: Final = 64
ANSWER_SECONDS: Final = 3.0
CANARY: Final = "canary"
"""Owner and request of canaries' leases."""


@contextlib.contextmanager
def scratch(notation: str, sizes: dict[str, int], content: bytes | None) -> Iterator[CacheRegion]:
    """A region of this process for one canary; filled with `content`, or with random bytes."""
    layout = translations.parse_layout(notation, sizes, "float16")
    descriptor = os.memfd_create(CANARY, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, layout.nbytes)
        mapping.check_descriptor(descriptor, layout.nbytes, CANARY)
        memory = mapping.map_memory(descriptor, layout.nbytes, writable=True, label=CANARY)
        memory[:] = os.urandom(layout.nbytes) if content is None else content.ljust(layout.nbytes, b"\xff")
        readable = mapping.reopen_read_only(descriptor)
        region = CacheRegion(CANARY, "", "", "", layout, memory, readable, identity="")
    finally:
        os.close(descriptor)
    try:
        yield region
    finally:
        region.retire()


class Canaries:
    """Both sides of the proof."""

    def __init__(
        self,
        identity: peer_pb2.Identity,
        *,
        table: LeaseTable,
        reservations: Reservations,
        receiver: Receiver,
        outbound: Outbound,
        supervisor: TaskSupervisor,
    ) -> None:
        self._identity = identity
        self._table = table
        self._reservations = reservations
        self._receiver = receiver
        self._outbound = outbound
        self._supervisor = supervisor
        self._waiting: set[Duty] = set()

    async def grant(self) -> engine_pb2.Ticket:
        """A lease on a fresh scratch region, which a task of ours acknowledges. LimitReachedError when there
        are many."""
        if len(self._waiting) >= MAX_CANARIES:
            raise LimitReachedError(f"{MAX_CANARIES} canaries are under way, the most at once")
        with scratch(_DESTINATION, _SIZES | _TILE, b"") as region:
            held = self._table.grant(
                region,
                translations.select_extent(region.layout, (), ()),
                _TERMS,
                request=CANARY,
                verify=common_pb2.VERIFY_ALWAYS,
                owner=CANARY,
                empty=False,
            )
        duty = self._supervisor.finish("canary", lambda: self._mind(held))
        self._waiting.add(duty)
        duty.done.add_done_callback(lambda _: self._waiting.discard(duty))
        return self._reservations.ticket(held)

    async def _mind(self, held: HeldLease) -> None:
        await held.until(lambda: held.lease.state is LeaseState.COMPLETE or held.lease.state.ended)
        if held.lease.state is LeaseState.COMPLETE:
            self._receiver.acknowledge(held)

    async def prove(self, link: PeerLink, transport: str) -> Report:
        """Ask the peer for a scratch lease and fill it. The report's outcome is the proof."""
        if link.channel is None:
            raise LinkDownError(f"the link to {link.node} is down")
        request = peer_pb2.CanaryRequest(identity=self._identity)
        reply = await link.channel.stub.Canary(request, timeout=ANSWER_SECONDS)
        ticket = engine_pb2.Ticket.FromString(reply.ticket)
        with scratch(_SOURCE, _SIZES, None) as region:
            source = translations.select_extent(region.layout, (), ())
            destination = translations.Selection(
                translations.layout_from_wire(ticket.layout), tuple(ticket.blocks)
            )
            job = SendJob(
                ticket,
                region,
                translations.Translation(source, destination),
                CHUNK_LAYERS,
                (),
                all_complete=True,
                layer_timeout=ANSWER_SECONDS,
            )
            outgoing = self._outbound.start(job, link, transport)
            try:
                return await asyncio.shield(outgoing.result)
            except asyncio.CancelledError:
                outgoing.abort(TransferOutcome.ABORTED_BY_SENDER, "the proof was given up")
                raise
