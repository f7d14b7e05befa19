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


class Outcome(IntEnum):
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
        return self is Outcome.SUCCESS

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
        """Whether sending the same KV again, with a new ticket, can help. The source is still held by its
        engine."""
        return self in _RESEND

    @property
    def revokes(self) -> bool:
        """Whether the sender, by it, takes a complete transfer back: the request is over, or the time in
        which it had to be used. Whatever else happens to the sender, what is complete stays complete."""
        return self in {Outcome.ABORTED_BY_SENDER, Outcome.EXPIRED}

    @property
    def wire(self) -> pb.Outcome.ValueType:
        """The protocol's value."""
        return self.value


def from_wire(value: int) -> Outcome:
    """An unknown or unset number is an internal failure, never a success."""
    try:
        return Outcome(value)
    except ValueError:
        return Outcome.INTERNAL


_MEANING: Final = {
    Outcome.SUCCESS: "the receiver has acknowledged every byte",
    Outcome.EXPIRED: "the lease ran out before the receiver acknowledged",
    Outcome.ABORTED_BY_SENDER: "the prefill side gave up",
    Outcome.ABORTED_BY_RECEIVER: "the decode side gave the lease back before it was complete",
    Outcome.PEER_LOST: "the other agent is dead or silent",
    Outcome.STALE_EPOCH: "the ticket is from an earlier incarnation of the receiver; reserve again",
    Outcome.REFUSED: "the receiver refused the transfer before the first byte",
    Outcome.DIGEST_MISMATCH: "the bytes that arrived are not the bytes that were sent",
    Outcome.TRANSPORT_FAILED: "the data path broke",
    Outcome.TIMED_OUT: "no progress within the time limit",
    Outcome.ENGINE_LOST: "the engine closed its connection to the agent",
    Outcome.FENCED: "remote access was cut off by force",
    Outcome.INTERNAL: "the agent met a state that it doesn't know",
}

_RESEND: Final = frozenset(
    {
        Outcome.EXPIRED,
        Outcome.PEER_LOST,
        Outcome.STALE_EPOCH,
        Outcome.DIGEST_MISMATCH,
        Outcome.TRANSPORT_FAILED,
        Outcome.TIMED_OUT,
        Outcome.FENCED,
        Outcome.ABORTED_BY_RECEIVER,
    }
)


def outcome_of(error: BaseException) -> Outcome:
    """The outcome that an exception stands for. Anything unforeseen is INTERNAL."""
    if isinstance(error, TransferFailedError):
        return error.outcome
    if isinstance(error, StaleEpochError):
        return Outcome.STALE_EPOCH
    if isinstance(error, TransportTimeoutError):
        return Outcome.TIMED_OUT
    if isinstance(error, TransportError):
        return Outcome.TRANSPORT_FAILED
    if isinstance(error, PeerError):
        return Outcome.PEER_LOST
    return Outcome.REFUSED if isinstance(error, HawkAgentError) else Outcome.INTERNAL
