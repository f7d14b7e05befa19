"""Colocated, with a share of the decodes moved to a second device that has room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .candidate import Candidate, ServingMode
from .colocated import cheapest_first, colocate, why_missed
from .handover import contention_seconds, hand_over
from .serving import Limit
from .split import MANY, MOST_LINK, decode_problem, decode_side, fit_problem
from .times import first_token_limit
from .ways import finish, miss, pool_use, smallest

if TYPE_CHECKING:
    from .scenario import Scenario

__all__ = ["offload"]

SHARES = (0.25, 0.5, 0.75)
"""Shares of the decodes that are tried; all of them is the split."""


def offload(scenario: Scenario) -> Candidate:
    """Return the cheapest share of the decodes to move from the prefill to the decode device."""
    first, second = scenario.prefill.replica, scenario.decode.replica
    title = f"decodes moved from {first.device.name} to {second.device.name}"
    tried = [found for share in SHARES if (found := _offload(scenario, title, share)) is not None]
    if not tried:
        return miss(ServingMode.OFFLOAD, title, _why_none(scenario))
    return min(tried, key=cheapest_first)


def _why_none(scenario: Scenario) -> str:
    """Return why no share of the decodes can be moved."""
    second = scenario.decode.replica
    problem = fit_problem(scenario, scenario.prefill.replica, second)
    alone = decode_side(scenario, second, MANY, 0.0)
    if problem or alone.limit is not Limit.NONE:
        return problem or decode_problem(scenario, alone)
    return "the link can't carry a quarter of the decodes"


def _offload(scenario: Scenario, title: str, share: float) -> Candidate | None:
    first, second = scenario.prefill.replica, scenario.decode.replica
    here = colocate(scenario, first, decode_share=1 - share)
    if here is None:
        return None
    rate = scenario.workload.requests_per_second * share
    moved = scenario.at(requests_per_second=rate)
    handover = hand_over(scenario, here.mixed.prefill_seconds)
    demand = rate * handover.nbytes / (scenario.link.rate * scenario.path_share)
    count = smallest(
        lambda n: (
            demand / min(n, here.replicas) <= MOST_LINK
            and decode_side(moved, second, n, handover.transfer_seconds).limit is Limit.NONE
        )
    )
    if count is None:
        return None
    there = decode_side(moved, second, count, handover.transfer_seconds)
    load = demand / min(count, here.replicas)
    waits = contention_seconds(handover.transfer_seconds, load)
    later = here.ttft_seconds + handover.exposed_seconds + waits + there.step_seconds
    problem = why_missed(scenario, here) or _too_late(scenario, later)
    uses = [
        (pool_use("both", first, here.replicas, here.mixed.busy), first),
        (pool_use("decode", second, count, there.batch / max(there.batch, 1.0)), second),
    ]
    return finish(
        ServingMode.OFFLOAD,
        f"{title} ({share:.0%})",
        scenario,
        uses,
        ttft=later,
        itl=max(here.itl_seconds, there.itl_seconds),
        problem=problem,
        bottleneck=str(here.mixed.decoding.limit or there.limit or Limit.COMPUTE),
        ports=scenario.link.rails * (here.replicas + count),
        link_utilisation=load,
        again=lambda other: _offload(other, title, share),
        details={
            "prefill_seconds": here.mixed.prefill_seconds,
            "exposed_seconds": handover.exposed_seconds,
            "moved_share": share,
            "step_seconds": there.step_seconds,
            "batch": there.batch,
        },
    )


def _too_late(scenario: Scenario, ttft: float) -> str:
    due = first_token_limit(scenario)
    return "" if ttft <= due else f"TTFT of a moved request {ttft * 1e3:.0f} ms, objective {due * 1e3:.0f} ms"
