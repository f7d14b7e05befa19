"""A pool's status, computed from facts and from the status before. Pure.

Equal facts give an equal status, so it is written only when something changed. Measured latencies vary with
every reconcile; the status follows when they have changed by a twentieth, and the metrics have them exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hawk_api import ratio as ratios
from hawk_api.conditions import set_condition
from hawk_api.v1alpha1 import HawkPoolStatus, Role
from hawk_api.v1alpha1.hawkpool import MAX_DECISIONS
from hawk_api.v1alpha1.status import DecisionRecord, GroupStatus
from hawk_operator.status import conditions
from hawk_operator.status.outcomes import scaling_followed

if TYPE_CHECKING:
    from datetime import datetime

    from hawk_api.conditions import Condition
    from hawk_api.v1alpha1.scaling import Objective
    from hawk_operator.status.facts import Facts, GroupFacts
    from hawk_planner.sizing import Decision
    from hawk_planner.traffic import Distribution, Signal

WOBBLE: Final = 0.2
"""A percentile over the hundred requests of a window moves by a tenth and more while nothing changes."""
_DEFAULT_SHARE: Final = 0.95


def build_status(
    facts: Facts, decision: Decision | None, before: HawkPoolStatus, now: datetime
) -> HawkPoolStatus:
    """The new status. `before` is the one that the pool has."""
    spec = facts.pool.spec
    window = facts.window
    return HawkPoolStatus(
        observed_generation=facts.pool.metadata.generation,
        conditions=merge_conditions(before.conditions, conditions.judge_conditions(facts), now),
        groups=tuple(map(_group, facts.groups)),
        prefill=_ready(facts, prefills=True),
        decode=_ready(facts, prefills=False),
        ratio=ratio_of(facts.groups),
        ttft=_latency(window.prefill.ttft if window else None, spec.objectives.ttft, before.ttft),
        itl=_latency(window.decode.itl if window else None, spec.objectives.itl, before.itl),
        decisions=scaling_followed(
            before.decisions, recent_decisions(before.decisions, decision), facts, now
        ),
    )


def merge_conditions(
    before: tuple[Condition, ...], new: tuple[Condition, ...], now: datetime
) -> tuple[Condition, ...]:
    """The new conditions in their own order, each with the time of its last change of status."""
    found: tuple[Condition, ...] = ()
    known = {condition.type: condition for condition in before}
    for condition in new:
        old = (known[condition.type],) if condition.type in known else ()
        found += set_condition(old, condition, now)
    return found


def recent_decisions(
    before: tuple[DecisionRecord, ...], decision: Decision | None
) -> tuple[DecisionRecord, ...]:
    """The history, newest first: a decision is new when it wants other replicas or has another reason."""
    if decision is None:
        return before
    record = decision.record()
    if before and (before[0].replicas, before[0].reason) == (record.replicas, record.reason):
        return before
    return (record, *before)[:MAX_DECISIONS]


def ratio_of(groups: tuple[GroupFacts, ...]) -> str | None:
    """Prefill to decode as wanted; groups that do both count on both sides. None without groups."""
    if not groups:
        return None
    prefill = sum(group.desired for group in groups if Role(group.role).prefills)
    decode = sum(group.desired for group in groups if Role(group.role).decodes)
    return ratios.ratio_of(prefill, decode)


def _group(facts: GroupFacts) -> GroupStatus:
    return GroupStatus(
        name=facts.name,
        role=Role(facts.role),
        desired=facts.desired,
        replicas=len(facts.pods.active),
        ready=facts.pods.ready,
        capacity=facts.pods.capacity,
    )


def _ready(facts: Facts, *, prefills: bool) -> int:
    return sum(
        group.pods.ready
        for group in facts.groups
        if (Role(group.role).prefills if prefills else Role(group.role).decodes)
    )


def _latency(
    signal: Signal[Distribution] | None, objective: Objective | None, before: float | None
) -> float | None:
    """Seconds at the objective's percentile, in milliseconds' steps; the former value while it is near and on
    the same side of the target."""
    if signal is None or not signal.known:
        return None
    share = objective.percentile / 100 if objective else _DEFAULT_SHARE
    measured = signal.get().quantile(share)
    if before is None or abs(measured - before) > WOBBLE * before:
        return round(measured, 3)
    met = [value <= objective.target for value in (before, measured)] if objective else []
    return before if len(set(met)) < 2 else round(measured, 3)
