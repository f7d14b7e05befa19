"""At which price of which device a way of serving would tie with the best, or the best with its runner-up.

A cost is linear in each device's price, so this needs no search; what else would turn the verdict does
(see `turning`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .candidate import Feasibility

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .candidate import Candidate
    from .scenario import Scenario

__all__ = ["Tie", "ties"]


@dataclass(frozen=True)
class Tie:
    """The device whose price matters most between two ways, its price now and where both cost the same."""

    rival: str
    """The way that this one is compared with."""
    device: str
    now_usd_per_hour: float
    at_usd_per_hour: float


def ties(ranking: Sequence[Candidate], scenario: Scenario) -> list[Tie | None]:
    """Return one tie a candidate: of the best with the runner-up, of each other one with the best.

    None where a way misses an objective, has no cost, or no price of a device would do.
    """
    rivals = [one for one in ranking if one.standing is Feasibility.MEETS and one.usd_per_hour is not None]
    if len(rivals) < 2:
        return [None for _ in ranking]
    best, second = rivals[:2]
    return [
        _tie(one, second if one is best else best, scenario)
        if any(one is rival for rival in rivals)
        else None
        for one in ranking
    ]


def _tie(one: Candidate, rival: Candidate, scenario: Scenario) -> Tie | None:
    mine, other = _devices(one), _devices(rival)
    more = {device: count - other[device] for device, count in mine.items() if count > other[device]}
    if not more or one.usd_per_hour is None or rival.usd_per_hour is None:
        return None
    device = max(more, key=lambda name: more[name])
    replicas = (scenario.prefill.replica, scenario.decode.replica)
    price = next(r.device for r in replicas if r.device.name == device).usd_per_hour(scenario.tariff)
    at = None if price is None else price + (rival.usd_per_hour - one.usd_per_hour) / more[device]
    return None if price is None or at is None or at <= 0 else Tie(rival.title, device, price, at)


def _devices(candidate: Candidate) -> Counter[str]:
    found: Counter[str] = Counter()
    for pool in candidate.pools:
        found[pool.device] += pool.devices
    return found
