"""The pools' settings in this agent's HawkNode spec, and whether drained memory is still in use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hawk_agent.protocol import common_pb2
from hawk_agent.streaming.lease import LeaseTerms
from hawk_api import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_agent.memory.region import CacheRegion

_VERIFY: Final = {
    "Off": common_pb2.VERIFY_OFF,
    "Sampled": common_pb2.VERIFY_SAMPLED,
    "Always": common_pb2.VERIFY_ALWAYS,
}
IDLE_SECONDS: Final = 1.0
"""Memory counts as idle when nothing used it for so long, so that transfer after transfer isn't reported."""


@dataclass(frozen=True, slots=True)
class ReservationDefaults:
    """One pool's; what it doesn't say is None or empty, and the agent's own default holds."""

    grace: float | None = None
    max_grace: float | None = None
    verify: common_pb2.Verify.ValueType = common_pb2.VERIFY_UNSPECIFIED
    on_failure: str = ""
    """Resend, Recompute or Fail: what the engine should do with a request whose transfer failed."""
    draining: frozenset[str] = field(default_factory=frozenset)
    """Groups of which the operator wants to know whether their memory is in use."""

    def over(self, default: LeaseTerms, grace: float, max_grace: float) -> LeaseTerms:
        """The terms of one lease: what the reservation asks for (0: nothing), else the pool, else
        `default`. A maximum below the grace is raised to it."""
        chosen = grace or self.grace or default.grace
        most = max_grace or self.max_grace or default.max_grace
        return LeaseTerms(default.grant, default.stall, chosen, most if max_grace else max(most, chosen))


NOTHING: Final = ReservationDefaults()


class PoolTable:
    """Each pool's settings, by namespace/name; replaced as a whole when the HawkNode's spec changes."""

    def __init__(self) -> None:
        self.terms: Mapping[str, ReservationDefaults] = {}

    def get(self, pool: str) -> ReservationDefaults:
        """A pool's terms; nothing in particular for a pool that isn't known."""
        return self.terms.get(pool, NOTHING)


def parse_pools(spec: Mapping[str, Any]) -> dict[str, ReservationDefaults]:
    """The terms by pool (namespace/name) of a HawkNode's spec."""
    return {entry["pool"]: _parse(entry) for entry in spec.get("pools") or ()}


def _parse(entry: Mapping[str, Any]) -> ReservationDefaults:
    def seconds(name: str) -> float | None:
        return duration.parse_duration(entry[name]) if entry.get(name) else None

    return ReservationDefaults(
        seconds("grace"),
        seconds("maxGrace"),
        _VERIFY.get(entry.get("verify", ""), common_pb2.VERIFY_UNSPECIFIED),
        str(entry.get("onFailure") or ""),
        frozenset(entry.get("draining") or ()),
    )


class Usage:
    """Which regions of drained groups are in use, looked at now and then."""

    def __init__(self) -> None:
        self._used_at: dict[str, float] = {}
        self.busy: dict[str, bool] = {}
        """By the region's identity; regions that nobody asks about are absent."""

    def look(
        self, regions: Iterable[CacheRegion], pools: Mapping[str, ReservationDefaults], now: float
    ) -> bool:
        """Look at what is used at `now`, seconds of a monotonic clock; whether anything has changed."""
        asked = [r for r in regions if r.group in pools.get(r.pool, NOTHING).draining]
        self._used_at = {r.identity: now if r.users else self._used_at.get(r.identity, now) for r in asked}
        busy = {r.identity: now - self._used_at[r.identity] < IDLE_SECONDS for r in asked}
        before, self.busy = self.busy, busy
        return before != busy
