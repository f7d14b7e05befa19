"""The answer: every way of serving, ranked, what would turn the verdict, and how sure it is.

Uncertain efficiencies are carried through: the plan is made again at the ends of their ranges,
for all devices together and for each side alone, because a split stands or falls with their difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from . import checks
from .afd import attention_ffn
from .candidate import Candidate, Feasibility, ServingMode
from .capacity import with_capacity
from .colocated import cheapest_first, colocated
from .drafted import target_draft
from .flexible import flexible
from .offload import offload
from .split import split
from .ways import whole_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .assumptions import Assumption
    from .question import Question
    from .scenario import DeclaredGroup, Scenario

__all__ = [
    "Band",
    "CapacityPlan",
    "SplitAssessment",
    "Verdict",
    "candidates",
    "judge_ranking",
    "make_capacity_plan",
    "rank_candidates",
]

SPLITS = (ServingMode.SPLIT, ServingMode.OFFLOAD, ServingMode.ATTENTION_FFN, ServingMode.TARGET_DRAFT)
"""Ways that put unlike devices to work on one request."""


CLOSE = 0.02
"""Relative difference of costs below which no verdict is given."""


class Verdict(StrEnum):
    """The verdict on splitting."""

    PAYS = "pays"
    DOES_NOT_PAY = "does not pay"
    TOO_CLOSE = "too close to call"
    NOTHING_MEETS = "nothing meets the objectives"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Band:
    """The cost of one way of serving over the ranges of the inputs, USD a million tokens."""

    low: float
    high: float


@dataclass(frozen=True)
class SplitAssessment:
    """A verdict on the best split against the best that doesn't split."""

    verdict: Verdict
    reason: str
    best_split: Candidate | None
    best_whole: Candidate | None


@dataclass(frozen=True)
class CapacityPlan:
    """A plan: the ranking, the verdict, and what it rests on."""

    ranking: tuple[Candidate, ...]
    outcome: SplitAssessment
    bands: tuple[Band | None, ...]
    """One a candidate of the ranking."""
    assumptions: tuple[Assumption, ...]
    scenario: Scenario


def _safely(kind: ServingMode, title: str, make: Callable[[], Candidate]) -> Candidate:
    """Return the candidate, or the same without figures when an input isn't known."""
    try:
        return make()
    except checks.MissingInputError as missing:
        return Candidate(kind, title, Feasibility.UNKNOWN, str(missing))


def candidates(scenario: Scenario) -> list[Candidate]:
    """Return every way of serving, unranked."""
    unlike = scenario.prefill.replica.device.name != scenario.decode.replica.device.name
    parts = whole_parts(scenario)
    found = [
        _safely(ServingMode.COLOCATED, f"colocated on {part.replica.device.name}", _colocated(scenario, part))
        for part in parts
    ]
    declared = _safely(ServingMode.SPLIT, "prefill and decode apart", lambda: split(scenario))
    found.append(declared)
    if declared.standing is Feasibility.MISSES:
        resized = _safely(ServingMode.SPLIT, "resized", lambda: split(scenario, resize=True))
        found += [resized] if resized.pools != declared.pools else []
    found += [
        _safely(
            ServingMode.FLEXIBLE,
            f"roles that change on {part.replica.device.name}",
            _flexible(scenario, part),
        )
        for part in parts
    ]
    if unlike:
        found += [
            _safely(ServingMode.OFFLOAD, "decodes moved", lambda: offload(scenario)),
            _safely(ServingMode.ATTENTION_FFN, "attention and FFN apart", lambda: attention_ffn(scenario)),
            _safely(ServingMode.TARGET_DRAFT, "target and drafter apart", lambda: target_draft(scenario)),
        ]
    return found


def _colocated(scenario: Scenario, part: DeclaredGroup) -> Callable[[], Candidate]:
    return lambda: colocated(scenario, part)


def _flexible(scenario: Scenario, part: DeclaredGroup) -> Callable[[], Candidate]:
    return lambda: flexible(scenario, part)


def rank_candidates(found: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates that meet everything by cost, then those that miss, then the unknown."""
    return sorted(found, key=lambda one: (one.standing is Feasibility.UNKNOWN, cheapest_first(one)))


def judge_ranking(found: Sequence[Candidate]) -> SplitAssessment:
    """Return the verdict on the best split against the best whole among `found`."""
    ranked = rank_candidates(found)
    best_split = next((one for one in ranked if one.kind in SPLITS), None)
    best_whole = next((one for one in ranked if one.kind not in SPLITS), None)
    verdict, reason = _verdict(best_split, best_whole)
    return SplitAssessment(verdict, reason, best_split, best_whole)


def _verdict(apart: Candidate | None, whole: Candidate | None) -> tuple[Verdict, str]:
    if apart is None or apart.standing is Feasibility.UNKNOWN:
        return Verdict.UNKNOWN, apart.problem if apart else "no split was priced"
    if apart.standing is Feasibility.MISSES:
        meets = whole is not None and whole.standing is Feasibility.MEETS
        verdict = Verdict.DOES_NOT_PAY if meets else Verdict.NOTHING_MEETS
        return verdict, f"{apart.title}: {apart.problem}"
    if whole is None or whole.standing is not Feasibility.MEETS:
        other = whole.problem if whole else "there is no other way"
        return Verdict.PAYS, f"only the split meets the objectives ({other})"
    return _by_cost(apart, whole)


def _by_cost(apart: Candidate, whole: Candidate) -> tuple[Verdict, str]:
    costs = apart.usd_per_million_tokens, whole.usd_per_million_tokens
    if costs[0] is None or costs[1] is None:
        unpriced = apart if costs[0] is None else whole
        return (
            Verdict.UNKNOWN,
            f"the price of {unpriced.unpriced} isn't known; give price and power, or pricePerHour",
        )
    if abs(costs[0] - costs[1]) < CLOSE * costs[1]:
        difference = f"less than {CLOSE:.0%} apart"
        return Verdict.TOO_CLOSE, f"{apart.title} {costs[0]:.3f}, {whole.title} {costs[1]:.3f}: {difference}"
    text = f"{apart.title} {costs[0]:.3f}, {whole.title} {costs[1]:.3f} USD a million tokens"
    return (Verdict.PAYS if costs[0] < costs[1] else Verdict.DOES_NOT_PAY), text


def corners(question: Question) -> list[Scenario]:
    """Return the scenario at the ends of the uncertain inputs: both sides together, then each alone."""
    ends: dict[str, tuple[float, float]] = {
        one.name: (one.low, one.high)
        for one in question.assumptions
        if one.low is not None and one.high is not None
    }
    scenario = question.scenario
    middle = scenario.efficiency

    def scaled(part: DeclaredGroup, end: int) -> DeclaredGroup:
        mfu, mbu = ends.get("prefill_mfu"), ends.get("decode_mbu")
        device = part.replica.device
        faster = mfu[end] / middle.prefill_mfu if mfu else 1
        changed = replace(
            device,
            flops=device.flops and device.flops * faster,
            attention_flops=device.attention_flops and device.attention_flops * faster,
            bandwidth=device.bandwidth and device.bandwidth * (mbu[end] / middle.decode_mbu if mbu else 1),
        )
        return replace(part, replica=replace(part.replica, device=changed))

    if not ends:
        return []
    if scenario.prefill.replica.device.name == scenario.decode.replica.device.name:
        pairs = ((0, 0), (1, 1))
    else:
        pairs = ((0, 0), (1, 1), (0, 1), (1, 0))  # type: ignore[assignment]
    return [
        replace(scenario, prefill=scaled(scenario.prefill, one), decode=scaled(scenario.decode, other))
        for one, other in pairs
    ]


def make_capacity_plan(question: Question) -> CapacityPlan:
    """Return the plan for a question."""
    middle = [with_capacity(one, question.scenario) for one in candidates(question.scenario)]
    outcome = judge_ranking(middle)
    elsewhere = [candidates(scenario) for scenario in corners(question)]
    others = {
        one.verdict: one.reason for one in map(judge_ranking, elsewhere) if one.verdict is not outcome.verdict
    }
    if others and outcome.verdict in (Verdict.PAYS, Verdict.DOES_NOT_PAY):
        told = "; ".join(f"{verdict} ({reason})" for verdict, reason in sorted(others.items()))
        outcome = replace(
            outcome,
            verdict=Verdict.TOO_CLOSE,
            reason=f"{outcome.verdict} ({outcome.reason}); elsewhere in the inputs' ranges {told}",
        )
    ranked = rank_candidates(middle)
    return CapacityPlan(
        ranking=tuple(ranked),
        outcome=outcome,
        bands=tuple(_band(one, [middle, *elsewhere]) for one in ranked),
        assumptions=question.assumptions,
        scenario=question.scenario,
    )


def _band(candidate: Candidate, everywhere: list[list[Candidate]]) -> Band | None:
    """Return the costs that the same way of serving (by kind and devices) has over all corners."""
    costs = [
        one.usd_per_million_tokens
        for found in everywhere
        for one in found
        if (one.kind, _places(one)) == (candidate.kind, _places(candidate))
        and one.usd_per_million_tokens is not None
    ]
    return Band(min(costs), max(costs)) if costs else None


def _places(candidate: Candidate) -> tuple[tuple[str, str], ...]:
    return tuple((pool.role, pool.device) for pool in candidate.pools)
