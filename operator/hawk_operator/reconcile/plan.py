"""From what was decided and what is there to what is asked for next. Pure.

The order of the writes is `sizing.next_step`'s: shrink first, grow only into what is free. This module tells
it what the outside world adds: workers that are still drained can't go yet, groups that another controller
scales stay as they are, nothing grows while pods find no node, and a rollout's surge holds devices too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hawk_operator.workloads import drain
from hawk_planner.sizing import Problem
from hawk_planner.sizing.steps import Present, Step, next_step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hawk_api.v1alpha1 import AcceleratorClassSpec, GroupSpec, HawkPool
    from hawk_operator.reconcile.observe import ObservedGroup
    from hawk_operator.workloads.drain import Drain, PodWork

_BY_ORDINAL: Final = frozenset({"StatefulSet", "LeaderWorkerSet"})
"""Controllers that take no hint: the highest ordinal goes."""

STUCK_SKEW: Final = 0.25
"""How far groups may get apart, as a share of their goals, while some pods find no node."""


@dataclass(frozen=True)
class Plan:
    """Replicas to ask for now, a group each, what the rest waits for, and the drains."""

    requests: Mapping[str, int]
    waits: str
    drains: Mapping[str, Drain]


def target_replicas(
    groups: Sequence[ObservedGroup], decided: Mapping[str, int] | None, *, may_grow: bool
) -> dict[str, int]:
    """The replicas to head for; `decided` is None where nothing may be carried out: then what is there stays.

    A workload that doesn't exist yet starts with the fewest replicas that the spec allows.
    """
    found = {}
    for group in groups:
        name, present = group.spec.name, group.pods.requested
        stay = group.spec.replicas.min if present is None else present
        goal = stay if decided is None else decided.get(name, stay)
        held_back = group.pods.unschedulable or not may_grow
        if present is not None and held_back:
            goal = min(goal, present)
        found[name] = present if is_frozen(group) and present is not None else goal
    return found


def make_plan(
    pool: HawkPool,
    groups: Sequence[ObservedGroup],
    goal: Mapping[str, int],
    classes: Mapping[str, AcceleratorClassSpec],
    work: Mapping[str, PodWork],
    *,
    now: float,
) -> Plan:
    """The next safe step. `work` is what is known of the pods' work, a group each."""
    drains = {
        group.spec.name: drain.plan_drain(
            group.pods.pods,
            goal[group.spec.name],
            work[group.spec.name],
            pool.spec.drain.timeout,
            now,
            by_ordinal=group.target is not None and group.target.kind in _BY_ORDINAL,
        )
        for group in groups
        if not is_frozen(group)
    }
    target = {
        group.spec.name: _reachable(group, goal[group.spec.name], drains.get(group.spec.name))
        for group in groups
    }
    stuck = any(group.pods.unschedulable for group in groups)
    step = next_step(
        Problem.of(pool, classes, None),
        {group.spec.name: _present(group) for group in groups},
        target,
        STUCK_SKEW if stuck else 1.0,
    )
    return Plan(_requests(groups, step), step.outstanding, drains)


def is_frozen(group: ObservedGroup) -> bool:
    """True if the group's replicas are not ours to change now."""
    return bool(group.conflict or group.trouble)


def surge_replicas(spec: GroupSpec, replicas: int) -> int:
    """How many extra workers a rollout may start: a percentage is rounded up, as the Deployment does."""
    if spec.template is None:
        return 0
    value = spec.rollout.max_surge
    if isinstance(value, int):
        return value
    return -(-replicas * int(value.rstrip("%")) // 100)


def _reachable(group: ObservedGroup, goal: int, drained: Drain | None) -> int:
    """The goal, or what it can't go below yet: workers that are still being emptied stay."""
    if drained is None:
        return goal
    return max(goal, min(group.pods.requested or 0, drained.floor(len(group.pods.active))))


def _present(group: ObservedGroup) -> Present:
    requested = group.pods.requested or 0
    return Present(
        requested=requested,
        pods=max(group.pods.held, requested + surge_replicas(group.spec, requested)),
        ready=group.pods.ready,
    )


def _requests(groups: Sequence[ObservedGroup], step: Step) -> dict[str, int]:
    found = {group.spec.name: group.pods.requested or 0 for group in groups}
    found.update(step.changes)
    return found
