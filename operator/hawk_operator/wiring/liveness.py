"""Which agents live, judged by their Leases. Pure.

An agent's clock is another machine's: its renewal times say nothing when the clocks differ. So an agent lives
while *we* see its Lease change within its duration. Only a Lease that is seen for the first time is judged by
its own time, because a restarted operator has nothing else to go by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hawk_operator.workloads.pods import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Beat:
    """A Lease as last seen; `changed` is our own time (seconds since the epoch) of its last change."""

    mark: str
    duration: float
    changed: float

    def alive(self, now: float) -> bool:
        """Whether it changed within its duration."""
        return now - self.changed <= self.duration


def read(lease: Mapping[str, Any]) -> tuple[str, str, float, float]:
    """(name, mark, duration, renewal time) of a Lease; a Lease without a holder has duration 0."""
    spec = lease.get("spec") or {}
    renewed = str(spec.get("renewTime") or "")
    holder = str(spec.get("holderIdentity") or "")
    duration = float(spec.get("leaseDurationSeconds") or 0) if holder else 0.0
    return str(lease["metadata"]["name"]), f"{holder}@{renewed}", duration, seconds(renewed)


def observe(before: Mapping[str, Beat], leases: Iterable[Mapping[str, Any]], now: float) -> dict[str, Beat]:
    """The beats by HawkNode name after a look at all Leases; those that are gone are forgotten."""
    beats = {}
    for lease in leases:
        name, mark, duration, renewed = read(lease)
        old = before.get(name)
        if old is not None and old.mark == mark:
            beats[name] = Beat(mark, duration, old.changed)
        elif old is not None:
            beats[name] = Beat(mark, duration, now)
        else:
            beats[name] = Beat(mark, duration, min(renewed, now))
    return beats


def living(beats: Mapping[str, Beat], now: float) -> frozenset[str]:
    """Names of the HawkNodes whose agents live."""
    return frozenset(name for name, beat in beats.items() if beat.alive(now))
