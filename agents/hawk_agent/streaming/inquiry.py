"""A sender's questions about its lease, beside the conversation, over the link as it is at that moment.

A conversation ends with its connection; the lease at the receiver doesn't. While the receiver is the same
incarnation it knows how the lease stands, or how it ended, and the link that carried the conversation may
have been made anew since.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import grpc

from hawk_agent.errors import LinkDownError
from hawk_agent.protocol import peer_pb2
from hawk_agent.streaming.conversation import LastWordError
from hawk_agent.supervision import being_cancelled
from hawk_agent.transfer.outcome import TransferOutcome, outcome_from_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar

    from hawk_agent.protocol import engine_pb2, peer_pb2_grpc

    T = TypeVar("T")
    Stub = peer_pb2_grpc.PeerAsyncStub

ANSWER_SECONDS: Final = 1.0
REST_SECONDS: Final = 0.25
PATIENCE_SECONDS: Final = 10.0
"""How long a receiver that may have a success to tell is asked. A link whose peer stood still for so long is
lost, and found again, within it."""
MAX_REFUSALS: Final = 4
"""After so many refused connections in a row nobody listens there any more: that incarnation is dead."""


class Inquiry:
    """Questions about one lease. `reach` gives the peer's stub over the link as it is now, or None."""

    def __init__(
        self,
        ticket: engine_pb2.Ticket,
        reach: Callable[[], Stub | None],
        clock: Callable[[], float],
    ) -> None:
        self._ticket = ticket
        self._reach = reach
        self._clock = clock

    async def alive(self, patience: float) -> None:
        """Returns if the lease is complete and waits for its acknowledgement. LastWordError tells its end."""
        ticket = self._ticket
        request = peer_pb2.InquireRequest(
            epoch=ticket.epoch, lease=ticket.lease, generation=ticket.generation
        )

        async def ask(stub: Stub) -> str:
            reply = await stub.Inquire(request, timeout=ANSWER_SECONDS)
            if reply.epoch != ticket.epoch:
                raise LastWordError(
                    TransferOutcome.PEER_LOST,
                    f"the receiver restarted: epoch {ticket.epoch} is now {reply.epoch}",
                )
            if reply.outcome:
                raise LastWordError(outcome_from_wire(reply.outcome), reply.message)
            return "" if reply.alive else "it hasn't heard all of the sender's words"

        if problem := await self._repeat(ask, patience):
            raise LastWordError(TransferOutcome.PEER_LOST, f"no acknowledgement and no answer ({problem})")

    async def end(self, outcome: TransferOutcome, message: str, patience: float) -> LastWordError:
        """End the lease, unless it has ended; how it ended. `outcome` if the receiver can't be asked."""
        ticket = self._ticket
        request = peer_pb2.DeclineRequest(
            epoch=ticket.epoch,
            lease=ticket.lease,
            generation=ticket.generation,
            token=ticket.token,
            reason=message,
            outcome=outcome.wire,
        )
        final = LastWordError(outcome, message)

        async def tell(stub: Stub) -> str:
            nonlocal final
            reply = await stub.Decline(request, timeout=ANSWER_SECONDS)
            if reply.outcome:
                final = LastWordError(outcome_from_wire(reply.outcome), reply.message or message)
            return ""

        await self._repeat(tell, patience)
        return final

    async def _repeat(self, question: Callable[[Stub], Awaitable[str]], patience: float) -> str:
        """Ask until there is an answer, for so many seconds, once at least; what is in the way at the end."""
        until = self._clock() + patience
        refusals = 0
        while True:
            try:
                problem = await question(self._stub())
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, LinkDownError) as error:
                problem = said(error)
            except asyncio.CancelledError:
                if being_cancelled():
                    raise
                problem = "the link was closed"
            refusals = refusals + 1 if "refused" in problem else 0
            if not problem or self._clock() >= until or refusals >= MAX_REFUSALS:
                return problem
            await asyncio.sleep(REST_SECONDS)

    def _stub(self) -> Stub:
        stub = self._reach()
        if stub is None:
            raise LinkDownError("the link is down")
        return stub


def said(error: Exception) -> str:
    """An error of a call in a few words."""
    if isinstance(error, grpc.aio.AioRpcError):
        return error.details() or error.code().name
    return str(error)
