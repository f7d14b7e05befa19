"""How a transfer can end: one closed list, in which only success is success."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from hawk_agent.errors import (
    HawkAgentError,
    PeerError,
    StaleEpochError,
    TransferFailedError,
    TransportError,
    TransportTimeoutError,
)
from hawk_agent.protocol import common_pb2 as pb


class TransferOutcome(IntEnum):
    """The numbers are the protocol's."""

    SUCCESS = pb.OUTCOME_SUCCESS
    EXPIRED = pb.OUTCOME_EXPIRED
    ABORTED_BY_SENDER = pb.OUTCOME_ABORTED_BY_SENDER
    ABORTED_BY_RECEIVER = pb.OUTCOME_ABORTED_BY_RECEIVER
    PEER_LOST = pb.OUTCOME_PEER_LOST
    STALE_EPOCH = pb.OUTCOME_STALE_EPOCH
    REFUSED = pb.OUTCOME_REFUSED
    DIGEST_MISMATCH = pb.OUTCOME_DIGEST_MISMATCH
    TRANSPORT_FAILED = pb.OUTCOME_TRANSPORT_FAILED
    TIMED_OUT = pb.OUTCOME_TIMED_OUT
    ENGINE_LOST = pb.OUTCOME_ENGINE_LOST
    FENCED = pb.OUTCOME_FENCED
    INTERNAL = pb.OUTCOME_INTERNAL

    @property
    def ok(self) -> bool:
        """True for SUCCESS alone."""
        return self is TransferOutcome.SUCCESS

    @property
    def label(self) -> str:
        """The name as logs, metrics and messages have it."""
        return self.name.lower().replace("_", "-")

    @property
    def meaning(self) -> str:
        """One sentence for people."""
        return _MEANING[self]

    @property
    def may_resend(self) -> bool:
        """True if sending the same KV again, with a new ticket, can help. The source is still held by its
        engine."""
        return self in _RESEND

    @property
    def revokes(self) -> bool:
        """True if the sender, by it, takes a complete transfer back: the request is over, or the time in
        which it had to be used. Whatever else happens to the sender, what is complete stays complete."""
        return self in {TransferOutcome.ABORTED_BY_SENDER, TransferOutcome.EXPIRED}

    @property
    def wire(self) -> pb.Outcome.ValueType:
        """The protocol's value."""
        return self.value


def outcome_from_wire(value: int) -> TransferOutcome:
    """An unknown or unset number is an internal failure, never a success."""
    try:
        return TransferOutcome(value)
    except ValueError:
        return TransferOutcome.INTERNAL


_MEANING: Final = {
    TransferOutcome.SUCCESS: "the receiver has acknowledged every byte",
    TransferOutcome.EXPIRED: "the lease ran out before the receiver acknowledged",
    TransferOutcome.ABORTED_BY_SENDER: "the prefill side gave up",
    TransferOutcome.ABORTED_BY_RECEIVER: "the decode side gave the lease back before it was complete",
    TransferOutcome.PEER_LOST: "the other agent is dead or silent",
    TransferOutcome.STALE_EPOCH: "the ticket is from an earlier incarnation of the receiver; reserve again",
    TransferOutcome.REFUSED: "the receiver refused the transfer before the first byte",
    TransferOutcome.DIGEST_MISMATCH: "the bytes that arrived are not the bytes that were sent",
    TransferOutcome.TRANSPORT_FAILED: "the data path broke",
    TransferOutcome.TIMED_OUT: "no progress within the time limit",
    TransferOutcome.ENGINE_LOST: "the engine closed its connection to the agent",
    TransferOutcome.FENCED: "remote access was cut off by force",
    TransferOutcome.INTERNAL: "the agent met a state that it doesn't know",
}

_RESEND: Final = frozenset(
    {
        TransferOutcome.EXPIRED,
        TransferOutcome.PEER_LOST,
        TransferOutcome.STALE_EPOCH,
        TransferOutcome.DIGEST_MISMATCH,
        TransferOutcome.TRANSPORT_FAILED,
        TransferOutcome.TIMED_OUT,
        TransferOutcome.FENCED,
        TransferOutcome.ABORTED_BY_RECEIVER,
    }
)


def outcome_of(error: BaseException) -> TransferOutcome:
    """The outcome that an exception stands for. Anything unforeseen is INTERNAL."""
    if isinstance(error, TransferFailedError):
        return error.outcome
    if isinstance(error, StaleEpochError):
        return TransferOutcome.STALE_EPOCH
    if isinstance(error, TransportTimeoutError):
        return TransferOutcome.TIMED_OUT
    if isinstance(error, TransportError):
        return TransferOutcome.TRANSPORT_FAILED
    if isinstance(error, PeerError):
        return TransferOutcome.PEER_LOST
    return TransferOutcome.REFUSED if isinstance(error, HawkAgentError) else TransferOutcome.INTERNAL
