"""The receiving end of transfers: which are admitted to which lease, and how leases end.

The receiver decides the outcome of a lease: what it says last (`Ended`) is what the sender takes over.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from hawk_agent.errors import (
    BadRequestError,
    HawkAgentError,
    StaleEpochError,
    TransferFailedError,
    UnknownLeaseError,
)
from hawk_agent.streaming import lease as leases
from hawk_agent.streaming.incoming import Incoming
from hawk_agent.streaming.table import EndedLease, HeldLease
from hawk_agent.transfer.outcome import TransferOutcome, outcome_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.metrics import AgentMetrics
    from hawk_agent.protocol import peer_pb2
    from hawk_agent.streaming.table import LeaseRecord, LeaseTable
    from hawk_agent.supervision import TaskSupervisor
    from hawk_agent.transfer.transport import Transport

SLACK_SECONDS = 2.0
"""How much longer than the sender the receiver holds a complete lease by itself."""


class Receiver:
    """Admits transfers to granted leases, and ends leases whatever state they are in."""

    def __init__(
        self,
        epoch: str,
        table: LeaseTable,
        transports: Mapping[str, Transport],
        *,
        hashing: ThreadPoolExecutor,
        metrics: AgentMetrics,
        supervisor: TaskSupervisor,
    ) -> None:
        self._epoch = epoch
        self._table = table
        self._transports = transports
        self._hashing = hashing
        self._metrics = metrics
        self._supervisor = supervisor
        self._incoming: dict[int, Incoming] = {}
        self._ticked = table.clock()

    def open(self, begin: peer_pb2.Begin) -> Incoming:
        """Check a sender's first word and start the transfer. The errors are the sender's to hear.

        A right ticket with a wrong layout ends the lease too: the decode side hears it at once.
        """
        held = self._admit(begin)
        transport = self._transports.get(begin.offer.transport)
        try:
            if transport is None:
                raise BadRequestError(
                    f"transport {begin.offer.transport!r} isn't here; {', '.join(self._transports)} are"
                )
            incoming = Incoming(
                held,
                begin,
                self._table,
                hashing=self._hashing,
                metrics=self._metrics,
                supervisor=self._supervisor,
                forget=self._forget,
            )
        except HawkAgentError as error:
            self.conclude(held, outcome_of(error), str(error))
            raise
        held.lease = leases.begin(held.lease, self._table.clock())
        self._incoming[held.id] = incoming
        incoming.start(transport, begin.offer)
        return incoming

    def find(self, epoch: str, lease: int, generation: int, token: bytes) -> LeaseRecord:
        """The lease that a ticket stands for. StaleEpochError or UnknownLeaseError when it stands for
        none."""
        if epoch != self._epoch:
            raise StaleEpochError(
                f"the ticket is for epoch {epoch}, this agent is {self._epoch}: it restarted; reserve again"
            )
        held = self._table.get(lease)
        if not secrets.compare_digest(held.token, token) or held.generation != generation:
            raise UnknownLeaseError(f"lease {lease}: the ticket isn't its ticket")
        return held

    def _admit(self, begin: peer_pb2.Begin) -> HeldLease:
        held = self.find(begin.epoch, begin.lease, begin.generation, begin.token)
        outcome = held.lease.outcome
        if outcome is not None and not outcome.ok:  # it ended before the sender's first word: nothing new
            raise TransferFailedError(outcome, held.lease.message)
        if not isinstance(held, HeldLease) or held.lease.state is not leases.LeaseState.GRANTED:
            raise BadRequestError(f"the lease is {held.lease.state.value}: a ticket is good for one transfer")
        return held

    def conclude(self, held: LeaseRecord, outcome: TransferOutcome, message: str = "") -> None:
        """End a lease, unless it has ended. At once; blocks are free once their writer has stopped."""
        incoming = self._incoming.get(held.id)
        if incoming is not None:
            incoming.conclude(outcome, message)
            return
        if isinstance(held, EndedLease):
            return
        if not held.lease.state.ended:
            held.update(leases.end(held.lease, outcome, message))
            self._metrics.lease_failed(held.transport, outcome.label)
        if held.lease.reusable:
            self._table.retire(held)

    async def end(self, held: LeaseRecord, outcome: TransferOutcome, message: str = "") -> None:
        """End a lease; returns when its blocks are free again. Ended already: waits for the same."""
        incoming = self._incoming.get(held.id)
        self.conclude(held, outcome, message)
        if incoming is not None:
            await asyncio.shield(incoming.finished)

    async def give_up(self, held: LeaseRecord, outcome: TransferOutcome, message: str) -> None:
        """The sender ends a lease; returns when its blocks are free. What is complete stays complete, unless
        the outcome revokes it."""
        if held.lease.state is not leases.LeaseState.COMPLETE or outcome.revokes:
            await self.end(held, TransferOutcome.INTERNAL if outcome.ok else outcome, message)

    def acknowledge(self, held: LeaseRecord) -> None:
        """The decode side has used the KV. BadRequestError unless complete."""
        lease = leases.acknowledge(held.lease)
        if isinstance(held, EndedLease) or held.lease.state.ended:
            return
        since = held.lease.complete_at
        waited = None if since is None else self._table.clock() - since
        self._metrics.lease_acknowledged(held.transport, waited, lease.terms.grace)
        held.update(lease)
        incoming = self._incoming.get(held.id)
        if incoming is not None:
            incoming.close_with_outcome()
        self._table.retire(held)

    def tick(self) -> None:
        """End what time has ended. Time in which this agent stood still is nobody's silence."""
        now = self._table.clock()
        stood_still, self._ticked = now - self._ticked, now
        for held in self._table.live():
            if stood_still > leases.STANDSTILL_SECONDS:
                held.lease = leases.excuse(held.lease, stood_still)
            after = leases.tick(held.lease, now, SLACK_SECONDS)
            if after.state.ended and after.outcome is not None and not held.lease.state.ended:
                self.conclude(held, after.outcome, after.message)

    def _forget(self, held: HeldLease) -> None:
        self._incoming.pop(held.id, None)

    @property
    def running(self) -> int:
        """Transfers whose sender is connected."""
        return len(self._incoming)
