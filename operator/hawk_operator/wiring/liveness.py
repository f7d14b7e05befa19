"""Which agents live, judged by their Leases. Pure.

An agent's clock is another machine's: its renewal times say nothing when the clocks differ. So an agent lives
while *we* see its Lease change: the time between lists counts against it where the Lease stayed as it was,
and liveness is judged at lists alone, however rare they are. Only a Lease that is seen for the first time is
judged by its own time, because a restarted operator has nothing else to go by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hawk_operator.workloads.pods import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Beat:
    """A Lease as last seen; `age` is how long it is known not to have changed, in seconds."""

    version: str
    duration: float
    age: float

    @property
    def alive(self) -> bool:
        """True if it changed within its duration."""
        return self.age <= self.duration


def read_lease(lease: Mapping[str, Any]) -> tuple[str, str, float, float]:
    """(name, version, duration, renewal time) of a Lease; a Lease without a holder has duration 0."""
    spec = lease.get("spec") or {}
    renewed = str(spec.get("renewTime") or "")
    holder = str(spec.get("holderIdentity") or "")
    duration = float(spec.get("leaseDurationSeconds") or 0) if holder else 0.0
    return str(lease["metadata"]["name"]), f"{holder}@{renewed}", duration, seconds(renewed)


def observe_beats(
    before: Mapping[str, Beat], leases: Iterable[Mapping[str, Any]], passed: float, now: float
) -> dict[str, Beat]:
    """The beats by HawkNode name after a list of all Leases; those of deleted Leases are forgotten.

    `passed` are the seconds since the previous list in which agents could have renewed; `now` are seconds
    since the epoch.
    """
    beats = {}
    for lease in leases:
        name, version, duration, renewed = read_lease(lease)
        old = before.get(name)
        if old is None:
            beats[name] = Beat(version, duration, max(0.0, now - renewed))
        else:
            beats[name] = Beat(version, duration, old.age + passed if old.version == version else 0.0)
    return beats


def living_agents(beats: Mapping[str, Beat]) -> frozenset[str]:
    """Names of the HawkNodes whose agents live."""
    return frozenset(name for name, beat in beats.items() if beat.alive)
