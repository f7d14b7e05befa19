"""Shared by the ways of serving: searching the fewest replicas, and adding up money and energy."""

from __future__ import annotations

from math import inf, isfinite, log
from typing import TYPE_CHECKING

from hawk_planner.sizing.queueing import Queue

from . import economics
from .candidate import Candidate, Feasibility, PoolUse, ServingMode
from .serving import fits
from .times import first_token_limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from .scenario import DeclaredGroup, Replica, Scenario

__all__ = ["attains", "finish", "latency", "miss", "pool_use", "sizes", "smallest", "unknown", "whole_parts"]

MOST_REPLICAS = 1024
"""Where a search for replicas gives up."""


def smallest(enough: Callable[[int], bool], least: int = 1) -> int | None:
    """Return the fewest replicas that are enough, None when even MOST_REPLICAS aren't."""
    if least > MOST_REPLICAS or not enough(MOST_REPLICAS):
        return None
    low, high = max(1, least) - 1, max(1, least)
    while high < MOST_REPLICAS and not enough(high):
        low, high = high, min(2 * high, MOST_REPLICAS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def sizes(part: DeclaredGroup, scenario: Scenario) -> list[Replica]:
    """Return the part's replica with each number of devices that holds the weights, the fewest first.

    Tried are 1, 2, 4, ... up to one node's, and the declared number.
    """
    declared, most = part.replica.devices, scenario.most_devices_per_replica
    counts = {2**power for power in range(most.bit_length()) if 2**power <= most} | {declared}
    found = [part.replica.sized(count) for count in sorted(counts)]
    return [replica for replica in found if fits(scenario.work, replica, scenario.efficiency)]


def pool_use(role: str, replica: Replica, replicas: int, utilisation: float) -> PoolUse:
    """Return a pool's line in a candidate."""
    return PoolUse(
        role, replica.device.name, replicas, replica.devices, min(1.0, utilisation), replica.device.priced
    )


def attains(servers: int, scenario: Scenario, rate: float, service: float, fixed: float) -> bool:
    """Return True if wait, `service` and `fixed` seconds stay within the TTFT objective, or there is none."""
    ttft = scenario.targets.ttft
    if not isfinite(service + fixed):
        return False
    if ttft is None:
        return True
    queue = Queue(servers, rate, [(service, 1.0)], scenario.workload.dispersion)
    return queue.attained(first_token_limit(scenario) - fixed) >= ttft.share


def latency(servers: int, scenario: Scenario, rate: float, service: float) -> float:
    """Return wait plus service at the TTFT objective's percentile (95 without one).

    Among more than MOST_REPLICAS nobody waits.
    The queue's tail is exponential, so two of its points give the quantile without a search.
    """
    share = scenario.targets.ttft.share if scenario.targets.ttft else 0.95
    queue = Queue(servers, rate, [(service, 1.0)], scenario.workload.dispersion)
    if not isfinite(service) or queue.utilisation >= 1:
        return inf
    if servers > MOST_REPLICAS:
        return service
    waits = 1 - queue.attained(service)
    if waits <= 1 - share:
        return service
    later = 1 - queue.attained(2 * service)
    if not 0 < later < waits:
        return queue.latency(share)
    mean = service / log(waits / later)
    return service + mean * log(waits / (1 - share))


def whole_parts(scenario: Scenario) -> list[DeclaredGroup]:
    """Return the declared parts, one a device, whose device can prefill and decode."""
    parts = {part.replica.device.name: part for part in (scenario.decode, scenario.prefill)}
    return [part for part in parts.values() if part.replica.device.prefills and part.replica.device.decodes]


def unknown(kind: ServingMode, title: str, problem: str) -> Candidate:
    """Return a candidate that an input is missing for."""
    return Candidate(kind, title, Feasibility.UNKNOWN, problem)


def miss(kind: ServingMode, title: str, problem: str) -> Candidate:
    """Return a candidate that can't serve at all."""
    return Candidate(kind, title, Feasibility.MISSES, problem)


def finish(
    kind: ServingMode,
    title: str,
    scenario: Scenario,
    parts: list[tuple[PoolUse, Replica]],
    *,
    ttft: float,
    itl: float,
    problem: str,
    bottleneck: str = "",
    ports: int = 0,
    link_utilisation: float | None = None,
    details: dict[str, float] | None = None,
    again: Callable[[Scenario], Candidate | None] | None = None,
) -> Candidate:
    """Return the candidate with its money and energy; budgets are checked here."""
    tokens = scenario.workload.tokens_per_second
    hourly = _money(scenario, parts, ports)
    watts = _power(scenario, parts, ports)
    devices = sum(use.devices for use, _ in parts)
    problem = problem or _over_budget(scenario, devices, hourly)
    return Candidate(
        kind=kind,
        title=title,
        standing=Feasibility.MISSES if problem else Feasibility.MEETS,
        problem=problem,
        pools=tuple(use for use, _ in parts),
        ttft_seconds=ttft,
        itl_seconds=itl,
        tokens_per_second=tokens,
        watts=watts,
        usd_per_hour=hourly,
        usd_per_million_tokens=None if hourly is None else economics.usd_per_million_tokens(hourly, tokens),
        joules_per_token=None if watts is None else economics.joules_per_token(watts, tokens),
        link_utilisation=link_utilisation,
        bottleneck=bottleneck,
        parts=details or {},
        again=again,
    )


def _money(scenario: Scenario, parts: list[tuple[PoolUse, Replica]], ports: int) -> float | None:
    total = 0.0
    for use, replica in parts:
        each = replica.device.usd_per_hour(scenario.tariff)
        if each is None:
            return None
        total += use.devices * each
    port = economics.hourly_cost_usd(
        watts=scenario.link.port_watts,
        price_usd=scenario.link.port_usd,
        price_per_hour_usd=None,
        tariff=scenario.tariff,
    )
    return total + ports * (port or 0.0)


def _power(scenario: Scenario, parts: list[tuple[PoolUse, Replica]], ports: int) -> float | None:
    total = ports * scenario.link.port_watts
    for use, replica in parts:
        if replica.device.watts is None:
            return None
        total += use.devices * replica.device.watts
    return total


def _over_budget(scenario: Scenario, devices: int, hourly: float | None) -> str:
    most, money = scenario.budget_devices, scenario.budget_usd_per_hour
    if most is not None and devices > most:
        return f"needs {devices} devices, budget.devices is {most}"
    if money is not None and hourly is not None and hourly > money:
        return f"costs {hourly:.2f} USD an hour, budget.usdPerHour is {money:.2f}"
    return ""
