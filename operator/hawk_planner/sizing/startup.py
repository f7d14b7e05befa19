"""Ratios that don't come from the load: rules of thumb before there is traffic, and a forced one."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import Role
from hawk_api.v1alpha1.scaling import DEFAULT_RATIO_CHAT, DEFAULT_RATIO_LONG_PROMPTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hawk_planner.sizing.problem import Problem, SizedGroup
    from hawk_planner.traffic import Window

LONG_PROMPT = 8000
SHORT_OUTPUT = 500


def thumb(problem: Problem, window: Window | None) -> Fraction:
    """The ratio before traffic is known: the spec's, else by the lengths if any were seen."""
    if problem.startup_ratio is not None:
        return problem.startup_ratio
    if window is not None and window.prefill.prompt.known and window.decode.output.known:
        long = window.prefill.prompt.get().mean > LONG_PROMPT
        if long and window.decode.output.get().mean < SHORT_OUTPUT:
            return DEFAULT_RATIO_LONG_PROMPTS
    return DEFAULT_RATIO_CHAT


def at_ratio(problem: Problem, ratio: Fraction, least: Mapping[str, int]) -> dict[str, int]:
    """The fewest replicas at exactly `ratio` that cover `least`; the most that fit where none does.

    A group's maximum limits; the budget is applied later (see `allocate.fit`). Without groups of both
    roles the ratio has no meaning, and the answer is `least`.
    """
    prefill, decode = problem.side(Role.PREFILL), problem.side(Role.DECODE)
    counts = {g.name: max(g.least, min(least.get(g.name, 0), g.most)) for g in problem.groups}
    if not prefill or not decode:
        return counts
    covered = max(
        math.ceil(Fraction(sum(counts[g.name] for g in prefill), ratio.numerator)),
        math.ceil(Fraction(sum(counts[g.name] for g in decode), ratio.denominator)),
        1,
    )
    possible = min(
        sum(g.most for g in prefill) // ratio.numerator,
        sum(g.most for g in decode) // ratio.denominator,
    )
    times = max(1, min(covered, possible))
    while times > 1 and not _affordable(problem, times * ratio.numerator, times * ratio.denominator):
        times -= 1
    _spread(prefill, counts, times * ratio.numerator)
    _spread(decode, counts, times * ratio.denominator)
    return counts


def _affordable(problem: Problem, prefill: int, decode: int) -> bool:
    """True if so many replicas, in the smallest groups, can be within the budget of devices."""
    if problem.budget_devices is None:
        return True
    small = [min(g.devices for g in problem.side(role)) for role in (Role.PREFILL, Role.DECODE)]
    return prefill * small[0] + decode * small[1] <= problem.budget_devices


def _spread(groups: Sequence[SizedGroup], counts: dict[str, int], total: int) -> None:
    """Give one side `total` replicas in all, within each group's bounds, the first groups first."""
    for group in groups:
        counts[group.name] = group.least
    left = total - sum(g.least for g in groups)
    for group in groups:
        more = max(0, min(left, group.most - group.least))
        counts[group.name] += more
        left -= more
