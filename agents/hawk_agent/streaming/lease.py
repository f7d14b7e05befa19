"""A lease as a state machine: pure, with the time passed in.

```
granted ──begin──▶ writing ──finish──▶ complete ──acknowledge──▶ acknowledged
   │                  │                   │
   └──────────────────┴───── end ─────────┴──▶ expired | aborted | fenced
```

Both agents keep one of these for a transfer. Two facts are kept apart on purpose: the *outcome*, which is
decided once and never changes, and *access*, which says whether the other side may still touch the blocks.
Blocks are handed back when there is an outcome and access has ended; an abort alone, or a timer alone, frees
nothing.

Events that come again, or late, change nothing: a second completion, a completion after an abort, an abort
after the acknowledgement. Events that would be a lie are refused: an acknowledgement of a lease that isn't
complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from hawk_agent.errors import BadRequestError
from hawk_agent.transfer.outcome import TransferOutcome


class LeaseState(Enum):
    """Where a lease is."""

    GRANTED = "granted"
    WRITING = "writing"
    COMPLETE = "complete"
    ACKNOWLEDGED = "acknowledged"
    EXPIRED = "expired"
    ABORTED = "aborted"
    FENCED = "fenced"

    @property
    def ended(self) -> bool:
        """True if the outcome is decided."""
        return self in _ENDED


_ENDED = frozenset({LeaseState.ACKNOWLEDGED, LeaseState.EXPIRED, LeaseState.ABORTED, LeaseState.FENCED})
_END_STATE = {
    TransferOutcome.EXPIRED: LeaseState.EXPIRED,
    TransferOutcome.PEER_LOST: LeaseState.FENCED,
    TransferOutcome.FENCED: LeaseState.FENCED,
}


STALL_SECONDS = 10.0
STANDSTILL_SECONDS = 0.5
"""An event that comes later than this shows that the agent itself stood still: its process was stopped,
or its machine too busy. What other agents said meanwhile waits unread."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How long a lease may stay where it is, in seconds. Both agents take the graces from the ticket."""

    grant: float = 60.0
    """From the grant to the first word of the sender."""
    stall: float = STALL_SECONDS
    """Between two signs of life of the other agent while writing."""
    grace: float = 0.2
    """From complete to the first question whether the receiver still means it."""
    max_grace: float = 30.0
    """From complete to the end, however often the grace was extended."""

    def __post_init__(self) -> None:
        if not 0 < self.grace <= self.max_grace:
            raise BadRequestError(
                f"grace {self.grace} s must be above 0 and at most maxGrace, {self.max_grace} s"
            )


@dataclass(frozen=True, slots=True)
class Lease:
    """One lease at one moment. Times are seconds of a monotonic clock."""

    terms: LeaseTerms
    deadline: float
    state: LeaseState = LeaseState.GRANTED
    outcome: TransferOutcome | None = None
    message: str = ""
    access: bool = False
    complete_at: float | None = None
    extensions: int = 0

    @property
    def reusable(self) -> bool:
        """True if the blocks may be handed out again: the outcome is decided and remote access has ended."""
        return self.outcome is not None and not self.access


def grant(terms: LeaseTerms, now: float) -> Lease:
    """A new lease."""
    return Lease(terms, deadline=now + terms.grant)


def begin(lease: Lease, now: float) -> Lease:
    """The sender presented the ticket; from here the blocks may be touched. Refused unless just granted."""
    if lease.state is not LeaseState.GRANTED:
        raise BadRequestError(
            f"the lease is {lease.state.value}, not granted: a ticket is good for one transfer"
        )
    return replace(lease, state=LeaseState.WRITING, access=True, deadline=now + lease.terms.stall)


def beat(lease: Lease, now: float) -> Lease:
    """A sign of life of the other side."""
    if lease.state is not LeaseState.WRITING:
        return lease
    return replace(lease, deadline=now + lease.terms.stall)


def excuse(lease: Lease, seconds: float) -> Lease:
    """Nobody could be heard for so long, because this agent itself stood still: wait longer by as much.

    A complete lease keeps its limits: they bound how long its blocks are held, and nobody is waited for.
    """
    if lease.state not in {LeaseState.GRANTED, LeaseState.WRITING}:
        return lease
    return replace(lease, deadline=lease.deadline + seconds)


def finish(lease: Lease, now: float) -> Lease:
    """Every byte is in place, checked, and nothing writes any more. Nothing happens unless writing."""
    if lease.state is not LeaseState.WRITING:
        return lease
    return replace(
        lease, state=LeaseState.COMPLETE, access=False, complete_at=now, deadline=now + lease.terms.grace
    )


def acknowledge(lease: Lease) -> Lease:
    """The decode side has used it. Again is fine; before completion, or after another end, is refused."""
    if lease.state is LeaseState.ACKNOWLEDGED:
        return lease
    if lease.state is not LeaseState.COMPLETE:
        why = lease.outcome.meaning if lease.outcome else "wait for the last layer first"
        raise BadRequestError(f"the lease is {lease.state.value} and can't be acknowledged: {why}")
    return replace(lease, state=LeaseState.ACKNOWLEDGED, outcome=TransferOutcome.SUCCESS, access=False)


def end(lease: Lease, outcome: TransferOutcome, message: str = "") -> Lease:
    """End it without success. The first end counts; access is left as it is until `access_ended`."""
    if outcome.ok:
        raise ValueError("success comes by acknowledgement only")
    if lease.state.ended:
        return lease
    state = _END_STATE.get(outcome, LeaseState.ABORTED)
    return replace(lease, state=state, outcome=outcome, message=message or outcome.meaning)


def access_ended(lease: Lease) -> Lease:
    """The writer was stopped, flushed or fenced. Only a decided lease can say so: a live one has `finish`."""
    if not lease.state.ended:
        raise ValueError(f"a lease that is {lease.state.value} ends by finish or end, not by its writer")
    return replace(lease, access=False)


def extend(lease: Lease, now: float) -> Lease:
    """The receiver is alive and still means it: another grace, up to the maximum, then expired."""
    if lease.state is not LeaseState.COMPLETE or lease.complete_at is None:
        return lease
    last = lease.complete_at + lease.terms.max_grace
    if now >= last:
        return end(
            lease, TransferOutcome.EXPIRED, f"no acknowledgement within maxGrace, {lease.terms.max_grace:g} s"
        )
    return replace(lease, deadline=min(now + lease.terms.grace, last), extensions=lease.extensions + 1)


def due(lease: Lease, now: float) -> bool:
    """True if somebody has to look: expire a grant or a stall, or ask after a grace."""
    return not lease.state.ended and now >= lease.deadline


def tick(lease: Lease, now: float, slack: float = 0.0) -> Lease:
    """Apply the passing of time. A complete lease is held until maxGrace and `slack` have gone by.

    The sender asks after each grace and ends the lease itself; the receiver's tick is the backstop for a
    sender that vanished, so it gets a slack to let the sender's own end arrive first.
    """
    if not due(lease, now):
        return lease
    if lease.state is LeaseState.GRANTED:
        return end(lease, TransferOutcome.EXPIRED, f"no transfer began within {lease.terms.grant:g} s")
    if lease.state is LeaseState.WRITING:
        return end(
            lease,
            TransferOutcome.TIMED_OUT,
            f"no sign of life from the other agent for {lease.terms.stall:g} s",
        )
    assert lease.complete_at is not None, "a complete lease knows since when"
    last = lease.complete_at + lease.terms.max_grace + slack
    if now >= last:
        return end(
            lease, TransferOutcome.EXPIRED, f"no acknowledgement within maxGrace, {lease.terms.max_grace:g} s"
        )
    return lease
