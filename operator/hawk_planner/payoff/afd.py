"""Prefill apart; decode's attention on one device and its FFN on the other, two micro-batches in turn.

While one micro-batch is in its FFN the other is in its attention. A step of both takes the longer of
one micro-batch's whole round and two turns of the busiest stage, the exchange being a stage of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf
from typing import TYPE_CHECKING

from hawk_planner.perf.steps import step_timer

from .candidate import Candidate, ServingMode
from .colocated import cheapest_first
from .handover import contention_seconds, hand_over
from .serving import Limit, decode_steadily, most_sequences
from .split import MOST_LINK, ttft_fixed_seconds
from .times import prefill_seconds, slots
from .ways import attains, finish, latency, miss, pool_use, smallest

if TYPE_CHECKING:
    from collections.abc import Callable

    from .scenario import Replica, Scenario
    from .serving import Decoding

__all__ = ["Stages", "attention_ffn", "stages"]

MICRO_BATCHES = 2
SHARED_BY = (1, 2, 4, 8)
"""Attention replicas that share one FFN replica."""


@dataclass(frozen=True)
class Stages:
    """Seconds of one micro-batch's stages and of a whole step, as functions of the batch."""

    attention: Callable[[float], float]
    ffn: Callable[[float], float]
    exchange: Callable[[float], float]
    step: Callable[[float], float]


def stages(scenario: Scenario, attention: Replica, ffn: Replica, shared_by: int) -> Stages:
    """Return the stages of a step when `shared_by` attention replicas share one FFN replica."""
    efficiency, work = scenario.efficiency, scenario.work
    context = scenario.workload.mean_context
    within = replace(efficiency, step_seconds=0.0)
    front = step_timer(work.on(attention.devices).attention_part(context), attention.rates(within))
    back = step_timer(work.ffn_part(), ffn.rates(within))
    per_token = 2 * work.hidden * len(work.layers) * work.element_bytes
    messages = 2 * len(work.layers) * scenario.link.message_seconds

    def attend(batch: float) -> float:
        return front(batch / MICRO_BATCHES)

    def feed(batch: float) -> float:
        return back(batch / MICRO_BATCHES * shared_by)

    def exchange(batch: float) -> float:
        return batch / MICRO_BATCHES * per_token / scenario.link.rate + messages

    def step(batch: float) -> float:
        there, here, between = attend(batch), feed(batch), exchange(batch)
        busiest = max(there, here, between)
        return max(there + here + between, MICRO_BATCHES * busiest) + efficiency.step_seconds

    return Stages(attend, feed, exchange, step)


def attention_ffn(scenario: Scenario) -> Candidate:
    """Return the cheapest attention/FFN split, either device in either place."""
    first, second = scenario.prefill.replica, scenario.decode.replica
    if scenario.work.weight_bytes >= first.room(scenario.efficiency):
        return miss(
            ServingMode.ATTENTION_FFN, "attention and FFN apart", "weights don't fit the prefill device"
        )
    tried = [
        found
        for attention, ffn in ((first, second), (second, first))
        for shared_by in SHARED_BY
        if (found := _attention_ffn(scenario, attention, ffn, shared_by)) is not None
    ]
    if not tried:
        return miss(ServingMode.ATTENTION_FFN, "attention and FFN apart", "no number of replicas keeps up")
    return min(tried, key=cheapest_first)


def _holding(replica: Replica, nbytes: float, scenario: Scenario) -> Replica | None:
    """Return the replica with the fewest devices that hold `nbytes`, up to one node's."""
    count = 1
    while count <= max(scenario.most_devices_per_replica, replica.devices):
        grown = replace(replica, devices=count)
        if nbytes < grown.room(scenario.efficiency):
            return grown
        count *= 2
    return None


def _attention_ffn(scenario: Scenario, attention: Replica, ffn: Replica, shared_by: int) -> Candidate | None:
    work, workload = scenario.work, scenario.workload
    back = _holding(ffn, work.ffn_bytes, scenario)
    if back is None:
        return None
    room = attention.room(scenario.efficiency)
    kept = work.weight_bytes - work.ffn_bytes
    state = work.on(attention.devices).kv_bytes(workload.longest_context)
    most, bound = most_sequences(room, kept, state, slots(scenario, attention))
    first, rate = scenario.prefill.replica, workload.requests_per_second
    alone = prefill_seconds(scenario, first)
    handover = hand_over(scenario, alone)
    split = stages(scenario, attention, back, shared_by)

    def decoding(count: int) -> Decoding:
        return decode_steadily(
            split.step,
            workload.tokens_per_second / count,
            most=most,
            bound=bound,
            target=scenario.targets.itl,
            held=rate / count * handover.transfer_seconds,
        )

    demand = rate * handover.nbytes / (scenario.link.rate * scenario.path_share)
    attentions = smallest(lambda n: decoding(n).limit is Limit.NONE, ceil(demand / MOST_LINK))
    if attentions is None:
        return None
    found = decoding(attentions)

    def fixed(count: int) -> float:
        waits = contention_seconds(handover.transfer_seconds, demand / min(count, attentions))
        return ttft_fixed_seconds(scenario, handover, waits, found.step_seconds)

    def enough(count: int) -> bool:
        if scenario.targets.ttft is None:
            return rate * alone < 0.9 * count
        return attains(count, scenario, rate, alone, fixed(count))

    prefills = smallest(enough, max(ceil(demand / MOST_LINK), ceil(rate * alone)))
    problem = ""
    if prefills is None:
        prefills, problem = ceil(rate * alone / 0.8), f"TTFT: prefill alone takes {alone * 1e3:.0f} ms"
    ffns = ceil(attentions / shared_by)
    uses = [
        (pool_use("prefill", first, prefills, rate * alone / prefills), first),
        (pool_use("attention", attention, attentions, found.batch / most), attention),
        (pool_use("ffn", back, ffns, _share(split.ffn, split, found.batch)), back),
    ]
    return finish(
        ServingMode.ATTENTION_FFN,
        f"attention on {attention.device.name}, FFN on {back.device.name}",
        scenario,
        uses,
        ttft=latency(prefills, scenario, rate, alone) + fixed(prefills),
        itl=found.itl_seconds,
        problem=problem,
        bottleneck=_busiest(split, found.batch),
        ports=scenario.link.rails * (prefills + attentions + ffns),
        link_utilisation=demand / min(prefills, attentions),
        again=lambda other: _attention_ffn(other, attention, ffn, shared_by),
        details={
            "prefill_seconds": alone,
            "exposed_seconds": handover.exposed_seconds,
            "attention_seconds": split.attention(found.batch),
            "ffn_seconds": split.ffn(found.batch),
            "exchange_seconds": split.exchange(found.batch),
            "step_seconds": found.step_seconds,
            "batch": found.batch,
        },
    )


def _share(stage: Callable[[float], float], split: Stages, batch: float) -> float:
    step = split.step(batch)
    return MICRO_BATCHES * stage(batch) / step if step < inf else 1.0


def _busiest(split: Stages, batch: float) -> str:
    times = {
        str(Limit.ATTENTION): split.attention(batch),
        str(Limit.FFN): split.ffn(batch),
        "exchange over the link": split.exchange(batch),
    }
    return max(times, key=lambda name: times[name])
