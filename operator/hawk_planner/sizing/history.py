"""Recent recommendations and decisions, for stabilisation, fallback and forecasts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hawk_api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_api.v1alpha1.status import DecisionRecord
    from hawk_planner.sizing.decision import Decision
    from hawk_planner.sizing.demand import OfferedLoad

_ON_TRAFFIC = frozenset(
    {Reason.DEMAND, Reason.STEADY, Reason.STABILIZING, Reason.AT_BUDGET, Reason.AT_BOUND, Reason.INFEASIBLE}
)
CORRECTION = "Correction"
"""The suffix of a learned correction's name among a decision's inputs."""
KEPT_S = 3600.0
"""Entries older than this are dropped, and those beyond the longest window that is in use."""


@dataclass(frozen=True)
class SizingRecord:
    """One look: the replicas that the load needed then, and the rate of requests (None when unknown)."""

    time: float
    wanted: Mapping[str, int]
    rate: float | None = None
    standby: Mapping[str, int] | None = None
    """Of them, what is kept for bursts; None when there was no look at bursts."""


@dataclass(frozen=True)
class History:
    """Entries, oldest first. `target` is the last decision's replicas; None before the first."""

    entries: tuple[SizingRecord, ...] = ()
    target: Mapping[str, int] | None = None
    seen_traffic: bool = False
    corrections: Mapping[str, float] = field(default_factory=dict)
    load: OfferedLoad | None = None
    """The last load that was sized for."""

    @classmethod
    def start(cls, replicas: Mapping[str, int], now: float) -> History:
        """Begin with what is there: nothing shrinks before a full window was watched."""
        return cls(entries=(SizingRecord(now, dict(replicas)),))

    @classmethod
    def restore(cls, records: Iterable[DecisionRecord], replicas: Mapping[str, int], now: float) -> History:
        """Begin again after a restart, from the decisions in a pool's status."""
        known = list(records)
        seen = any(record.reason in _ON_TRAFFIC for record in known)
        newest = max(known, key=lambda record: record.time, default=None)
        target = dict(newest.replicas) if newest is not None and newest.replicas else None
        learned = {
            name.removesuffix(CORRECTION): float(value)
            for name, value in (newest.inputs.items() if newest is not None else ())
            if name.endswith(CORRECTION)
        }
        return cls((SizingRecord(now, dict(replicas)),), target, seen_traffic=seen, corrections=learned)

    def add(self, decision: Decision, keep: float = KEPT_S) -> History:
        """The history with one decision more, and without what is older than `keep` seconds."""
        entries = tuple(entry for entry in self.entries if entry.time >= decision.time - keep)
        if decision.wanted is not None:
            entries = (
                *entries,
                SizingRecord(decision.time, dict(decision.wanted), decision.rate, decision.standby),
            )
        return History(
            entries=entries,
            target=dict(decision.replicas),
            seen_traffic=self.seen_traffic or bool(decision.rate),
            corrections=decision.corrections,
            load=decision.load or self.load,
        )

    def highest(self, group: str, since: float, present: int) -> int:
        """The most that was wanted of a group since a time, the present included."""
        return max([present, *(e.wanted.get(group, 0) for e in self.entries if e.time >= since)])

    def lowest(self, group: str, since: float, present: int) -> int:
        """The least that was wanted of a group since a time, the present included."""
        return min([present, *(e.wanted.get(group, present) for e in self.entries if e.time >= since)])

    def least_standby(self, group: str, since: float, present: int) -> int:
        """The least that was kept for bursts since a time, the present included."""
        kept = [e.standby for e in self.entries if e.time >= since and e.standby is not None]
        return min([present, *(standby.get(group, present) for standby in kept)])
