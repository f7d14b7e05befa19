"""The receiver's leases: who holds which blocks, what has arrived, and who waits for it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from hawk_agent.errors import LimitReachedError, UnknownLeaseError
from hawk_agent.streaming import lease as leases
from hawk_agent.streaming.report import Report, ReportStore
from hawk_agent.transfer.outcome import TransferOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.protocol import common_pb2, engine_pb2
    from hawk_agent.transfer.chunks import ChunkProgress
    from hawk_agent.transfer.translation import Selection

MAX_LEASES = 4096
MAX_ENDED = 4096
"""Ended leases that are kept with what their engine may ask."""
MAX_OUTCOMES = 32768
"""Outcomes that are kept for senders, who may ask for as long as maxGrace lasts."""
SLOT_BITS = 16


@dataclass(slots=True, eq=False)
class HeldLease:
    """A lease of the receiver with what belongs to it."""

    id: int
    slot: int
    generation: int
    token: bytes
    request: str
    region: CacheRegion
    selection: Selection
    lease: leases.Lease
    verify: common_pb2.Verify.ValueType
    owner: object
    """The engine connection that reserved it."""
    empty: bool = False
    progress: ChunkProgress | None = None
    began_at: float = 0.0
    transport: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def update(self, lease: leases.Lease) -> None:
        """Take the next state and wake those who wait."""
        self.lease = lease
        self.notify()

    def notify(self) -> None:
        """Wake those who wait for the lease or its layers."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, there: Callable[[], bool]) -> None:
        """Wait until it holds; looked at after each change."""
        while not there():
            await self._changed.wait()

    @property
    def layers(self) -> int:
        """How many layers it is for."""
        return self.selection.layout.extent("l").count

    @property
    def present(self) -> int:
        """How many are there without a gap from the first."""
        return self.progress.layers if self.progress else 0

    def report(self, now: float) -> Report:
        """How its transfer ended."""
        outcome = self.lease.outcome
        assert outcome is not None
        progress = self.progress
        return Report(
            outcome=outcome,
            message=self.lease.message,
            nbytes=progress.nbytes if progress else 0,
            seconds=now - self.began_at if self.began_at else 0.0,
            digest=progress.digest if progress else None,
            transport=self.transport,
            chunks=tuple(progress.arrivals[i] for i in sorted(progress.arrivals)) if progress else (),
        )


@dataclass(frozen=True, slots=True, eq=False)
class EndedLease:
    """The remains of a lease whose blocks were handed back: enough to answer late questions."""

    id: int
    generation: int
    token: bytes
    owner: object
    lease: leases.Lease
    layers: int

    @property
    def present(self) -> int:
        """None but for a success, which had them all."""
        return self.layers if self.lease.outcome is TransferOutcome.SUCCESS else 0

    async def until(self, there: Callable[[], bool]) -> None:
        """Nothing changes any more."""


LeaseRecord: TypeAlias = HeldLease | EndedLease


class LeaseTable:
    """Slots of leases. A slot's generation grows with each lease, so that a late word can't match a new
    one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._live: dict[int, HeldLease] = {}
        self._ended: OrderedDict[int, EndedLease] = OrderedDict()
        self._reports = ReportStore()
        self._outcomes: OrderedDict[int, TransferOutcome] = OrderedDict()
        self._free: list[int] = []
        self._slots = 0
        self._generations: dict[int, int] = {}

    def grant(
        self,
        region: CacheRegion,
        selection: Selection,
        terms: leases.LeaseTerms,
        *,
        request: str,
        verify: common_pb2.Verify.ValueType,
        owner: object,
        empty: bool,
    ) -> HeldLease:
        """Claim the blocks and make a lease. BlocksBusyError or LimitReachedError when that can't be."""
        if len(self._live) >= MAX_LEASES:
            raise LimitReachedError(
                f"{MAX_LEASES} leases are held, the most an agent keeps; acknowledge or release some"
            )
        slot = self._free.pop() if self._free else self._slots
        generation = self._generations.get(slot, 0) + 1
        identity = generation << SLOT_BITS | slot
        try:
            region.retain()
        except BaseException:
            self._free.append(slot)
            raise
        try:
            if not empty:
                region.blocks.claim(identity, selection.claims)
        except BaseException:
            region.release()
            self._free.append(slot)
            raise
        self._slots = max(self._slots, slot + 1)
        self._generations[slot] = generation
        held = HeldLease(
            identity, slot, generation, secrets.token_bytes(16), request, region, selection,
            leases.grant(terms, self.clock()), verify, owner, empty,
        )  # fmt: skip
        self._live[identity] = held
        return held

    def retire(self, held: HeldLease) -> None:
        """Hand the blocks back; the lease stays known for late questions. Only when its memory is
        reusable."""
        assert held.lease.reusable, "blocks are handed back after remote access has ended, never before"
        if self._live.pop(held.id, None) is None:
            return
        report = held.report(self.clock())
        self._reports.add(held.id, report)
        self._outcomes[held.id] = report.outcome
        self._ended[held.id] = EndedLease(
            held.id, held.generation, held.token, held.owner, held.lease, held.layers
        )
        if len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)
        if len(self._outcomes) > MAX_OUTCOMES:
            self._outcomes.popitem(last=False)
        self._free.append(held.slot)
        held.region.blocks.free(held.id)
        held.region.release()

    def report(self, record: LeaseRecord) -> engine_pb2.Ended:
        """How a lease ended, as its engine is told."""
        known = self._reports.get(record.id)
        if known is not None:
            return known
        if isinstance(record, HeldLease):
            return record.report(self.clock()).to_wire()
        assert record.lease.outcome is not None
        return Report(record.lease.outcome, record.lease.message).to_wire()

    def outcome(self, identity: int) -> TransferOutcome:
        """How a lease ended that isn't kept any more; EXPIRED where that isn't known either."""
        return self._outcomes.get(identity, TransferOutcome.EXPIRED)

    def get(self, identity: int) -> LeaseRecord:
        """A live or lately ended lease, or UnknownLeaseError."""
        held: LeaseRecord | None = self._live.get(identity) or self._ended.get(identity)
        if held is None:
            raise UnknownLeaseError(
                f"lease {identity} isn't known here; it ended long ago or was never granted"
            )
        return held

    def live(self) -> Iterator[HeldLease]:
        """Leases that still hold blocks."""
        return iter(tuple(self._live.values()))

    def owned_by(self, owner: object) -> list[HeldLease]:
        """The live leases of an engine."""
        return [held for held in self._live.values() if held.owner is owner]

    def __len__(self) -> int:
        return len(self._live)
