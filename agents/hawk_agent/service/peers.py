"""This agent's answers to its peers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

import grpc

from hawk_agent.errors import HawkAgentError, TransferFailedError, UnknownLeaseError
from hawk_agent.protocol import engine_pb2, peer_pb2, peer_pb2_grpc
from hawk_agent.service import handshake
from hawk_agent.streaming.incoming import pump_messages
from hawk_agent.streaming.lease import LeaseState
from hawk_agent.transfer.outcome import TransferOutcome, outcome_from_wire, outcome_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.message import Message

    from hawk_agent.service.canary import Canaries
    from hawk_agent.service.data_paths import DataPaths
    from hawk_agent.service.engine_memory import EngineMemory
    from hawk_agent.streaming.receiver import Receiver
    from hawk_agent.streaming.table import LeaseTable

    Context = grpc.aio.ServicerContext[Message, Message]

log = logging.getLogger(__name__)

FIRST_WORD_SECONDS = 5.0
PRESENCE_SECONDS = 1.0


class PeerService(peer_pb2_grpc.PeerServicer):
    """The gRPC service. With TLS, what a peer calls itself must be what its certificate says."""

    def __init__(
        self,
        identity: peer_pb2.Identity,
        *,
        memory: EngineMemory,
        paths: DataPaths,
        receiver: Receiver,
        table: LeaseTable,
        canaries: Canaries,
    ) -> None:
        self._identity = identity
        self._memory = memory
        self._paths = paths
        self._receiver = receiver
        self._table = table
        self._canaries = canaries

    async def Hello(  # noqa: N802
        self, request: peer_pb2.HelloRequest, context: Context
    ) -> peer_pb2.HelloReply:
        """Welcome a peer, or say why not."""
        mine = self._identity
        problem = self._check(request.identity, context)
        if problem is None and request.expected_node and request.expected_node != mine.node:
            problem = handshake.check_identity(mine, mine, request.expected_node, None)
        if problem is not None:
            log.warning("refused %s at %s: %s", request.identity.node, context.peer(), problem.message)
            return peer_pb2.HelloReply(identity=mine, refusal=problem.reason.value, message=problem.message)
        return peer_pb2.HelloReply(identity=mine, regions=self._memory.facts())

    async def Attend(  # noqa: N802
        self,
        request: peer_pb2.AttendRequest,
        context: Context,
    ) -> AsyncIterator[peer_pb2.Presence]:
        """Be present; tell of regions when they change."""
        await self._admit(request.identity, context)
        known: list[peer_pb2.Region] | None = None
        try:
            while not self._memory.closed:
                now = self._memory.facts()
                changed = now != known
                known = now
                yield peer_pb2.Presence(
                    epoch=self._identity.epoch, regions=now if changed else [], regions_changed=changed
                )
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._memory.change(), PRESENCE_SECONDS)
        finally:
            self._paths.forget(request.identity)

    async def Transfer(  # noqa: N802
        self,
        request_iterator: AsyncIterator[peer_pb2.FromSender],
        context: Context,
    ) -> AsyncIterator[peer_pb2.FromReceiver]:
        """Receive one transfer."""
        try:
            async with asyncio.timeout(FIRST_WORD_SECONDS):
                first = await anext(request_iterator)
        except (TimeoutError, StopAsyncIteration):
            yield _ended(TransferOutcome.TIMED_OUT, "the sender said nothing")
            return
        try:
            await self._admit(first.begin.identity, context)
            incoming = self._receiver.open(first.begin)
        except TransferFailedError as error:
            yield _ended(error.outcome, error.detail)
            return
        except HawkAgentError as error:
            yield _ended(outcome_of(error), str(error))
            return
        try:
            pump = asyncio.create_task(pump_messages(incoming, request_iterator))
            while (message := await incoming.outbox.get()) is not None:
                yield message
        finally:
            pump.cancel()
            incoming.peer_gone()

    async def Inquire(  # noqa: N802
        self, request: peer_pb2.InquireRequest, context: Context
    ) -> peer_pb2.InquireReply:
        """Say what became of a lease."""
        epoch = self._identity.epoch
        try:
            held = self._table.get(request.lease)
        except UnknownLeaseError:
            outcome = self._table.outcome(request.lease)
            return peer_pb2.InquireReply(epoch=epoch, outcome=outcome.wire)
        lease = held.lease
        if held.generation != request.generation or request.epoch != epoch:
            return peer_pb2.InquireReply(epoch=epoch, outcome=TransferOutcome.STALE_EPOCH.wire)
        if lease.outcome is not None:
            return peer_pb2.InquireReply(epoch=epoch, outcome=lease.outcome.wire, message=lease.message)
        return peer_pb2.InquireReply(epoch=epoch, alive=lease.state is LeaseState.COMPLETE)

    async def Canary(  # noqa: N802
        self, request: peer_pb2.CanaryRequest, context: Context
    ) -> peer_pb2.CanaryReply:
        """Grant a scratch lease; it acknowledges itself when it is complete."""
        await self._admit(request.identity, context)
        try:
            ticket = await self._canaries.grant()
        except HawkAgentError as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            raise
        return peer_pb2.CanaryReply(ticket=ticket.SerializeToString())

    async def Decline(  # noqa: N802
        self, request: peer_pb2.DeclineRequest, context: Context
    ) -> peer_pb2.DeclineReply:
        """End a lease whose ticket the prefill side will not use, or whose transfer it gives up."""
        ticket = engine_pb2.Ticket(
            epoch=request.epoch, lease=request.lease, generation=request.generation, token=request.token
        )
        try:
            held = self._receiver.find(ticket.epoch, ticket.lease, ticket.generation, ticket.token)
        except HawkAgentError:
            return peer_pb2.DeclineReply(ended=False)
        outcome = outcome_from_wire(request.outcome) if request.outcome else TransferOutcome.ABORTED_BY_SENDER
        await self._receiver.give_up(held, outcome, request.reason or "the prefill side declined")
        final = held.lease.outcome
        if final is None:
            return peer_pb2.DeclineReply(ended=False)
        return peer_pb2.DeclineReply(ended=True, outcome=final.wire, message=held.lease.message)

    def _check(self, identity: peer_pb2.Identity, context: Context) -> handshake.HandshakeProblem | None:
        return handshake.check_identity(self._identity, identity, "", _certified(context))

    async def _admit(self, identity: peer_pb2.Identity, context: Context) -> None:
        problem = self._check(identity, context)
        if problem is not None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, problem.message)


def _certified(context: Context) -> list[str] | None:
    """The nodes that the peer's certificate names; None without TLS."""
    facts = context.auth_context()
    if b"ssl" not in facts.get("transport_security_type", ()):
        return None
    from hawk_api.certificates import node_of  # noqa: PLC0415 -- with TLS only

    nodes = []
    for name in facts.get("x509_subject_alternative_name", ()):
        with contextlib.suppress(ValueError):
            nodes.append(node_of(name.decode()))
    return nodes


def _ended(outcome: TransferOutcome, message: str) -> peer_pb2.FromReceiver:
    return peer_pb2.FromReceiver(ended=peer_pb2.Ended(outcome=outcome.wire, message=message))
