"""From needs to replicas: the cheapest groups first, then bounds, ratio and budget.

`size` answers what the load needs, `fit` what the limits leave of it. The budget is a hard cap: it wins
over ratio bounds, and over minima where these alone exceed it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hawk_api.v1alpha1.enums import Role

if TYPE_CHECKING:
    from hawk_planner.sizing.problem import Problem, SizedGroup

Counts = Mapping[str, int]


class Need(Protocol):
    """The replicas that a group needs for a rate of requests, and the rate that it carries."""

    @property
    def unit(self) -> float:
        """Requests/s of one replica at most."""

    def replicas(self, rate: float, most: int = ...) -> int:
        """Fewest replicas for a rate."""

    def carries(self, replicas: int) -> float:
        """Largest rate of so many replicas."""


@dataclass(frozen=True)
class Side:
    """One side of the pool: its needs by group (groups of role Both included), and its rate."""

    needs: Mapping[str, Need]
    rate: float


@dataclass(frozen=True)
class Fitted:
    """Replicas within all limits, and the limits that changed what was wanted."""

    replicas: dict[str, int]
    limits: tuple[str, ...] = ()


def size(problem: Problem, prefill: Side, decode: Side, caps: Counts) -> dict[str, int]:
    """Replicas that the load needs, each group between its minimum and its cap (a cap may be infinite)."""
    counts = {group.name: group.least for group in problem.groups}
    left: dict[Role, float] = {}
    for role, side in ((Role.PREFILL, prefill), (Role.DECODE, decode)):
        left[role] = _fill(problem.side(role), side, caps, counts)
    for group in _cheapest(problem.side(Role.BOTH), decode):
        wanted = sum(
            side.needs[group.name].replicas(left[role])
            for role, side in ((Role.PREFILL, prefill), (Role.DECODE, decode))
        )
        counts[group.name] = max(group.least, min(wanted, caps[group.name]))
        if wanted > counts[group.name]:
            share = counts[group.name] / wanted
            left = {role: rate * (1.0 - share) for role, rate in left.items()}
        else:
            left = dict.fromkeys(left, 0.0)
    return counts


def fill_decode(problem: Problem, decode: Side, caps: Counts) -> dict[str, int]:
    """Every group's minimum, and what decode needs on top."""
    counts = {group.name: group.least for group in problem.groups}
    left = _fill(problem.side(Role.DECODE), decode, caps, counts)
    _fill(problem.side(Role.BOTH), Side(decode.needs, left), caps, counts)
    return counts


def _fill(groups: Sequence[SizedGroup], side: Side, caps: Counts, counts: dict[str, int]) -> float:
    """Fill one role's groups, the cheapest first; returns the rate that is left over."""
    ordered = _cheapest(groups, side)
    for group in ordered:
        others = sum(side.needs[o.name].carries(counts[o.name]) for o in ordered if o is not group)
        left = max(0.0, side.rate - others)
        wanted = side.needs[group.name].replicas(left)
        counts[group.name] = max(group.least, min(wanted, caps[group.name]))
        if wanted <= counts[group.name]:
            return 0.0
    return max(0.0, side.rate - sum(side.needs[g.name].carries(counts[g.name]) for g in ordered))


def _cheapest(groups: Sequence[SizedGroup], side: Side) -> list[SizedGroup]:
    priced = all(group.cost_per_hour is not None for group in groups)

    def price(group: SizedGroup) -> tuple[float, str]:
        cost = (group.cost_per_hour or 0.0) if priced else float(max(1, group.devices))
        return cost / side.needs[group.name].unit, group.name

    return sorted(groups, key=price)


def fit_budget(problem: Problem, wanted: Counts, caps: Counts) -> Fitted:
    """Bring wanted replicas within caps, ratio bounds and budgets."""
    limits: list[str] = []
    counts = {}
    for group in problem.groups:
        low = min(group.least, caps[group.name])
        counts[group.name] = max(low, min(wanted[group.name], caps[group.name]))
        if wanted[group.name] > caps[group.name]:
            limits.append(f"{group.name}: at most {caps[group.name]}")
    if _bend_to_ratio(problem, counts, caps):
        limits.append("ratio")
    reference = {name: max(1, count, wanted[name]) for name, count in counts.items()}
    if _trim(problem, counts, reference, over_devices(problem), lambda group: group.devices):
        limits.append(f"budget of {problem.budget_devices} devices")
    unpriced = _drop_unpriced(problem, counts)
    money = over_money(problem)
    if _trim(problem, counts, reference, money, lambda group: group.usd_per_hour or 0.0) or unpriced:
        limits.append(f"budget of {problem.budget_usd_per_hour:g} USD an hour")
    return Fitted(counts, tuple(limits))


def totals(problem: Problem, counts: Counts) -> tuple[int, int]:
    """Prefill and decode replicas; those that do both count on both sides."""
    both = sum(counts[g.name] for g in problem.side(Role.BOTH))
    return tuple(  # type: ignore[return-value]
        sum(counts[g.name] for g in problem.side(role)) + both for role in (Role.PREFILL, Role.DECODE)
    )


def within_ratio(problem: Problem, counts: Counts) -> bool:
    """True if dedicated prefill to decode replicas are within the bounds (an empty side always is)."""
    prefill, decode = (sum(counts[g.name] for g in problem.side(r)) for r in (Role.PREFILL, Role.DECODE))
    if not prefill or not decode:
        return True
    low, high = problem.ratio_min, problem.ratio_max
    return (low is None or prefill >= low * decode) and (high is None or prefill <= high * decode)


def _bend_to_ratio(problem: Problem, counts: dict[str, int], caps: Counts) -> bool:
    """Add to the side that is short, as far as its caps go; then take from the other."""
    before = dict(counts)
    for short, long, bound in (
        (Role.DECODE, Role.PREFILL, None if problem.ratio_max is None else 1 / problem.ratio_max),
        (Role.PREFILL, Role.DECODE, problem.ratio_min),
    ):
        few, many = problem.side(short), problem.side(long)
        have, other = sum(counts[g.name] for g in few), sum(counts[g.name] for g in many)
        if bound is None or not few or not many or not other or have >= bound * other:
            continue
        _move(few, counts, math.ceil(bound * other) - have, caps)
        have = sum(counts[g.name] for g in few)
        floors = {g.name: g.least for g in many}
        _move(many, counts, min(0, math.floor(have / bound) - other), floors)
    return counts != before


def _move(groups: Sequence[SizedGroup], counts: dict[str, int], change: int, bounds: Counts) -> None:
    """Add (or take) `change` replicas over the groups in order, never past their bounds."""
    for group in groups:
        room = bounds[group.name] - counts[group.name]
        step = max(0, min(change, room)) if change > 0 else min(0, max(change, room))
        counts[group.name] += step
        change -= step


def over_devices(problem: Problem) -> Callable[[Counts], bool]:
    """True if counts exceed the budget of devices."""
    budget = problem.budget_devices
    return lambda counts: budget is not None and problem.devices(counts) > budget


def over_money(problem: Problem) -> Callable[[Counts], bool]:
    """True if counts exceed the budget of money; groups without a price count nothing."""
    budget = problem.budget_usd_per_hour

    def over(counts: Counts) -> bool:
        if budget is None:
            return False
        cost = sum(counts[g.name] * (g.usd_per_hour or 0.0) for g in problem.groups)
        return cost > budget * (1 + 1e-9)

    return over


def _drop_unpriced(problem: Problem, counts: dict[str, int]) -> bool:
    """Take groups without a price to their minima; True if that changed something.

    Money can't be saved on them, so they go before anything that has a price is taken away.
    """
    before = dict(counts)
    if problem.budget_usd_per_hour is not None:
        for group in problem.groups:
            if group.devices and group.usd_per_hour is None:
                counts[group.name] = min(counts[group.name], group.least)
    return counts != before


def _trim(
    problem: Problem,
    counts: dict[str, int],
    reference: Counts,
    over: Callable[[Counts], bool],
    price: Callable[[SizedGroup], float],
) -> bool:
    """Take away replicas that cost something one by one, always where the least of what is wanted is lost."""
    costly = [group for group in problem.groups if price(group) > 0]
    changed = False
    while over(counts):
        choices = [g for g in costly if counts[g.name] > g.least] or [g for g in costly if counts[g.name] > 0]
        if not choices:
            break
        best = max(choices, key=lambda g: _after(problem, counts, reference, g))
        counts[best.name] -= 1
        changed = True
    return changed


def _after(
    problem: Problem, counts: Counts, reference: Counts, group: SizedGroup
) -> tuple[bool, float, float, str]:
    """How good the pool is with one replica less of a group, best largest."""
    less = {**counts, group.name: counts[group.name] - 1}
    cover = [
        sum(less[g.name] for g in groups) / sum(reference[g.name] for g in groups)
        for role in (Role.PREFILL, Role.DECODE)
        if (groups := [g for g in problem.groups if g.role in (role, Role.BOTH)])
    ]
    return within_ratio(problem, less), min(cover), sum(cover), group.name
