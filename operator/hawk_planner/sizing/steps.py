"""The next writes on the way from what is there to what was decided.

Computed from what is observed, so that a restart between two writes, a refused write or a pod that never
comes changes nothing: the same question gives the rest of the way. Shrinking comes first, and growth
takes only what is free: a pod that is asked for or still terminating occupies its devices. So the budget
holds at every instant, even if a write fails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import Role
from hawk_planner.sizing.allocate import over_devices, within_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hawk_planner.sizing.problem import Problem

_FINEST = 64
"""Positions tried on the way, so that a search over two sides stays small."""


@dataclass(frozen=True)
class Present:
    """One group as it is: `requested` replicas, `pods` that exist (terminating ones too), `ready` ones."""

    requested: int
    pods: int
    ready: int

    @property
    def occupied(self) -> int:
        """Replicas that hold devices, or may at any moment."""
        return max(self.requested, self.pods)


@dataclass(frozen=True)
class Step:
    """Writes to do now, in order: (group, replicas). `outstanding` says what the rest waits for."""

    changes: tuple[tuple[str, int], ...]
    outstanding: str = ""

    @property
    def done(self) -> bool:
        """True when nothing is left to do or to wait for."""
        return not self.changes and not self.outstanding


def next_step(
    problem: Problem, present: Mapping[str, Present], target: Mapping[str, int], max_skew: float = 1.0
) -> Step:
    """The writes to do now on the way to `target`.

    `max_skew` is how far apart the groups' shares of their targets may be while they grow (1: they grow
    at once; 0.25: in quarters, each when the last is ready). Ratio bounds hold after each step that starts
    within them, unless only a step outside leads on.
    """
    now = {name: state.requested for name, state in present.items()}
    allowed = _level(present, target, max_skew)
    goal = {name: min(count, allowed[name]) if count > now[name] else count for name, count in target.items()}
    goal = {name: max(goal[name], min(now[name], target[name])) for name in goal}
    shrunk = {name: min(now[name], goal[name]) for name in goal}
    grown = _grow(problem, present, shrunk, goal)
    chosen = _keep_ratio(problem, now, shrunk, grown)
    order = sorted(chosen, key=lambda name: (chosen[name] > now[name], name))
    changes = tuple((name, chosen[name]) for name in order if chosen[name] != now[name])
    return Step(changes, _outstanding(present, chosen, target))


def _level(present: Mapping[str, Present], target: Mapping[str, int], max_skew: float) -> dict[str, int]:
    """How far each group may grow: one notch of `max_skew` beyond the group that is least far."""
    growing = [name for name, count in target.items() if count > present[name].ready]
    if max_skew >= 1.0 or not growing:
        return dict(target)
    reached = min(present[name].ready / target[name] for name in growing)
    notch = (math.floor(reached / max_skew + 1e-9) + 1) * max_skew
    return {name: min(count, math.ceil(notch * count - 1e-9)) for name, count in target.items()}


def _grow(
    problem: Problem, present: Mapping[str, Present], start: Mapping[str, int], goal: Mapping[str, int]
) -> dict[str, int]:
    """Grow as far as devices and money are free, always the group that lacks most of its goal."""
    counts = dict(start)
    occupied = {name: present[name].occupied for name in start}
    over = _over(problem)
    order = sorted(goal)
    blocked: set[str] = set()
    while True:
        choices = [name for name in order if counts[name] < goal[name] and name not in blocked]
        if not choices:
            return counts
        name = min(choices, key=lambda n: counts[n] / goal[n])
        more = {**occupied, name: max(occupied[name], counts[name] + 1)}
        if more != occupied and over(more):
            blocked.add(name)
            continue
        counts[name], occupied = counts[name] + 1, more


def _over(problem: Problem) -> Callable[[Mapping[str, int]], bool]:
    """True if counts exceed a budget; what has no price counts as free here, the decision limits it."""
    devices, money = over_devices(problem), problem.budget_usd_per_hour

    def over(counts: Mapping[str, int]) -> bool:
        cost = sum(counts[g.name] * (g.usd_per_hour or 0.0) for g in problem.groups)
        return devices(counts) or (money is not None and cost > money * (1 + 1e-9))

    return over


def _keep_ratio(
    problem: Problem, now: Mapping[str, int], shrunk: Mapping[str, int], grown: Mapping[str, int]
) -> dict[str, int]:
    """The furthest of the ways between `now` and `grown` that ends within the ratio bounds.

    Both sides may go part of their way. When none does, the whole way is taken: standing still for ever
    would be worse.
    """
    if within_ratio(problem, grown) or not within_ratio(problem, now):
        return dict(grown)
    sides = {g.name: g.role is Role.DECODE for g in problem.groups}
    best: tuple[float, dict[str, int]] | None = None
    for i in range(_FINEST + 1):
        for j in range(_FINEST + 1):
            share = {False: i / _FINEST, True: j / _FINEST}
            counts = {n: now[n] + _part(grown[n] - now[n], share[sides[n]]) for n in now}
            moved = sum(abs(counts[n] - now[n]) for n in now)
            if moved and within_ratio(problem, counts) and (best is None or moved > best[0]):
                best = moved, counts
    if best is None:
        return dict(shrunk) if shrunk != dict(now) else dict(grown)
    return best[1]


def _part(change: int, share: float) -> int:
    return int(change * share + (1e-9 if change > 0 else -1e-9))


def _outstanding(present: Mapping[str, Present], chosen: Mapping[str, int], target: Mapping[str, int]) -> str:
    parts = []
    for name in sorted(target):
        state, count = present[name], chosen[name]
        leaving = state.pods - count
        if count < target[name]:
            parts.append(f"{name}: {count} of {target[name]} asked for, the rest waits for free devices")
        elif leaving > 0:
            parts.append(f"{name}: {leaving} pods are still to go")
        elif state.ready < count:
            parts.append(f"{name}: {state.ready} of {count} are ready")
    return "; ".join(parts)
