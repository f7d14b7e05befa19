"""One class of device whose replicas change role with the traffic: less idle capacity, paid in changes.

Shares of replicas are fractions of time, so the sum of both needs is rounded up once, not twice.
A change drains a replica and starts it in its other role; that capacity is lost.
"""

from __future__ import annotations

from math import ceil, inf
from typing import TYPE_CHECKING

from .candidate import Candidate, ServingMode
from .colocated import cheapest_first
from .handover import contention_seconds, hand_over
from .serving import Limit
from .split import MOST_LINK, decode_side, ttft_fixed_seconds
from .times import prefill_seconds
from .ways import attains, finish, latency, miss, pool_use, sizes, smallest, unknown

if TYPE_CHECKING:
    from .scenario import DeclaredGroup, Replica, Scenario

__all__ = ["flexible"]


def flexible(scenario: Scenario, part: DeclaredGroup) -> Candidate:
    """Return the cheapest pool of the part's device with roles that change."""
    device = part.replica.device
    title = f"roles that change on {device.name}"
    if not (device.prefills and device.decodes):
        return miss(ServingMode.FLEXIBLE, title, f"{device.name} can't take both roles")
    if scenario.role_changes_per_hour and device.startup_seconds is None:
        return unknown(
            ServingMode.FLEXIBLE,
            title,
            f"{device.name}.startup isn't known: a change of role costs a start; "
            f"add it to the class or pass --set {device.name}.startup=2m, for two minutes",
        )
    tried = [found for replica in sizes(part, scenario) if (found := _flexible(scenario, title, replica))]
    return min(tried, key=cheapest_first) if tried else miss(ServingMode.FLEXIBLE, title, "weights don't fit")


def _flexible(scenario: Scenario, title: str, replica: Replica) -> Candidate | None:
    if scenario.work.weight_bytes >= replica.room(scenario.efficiency):
        return None
    rate, alone = scenario.workload.requests_per_second, prefill_seconds(scenario, replica)
    handover = hand_over(scenario, alone)
    decodes = _least_decode(scenario, replica, handover.transfer_seconds)
    if decodes is None:
        return None
    change = scenario.drain_seconds + (replica.device.startup_seconds or 0.0)
    lost = scenario.role_changes_per_hour * change / 3600
    step = decode_side(scenario, replica, decodes, handover.transfer_seconds)
    demand = rate * handover.nbytes / (scenario.link.rate * scenario.path_share)

    def link(total: int) -> float:
        return demand / max(min(total - decodes, decodes), 1e-9)

    def fixed(total: int) -> float:
        waits = contention_seconds(handover.transfer_seconds, link(total))
        return ttft_fixed_seconds(scenario, handover, waits, step.step_seconds)

    def enough(total: int) -> bool:
        share = total - decodes - lost
        if share <= 0 or link(total) > MOST_LINK or rate * alone >= 0.95 * share:
            return False
        return attains(max(1, int(share)), scenario, rate, alone, fixed(total))

    total = smallest(enough, ceil(decodes + lost))
    problem = ""
    if total is None:
        total = ceil(decodes + lost + max(rate * alone / 0.8, demand / MOST_LINK))
        problem = f"TTFT: prefill alone takes {alone * 1e3:.0f} ms"
    servers = max(1, int(total - decodes - lost))
    busy = (decodes + lost + rate * alone) / total
    use = pool_use("both, in turn", replica, total, busy)
    return finish(
        ServingMode.FLEXIBLE,
        title,
        scenario,
        [(use, replica)],
        ttft=latency(servers, scenario, rate, alone) + fixed(total),
        itl=step.itl_seconds,
        problem=problem,
        bottleneck=str(Limit.COMPUTE),
        ports=scenario.link.rails * total,
        link_utilisation=link(total),
        again=lambda other: _flexible(other, title, replica),
        details={
            "prefill_seconds": alone,
            "exposed_seconds": handover.exposed_seconds,
            "step_seconds": step.step_seconds,
            "batch": step.batch,
            "decoding_replicas": decodes,
            "changing_replicas": lost,
        },
    )


def _least_decode(scenario: Scenario, replica: Replica, held: float) -> float | None:
    """Return the least (fractional) replicas that decode within the objective; None when none do."""
    whole = smallest(lambda n: decode_side(scenario, replica, n, held).limit is Limit.NONE)
    if whole is None:
        return None
    low, high = 0.0, float(whole)
    if whole > 1:
        low = whole - 1.0
    for _ in range(12):
        middle = (low + high) / 2
        if middle > 0 and decode_side(scenario, replica, middle, held).limit is Limit.NONE:
            high = middle
        else:
            low = middle
    return high if high < inf else None
