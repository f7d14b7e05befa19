"""Prefill and decode on the same replicas: the baseline, set up as well as it can be.

The chunk length and the devices a replica are searched, so that a split is compared
with a good baseline and not with a convenient one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf
from typing import TYPE_CHECKING

from .candidate import Candidate, ServingMode
from .serving import Limit, Mixed, mix_steadily, most_sequences
from .times import first_token_limit, slots, step_timer
from .ways import attains, finish, latency, miss, pool_use, sizes, smallest

if TYPE_CHECKING:
    from .scenario import DeclaredGroup, Replica, Scenario

__all__ = ["Colocation", "colocate", "colocated", "serve"]

CHUNKS = (256, 512, 1024, 2048, 4096, 8192)
"""Lengths of prefill chunks that an engine may be set to."""


@dataclass(frozen=True)
class DraftRounds:
    """How drafting changes a decode step."""

    drafts: int
    """Tokens proposed, each verified in the same step."""
    emitted: float
    """Tokens that a round emits on average."""
    seconds: float
    """Drafting, messages and synchronisation on top of a verification."""


PLAIN = DraftRounds(drafts=0, emitted=1.0, seconds=0.0)


@dataclass(frozen=True)
class Colocation:
    """A number of replicas and how they serve."""

    replica: Replica
    replicas: int
    mixed: Mixed
    chunk_tokens: int
    ttft_seconds: float
    meets: bool
    emitted: float = 1.0

    @property
    def itl_seconds(self) -> float:
        """Time a token at the objective's percentile."""
        return self.mixed.decoding.itl_seconds / self.emitted


def serve(
    scenario: Scenario,
    replica: Replica,
    replicas: int,
    *,
    decode_share: float = 1.0,
    rounds: DraftRounds = PLAIN,
) -> Colocation | None:
    """Return how `replicas` serve, with the best chunk length; None when the weights don't fit.

    `decode_share` of the requests are decoded here.
    """
    workload = scenario.workload
    overhead = scenario.efficiency.step_seconds + rounds.seconds
    itl, context = scenario.targets.itl, workload.mean_context
    room = replica.room(scenario.efficiency)
    work = scenario.work.on(replica.devices)
    state = work.kv_bytes(workload.longest_context)
    most, bound = most_sequences(room, scenario.work.weight_bytes, state, slots(scenario, replica))
    if bound is Limit.WEIGHTS:
        return None
    prompt, step = work.prompt(workload.prompt_tokens), work.decode(context)
    step = replace(step, tokens=1.0 + rounds.drafts)
    plain = step_timer(scenario, replica, step, context, overhead=overhead)
    best: Colocation | None = None
    for chunk in sorted({min(chunk, workload.prompt_tokens) for chunk in CHUNKS}):
        pieces = ceil(workload.prompt_tokens / chunk)
        piece = replace(
            prompt,
            linear_flops=prompt.linear_flops / pieces,
            weight_bytes=scenario.work.step_bytes(chunk),
            attention_flops=prompt.attention_flops / pieces,
            exchange_bytes=prompt.exchange_bytes / pieces,
        )
        mixed = mix_steadily(
            step_timer(scenario, replica, step, context, overhead=overhead, beside=piece),
            plain,
            pieces,
            arrivals=workload.requests_per_second / replicas,
            tokens_per_second=workload.tokens_per_second * decode_share / replicas / rounds.emitted,
            most=most,
            bound=bound,
            itl=replace(itl, target=itl.target * rounds.emitted) if itl else None,
        )
        meets = mixed.decoding.limit is Limit.NONE and mixed.busy < 1
        if meets:
            rate = workload.requests_per_second
            meets = attains(replicas, scenario, rate, mixed.prefill_seconds, 0.0)
        found = Colocation(replica, replicas, mixed, chunk, inf, meets, rounds.emitted)
        if best is None or _better(found, best):
            best = found
        if meets:
            break
    return best


def _better(one: Colocation, other: Colocation) -> bool:
    def rank(colocation: Colocation) -> tuple[bool, bool, float]:
        decoding = colocation.mixed.decoding
        return not colocation.meets, decoding.limit is not Limit.NONE, colocation.mixed.busy

    return rank(one) < rank(other)


def colocate(
    scenario: Scenario, replica: Replica, *, decode_share: float = 1.0, rounds: DraftRounds = PLAIN
) -> Colocation | None:
    """Return the fewest replicas that meet the objectives, else the fewest that keep up; None if none do."""
    if serve(scenario, replica, 1) is None:
        return None

    def enough(count: int) -> bool:
        found = serve(scenario, replica, count, decode_share=decode_share, rounds=rounds)
        return found is not None and found.meets

    count = smallest(enough)
    if count is None:
        count = _keeping_up(scenario, replica, decode_share, rounds)
        if count is None:
            return None
    found = serve(scenario, replica, count, decode_share=decode_share, rounds=rounds)
    if found is None:
        return None
    rate = scenario.workload.requests_per_second
    return replace(found, ttft_seconds=latency(count, scenario, rate, found.mixed.prefill_seconds))


def _keeping_up(scenario: Scenario, replica: Replica, decode_share: float, rounds: DraftRounds) -> int | None:
    loose = replace(scenario, targets=replace(scenario.targets, ttft=None, itl=None))

    def enough(count: int) -> bool:
        found = serve(loose, replica, count, decode_share=decode_share, rounds=rounds)
        return found is not None and found.meets

    return smallest(enough)


def why_missed(scenario: Scenario, found: Colocation) -> str:
    """Return which objective a colocation misses, with the figures; empty when it meets all."""
    if found.meets:
        return ""
    decoding, targets = found.mixed.decoding, scenario.targets
    if decoding.limit is Limit.ITL and targets.itl:
        return f"ITL {found.itl_seconds * 1e3:.1f} ms, objective {targets.itl.target * 1e3:.1f} ms"
    if targets.ttft and decoding.limit in (Limit.NONE, Limit.COMPUTE):
        prefill = found.mixed.prefill_seconds
        due = first_token_limit(scenario) * 1e3
        return f"TTFT: prefill alone takes {prefill * 1e3:.0f} ms, objective {due:.0f} ms"
    return f"{decoding.limit}"


def colocated(scenario: Scenario, part: DeclaredGroup) -> Candidate:
    """Return the cheapest colocation on the part's device, whatever its devices a replica."""
    title = f"colocated on {part.replica.device.name}"
    found: list[Candidate] = []
    for replica in sizes(part, scenario):
        colocation = colocate(scenario, replica)
        if colocation is not None:
            found.append(_candidate(scenario, title, colocation))
    if not found:
        need = scenario.work.weight_bytes / 1e9
        room = part.replica.room(scenario.efficiency) / 1e9
        return miss(
            ServingMode.COLOCATED,
            title,
            f"weights of {need:.0f} GB don't fit {room:.0f} GB usable; raise acceleratorsPerReplica",
        )
    return min(found, key=cheapest_first)


def cheapest_first(candidate: Candidate) -> tuple[bool, bool, bool, float, float]:
    """Order candidates: what meets everything first, then what has figures, then by cost, then by energy.

    Without a price devices are counted instead, after all that have one.
    """
    cost, energy = candidate.usd_per_million_tokens, candidate.joules_per_token
    return (
        candidate.standing != "meets",
        not candidate.pools,
        cost is None,
        candidate.devices if cost is None else cost,
        inf if energy is None else energy,
    )


def _candidate(scenario: Scenario, title: str, found: Colocation) -> Candidate:
    mixed, replica = found.mixed, found.replica
    use = pool_use("both", replica, found.replicas, mixed.busy)
    return finish(
        ServingMode.COLOCATED,
        title,
        scenario,
        [(use, replica)],
        ttft=found.ttft_seconds,
        itl=found.itl_seconds,
        problem=why_missed(scenario, found),
        details={
            "prefill_seconds": mixed.prefill_seconds,
            "step_seconds": mixed.decoding.step_seconds,
            "batch": mixed.decoding.batch,
            "chunk_tokens": float(found.chunk_tokens),
        },
    )
