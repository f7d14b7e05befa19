"""How much more traffic the planned replicas carry within the objectives, and what stops them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .candidate import Candidate, Feasibility, ServingMode
from .colocated import serve
from .serving import Limit
from .split import MOST_LINK, decode_side, sided

if TYPE_CHECKING:
    from collections.abc import Callable

    from .scenario import Replica, Scenario

__all__ = ["with_capacity"]

MOST = 8.0
"""Times the present traffic up to which a capacity is looked for."""
HALVINGS = 7
ROLES = {
    "prefill": Limit.COMPUTE,
    "both": Limit.COMPUTE,
    "both, in turn": Limit.COMPUTE,
    "target": Limit.COMPUTE,
    "attention": Limit.ATTENTION,
    "ffn": Limit.FFN,
    "decode": Limit.DECODE,
    "draft": Limit.DRAFT,
}
"""The shortage of a pool that needs more replicas, where its way of serving isn't more precise."""


def with_capacity(candidate: Candidate, scenario: Scenario) -> Candidate:
    """Return the candidate with the output tokens a second that its replicas carry, and its bottleneck."""
    if candidate.standing is not Feasibility.MEETS or candidate.tokens_per_second is None:
        return candidate
    stopped = _stopper(candidate, scenario)
    if stopped is None:
        return candidate
    low, high, limit = 1.0, MOST, Limit.NONE
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        found = stopped(middle)
        if found is Limit.NONE:
            low = middle
        else:
            high, limit = middle, found
    return replace(
        candidate,
        most_tokens_per_second=candidate.tokens_per_second * low,
        bottleneck=str(limit) or f"none below {MOST:g} times the traffic",
    )


def _stopper(candidate: Candidate, scenario: Scenario) -> Callable[[float], Limit] | None:
    """Return what stops the candidate's replicas at a multiple of the traffic."""
    rate = scenario.workload.requests_per_second
    replicas = [_replica(scenario, pool.device, pool.devices_per_replica) for pool in candidate.pools]
    counts = [pool.replicas for pool in candidate.pools]
    if candidate.kind is ServingMode.COLOCATED:
        return lambda factor: _whole(scenario.at(requests_per_second=rate * factor), replicas[0], counts[0])
    if candidate.kind is ServingMode.SPLIT:
        return lambda factor: _apart(scenario.at(requests_per_second=rate * factor), replicas, counts)
    again = candidate.again
    if again is None:
        return None
    return lambda factor: _larger(candidate, again(scenario.at(requests_per_second=rate * factor)))


def _larger(candidate: Candidate, grown: Candidate | None) -> Limit:
    """Return what the pools lack for the traffic that `grown` was sized for."""
    if grown is None:
        return Limit.ITL
    for pool, more in zip(candidate.pools, grown.pools, strict=True):
        if more.replicas > pool.replicas:
            return ROLES[pool.role]
    return Limit.NONE if grown.standing is Feasibility.MEETS else Limit.COMPUTE


def _whole(scenario: Scenario, replica: Replica, count: int) -> Limit:
    found = serve(scenario, replica, count)
    if found is None:
        return Limit.WEIGHTS
    if found.meets:
        return Limit.NONE
    limit = found.mixed.decoding.limit
    return Limit.COMPUTE if limit is Limit.NONE else limit


def _apart(scenario: Scenario, replicas: list[Replica], counts: list[int]) -> Limit:
    found = sided(scenario, replicas[0], replicas[1])
    if found is None:
        return Limit.LINK
    if found.link_utilisation * min(found.prefills, found.decodes) > MOST_LINK * min(counts):
        return Limit.LINK
    if found.decodes > counts[1]:
        return decode_side(scenario, replicas[1], counts[1], found.handover.transfer_seconds).limit
    return Limit.COMPUTE if found.prefills > counts[0] or found.problem else Limit.NONE


def _replica(scenario: Scenario, device: str, devices: int) -> Replica:
    for part in (scenario.prefill, scenario.decode):
        if part.replica.device.name == device:
            return replace(part.replica, devices=devices)
    raise AssertionError(f"{device} is none of the scenario's devices")
