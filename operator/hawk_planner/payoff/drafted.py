"""Colocated target with a drafter on the second device: one drafter replica a target replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_planner.perf.steps import step_timer

from .candidate import Candidate, ServingMode
from .colocated import DraftRounds, cheapest_first, colocate, why_missed
from .drafting import accepted_tokens, message_bytes
from .serving import fits
from .ways import finish, miss, pool_use, unknown

if TYPE_CHECKING:
    from .scenario import Drafter, Scenario

__all__ = ["target_draft"]

LENGTHS = (1, 2, 3, 4, 6, 8)
"""Draft lengths that are tried."""


def target_draft(scenario: Scenario) -> Candidate:
    """Return the target with a drafter at the draft length that costs least."""
    first, second = scenario.prefill.replica, scenario.decode.replica
    title = f"target on {first.device.name}, drafter on {second.device.name}"
    drafter = scenario.drafter
    if drafter is None:
        return unknown(
            ServingMode.TARGET_DRAFT,
            title,
            "the drafter isn't known; pass --draft-model and --draft-acceptance, measured on this traffic",
        )
    if not fits(drafter.work, second, scenario.efficiency):
        return miss(ServingMode.TARGET_DRAFT, title, "the drafter's weights don't fit")
    plain = colocate(scenario, first)
    if plain is None:
        return miss(
            ServingMode.TARGET_DRAFT, title, "the target's weights don't fit; raise acceleratorsPerReplica"
        )
    # Drafting is priced at the undrafted batch: drafted, fewer are in flight: the dear side.
    batch = max(1.0, plain.mixed.decoding.batch)
    tried = [
        found
        for length in LENGTHS
        if (found := _drafted(scenario, title, drafter, length, batch)) is not None
    ]
    if not tried:
        return miss(ServingMode.TARGET_DRAFT, title, "no number of replicas keeps up")
    return min(tried, key=cheapest_first)


def _rounds(scenario: Scenario, drafter: Drafter, length: int, batch: float) -> DraftRounds:
    second = scenario.decode.replica.rates(scenario.efficiency)
    step = drafter.work.on(scenario.decode.replica.devices).decode(scenario.workload.mean_context)
    drafting = length * step_timer(step, second)(batch)
    sent = message_bytes(length, drafter.work.hidden)
    nbytes = batch * (sent.proposal_bytes + sent.response_bytes)
    message = 2 * scenario.link.message_seconds + nbytes / scenario.link.rate
    return DraftRounds(
        drafts=length,
        emitted=1 + accepted_tokens(drafter.acceptance, length),
        seconds=drafting + message + drafter.synchronisation_seconds,
    )


def _drafted(scenario: Scenario, title: str, drafter: Drafter, length: int, batch: float) -> Candidate | None:
    first, second = scenario.prefill.replica, scenario.decode.replica
    rounds = _rounds(scenario, drafter, length, batch)
    here = colocate(scenario, first, rounds=rounds)
    if here is None:
        return None
    step = here.mixed.decoding.step_seconds
    uses = [
        (pool_use("target", first, here.replicas, here.mixed.busy), first),
        (pool_use("draft", second, here.replicas, rounds.seconds / step), second),
    ]
    return finish(
        ServingMode.TARGET_DRAFT,
        f"{title}, {length} drafts",
        scenario,
        uses,
        ttft=here.ttft_seconds,
        itl=here.itl_seconds,
        problem=why_missed(scenario, here),
        bottleneck=str(here.mixed.decoding.limit) or "drafting and verifying",
        ports=2 * scenario.link.rails * here.replicas,
        again=lambda other: _drafted(other, title, drafter, length, batch),
        details={
            "draft_tokens": float(length),
            "emitted_tokens": rounds.emitted,
            "round_seconds": step,
            "drafting_seconds": rounds.seconds,
            "batch": here.mixed.decoding.batch,
        },
    )
