"""A pool that prefills and a pool that decodes, the whole handoff between them priced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import ceil, inf
from typing import TYPE_CHECKING

from hawk_planner.sizing.demand import LINK_UTILISATION

from .candidate import Candidate, ServingMode
from .colocated import cheapest_first
from .handover import Handover, contention_seconds, hand_over
from .serving import Decoding, Limit, decode_steadily, most_sequences
from .times import first_token_limit, prefill_seconds, slots, step_timer
from .ways import attains, finish, latency, miss, pool_use, sizes, smallest

if TYPE_CHECKING:
    from .scenario import Replica, Scenario

__all__ = ["MOST_LINK", "Sided", "decode_side", "split"]

MANY = 10_000
"""Replicas among which each has next to nothing to do."""
MOST_LINK = LINK_UTILISATION
"""Load of a link beyond which transfers queue behind each other: the same as in sizing."""


@dataclass(frozen=True)
class Sided:
    """Both pools of a split and what a request meets in them."""

    prefills: int
    decodes: int
    decoding: Decoding
    handover: Handover
    prefill_seconds: float
    contention_seconds: float
    link_utilisation: float
    ttft_seconds: float
    problem: str
    limit: Limit


def decode_side(scenario: Scenario, replica: Replica, replicas: float, held_seconds: float) -> Decoding:
    """Return how `replicas` decode all requests, each holding its blocks `held_seconds` before it starts."""
    workload = scenario.workload
    work = scenario.work.on(replica.devices)
    state = work.kv_bytes(workload.longest_context)
    room = replica.room(scenario.efficiency)
    most, bound = most_sequences(room, scenario.work.weight_bytes, state, slots(scenario, replica))
    if bound is Limit.WEIGHTS:
        return Decoding(0, inf, bound)
    steps = workload.output_tokens - (scenario.emitter == "prefill")
    step = work.decode(workload.mean_context)
    rate = workload.requests_per_second / replicas
    return decode_steadily(
        step_timer(scenario, replica, step, workload.mean_context),
        rate * steps,
        most=most,
        bound=bound,
        target=scenario.targets.itl,
        held=rate * held_seconds,
    )


def ttft_fixed_seconds(scenario: Scenario, handover: Handover, contention: float, step: float) -> float:
    """Return what comes on top of wait and prefill before the first token is out."""
    if scenario.emitter == "prefill":
        return 0.0
    return handover.exposed_seconds + contention + step


def sided(scenario: Scenario, first: Replica, second: Replica) -> Sided | None:
    """Return the smallest pools that meet the objectives, else that keep up; None when nothing does."""
    workload, link = scenario.workload, scenario.link
    rate = workload.requests_per_second
    alone = prefill_seconds(scenario, first)
    handover = hand_over(scenario, alone)
    demand = rate * handover.nbytes
    capacity = link.rate * scenario.path_share
    by_link = ceil(demand / (MOST_LINK * capacity))

    def decoding(count: int) -> Decoding:
        return decode_side(scenario, second, count, handover.transfer_seconds)

    problem, decodes = "", smallest(lambda n: decoding(n).limit is Limit.NONE, by_link)
    if decodes is None:
        problem, decodes = (
            decode_problem(scenario, decoding(MANY)),
            _keeping_up(scenario, second, handover, by_link),
        )
        if decodes is None:
            return None
    found = decoding(decodes)

    def waits(prefills: int) -> float:
        return contention_seconds(handover.transfer_seconds, demand / capacity / min(prefills, decodes))

    def fixed(prefills: int) -> float:
        return ttft_fixed_seconds(scenario, handover, waits(prefills), found.step_seconds)

    def enough(prefills: int) -> bool:
        if scenario.targets.ttft is None:
            return rate * alone < 0.9 * prefills
        return attains(prefills, scenario, rate, alone, fixed(prefills))

    prefills = smallest(enough, max(by_link, ceil(rate * alone)))
    limit = found.limit
    if prefills is None:
        prefills = max(by_link, ceil(rate * alone / 0.8))
        problem = problem or _ttft_problem(scenario, alone, fixed(prefills))
        limit = Limit.COMPUTE
    utilisation = demand / capacity / min(prefills, decodes)
    return Sided(
        prefills=prefills,
        decodes=decodes,
        decoding=found,
        handover=handover,
        prefill_seconds=alone,
        contention_seconds=waits(prefills),
        link_utilisation=utilisation,
        ttft_seconds=latency(prefills, scenario, rate, alone) + fixed(prefills),
        problem=problem,
        limit=limit,
    )


def _keeping_up(scenario: Scenario, replica: Replica, handover: Handover, least: int) -> int | None:
    loose = replace(scenario, targets=replace(scenario.targets, itl=None))
    return smallest(
        lambda n: decode_side(loose, replica, n, handover.transfer_seconds).limit is Limit.NONE, least
    )


def decode_problem(scenario: Scenario, alone: Decoding) -> str:
    """Return what a decode misses even where each replica has next to nothing to do."""
    target = scenario.targets.itl
    if alone.limit is Limit.ITL and target:
        alone_ms = alone.itl_seconds * 1e3
        return (
            f"ITL: one sequence alone takes {alone_ms:.1f} ms a step, objective {target.target * 1e3:.1f} ms"
        )
    return f"decode: {alone.limit}"


def _ttft_problem(scenario: Scenario, alone: float, fixed: float) -> str:
    due = first_token_limit(scenario)
    objective = f", objective {due * 1e3:.0f} ms" if due < inf else ""
    return f"TTFT: prefill alone takes {alone * 1e3:.0f} ms and the handoff {fixed * 1e3:.1f} ms{objective}"


def split(scenario: Scenario, *, resize: bool = False) -> Candidate:
    """Return the declared split, sized; with `resize` replicas may also have more devices."""
    first, second = scenario.prefill.replica, scenario.decode.replica
    title = f"prefill on {first.device.name}, decode on {second.device.name}"
    if not resize:
        return _priced(scenario, title, first, second, bounded=True)
    pairs = product(sizes(scenario.prefill, scenario), sizes(scenario.decode, scenario))
    tried = [_priced(scenario, f"{title}, resized", *pair, bounded=False) for pair in pairs]
    if not tried:  # the declared one says which weights don't fit
        return _priced(scenario, f"{title}, resized", first, second, bounded=False)
    return min(tried, key=cheapest_first)


def fit_problem(scenario: Scenario, *replicas: Replica) -> str:
    """Return which replica the weights don't fit, empty when they fit all."""
    for replica in replicas:
        room = replica.room(scenario.efficiency)
        if scenario.work.weight_bytes >= room:
            return (
                f"weights of {scenario.work.weight_bytes / 1e9:.0f} GB don't fit {replica.devices} x "
                f"{replica.device.name} ({room / 1e9:.0f} GB usable); raise acceleratorsPerReplica"
            )
    return ""


def _priced(scenario: Scenario, title: str, first: Replica, second: Replica, *, bounded: bool) -> Candidate:
    problem = fit_problem(scenario, first, second)
    found = None if problem else sided(scenario, first, second)
    if found is None:
        return miss(ServingMode.SPLIT, title, problem or "no number of replicas keeps up")
    problem = found.problem or (_over_bound(scenario, found) if bounded else "")
    rate = scenario.workload.requests_per_second
    busy = rate * found.prefill_seconds / found.prefills
    uses = [
        (pool_use("prefill", first, found.prefills, busy), first),
        (pool_use("decode", second, found.decodes, _load(scenario, second, found)), second),
    ]
    return finish(
        ServingMode.SPLIT,
        title,
        scenario,
        uses,
        ttft=found.ttft_seconds,
        itl=found.decoding.itl_seconds,
        problem=problem,
        ports=scenario.link.rails * (found.prefills + found.decodes),
        link_utilisation=found.link_utilisation,
        details=parts_of(found),
    )


def parts_of(found: Sided) -> dict[str, float]:
    """Return the times that the figures of a split are made of."""
    return {
        "prefill_seconds": found.prefill_seconds,
        "transfer_seconds": found.handover.transfer_seconds,
        "exposed_seconds": found.handover.exposed_seconds,
        "contention_seconds": found.contention_seconds,
        "resident_share": found.handover.timeline.resident_share,
        "state_bytes": found.handover.nbytes,
        "chunk_layers": float(found.handover.chunk_layers),
        "step_seconds": found.decoding.step_seconds,
        "batch": found.decoding.batch,
    }


def _over_bound(scenario: Scenario, found: Sided) -> str:
    for part, count in ((scenario.prefill, found.prefills), (scenario.decode, found.decodes)):
        if part.most is not None and count > part.most:
            return f"needs {count} replicas of group {part.name}, replicas.max is {part.most}"
    return ""


def _load(scenario: Scenario, replica: Replica, found: Sided) -> float:
    """Return the share of the decode pool's sequences in use."""
    state = scenario.work.on(replica.devices).kv_bytes(scenario.workload.longest_context)
    room = replica.room(scenario.efficiency)
    most, _ = most_sequences(room, scenario.work.weight_bytes, state, slots(scenario, replica))
    return found.decoding.batch / most if most else 1.0
