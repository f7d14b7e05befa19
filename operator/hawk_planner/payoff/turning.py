"""Turning points of the verdict on the declared split: the nearest value of one input at which it changes.

The search doubles or halves the present value, up to sixty-four times either way, then closes in.
Other inputs stay as they are; the split and the best colocation are planned again at each value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from . import checks
from .candidate import Candidate, Feasibility
from .colocated import cheapest_first, colocated
from .plan import Verdict, judge_ranking
from .split import split
from .ways import whole_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from .scenario import DeclaredGroup, Scenario

__all__ = ["Turn", "best_whole", "turning_points", "turns"]

STEP = 2.0
FURTHEST = 64.0
HALVINGS = 5


@dataclass(frozen=True)
class Turn:
    """One input and the nearest values at which the verdict changes; None where it never does."""

    name: str
    unit: str
    present: float
    below: float | None
    above: float | None


def turns(
    present: float, at: Callable[[float], bool], *, whole: bool = False
) -> tuple[float | None, float | None]:
    """Return the nearest values below and above `present` at which `at` differs from its present answer."""
    now = at(present)

    def search(factor: float) -> float | None:
        near = present
        far = near * factor
        while present / FURTHEST <= far <= present * FURTHEST:
            tried = max(1.0, round(far)) if whole else far
            try:
                if at(tried) != now:
                    return _between(near, tried, at, now, whole)
            except checks.MissingInputError:  # beyond what was measured
                return None
            near, far = tried, far * factor
        return None

    return search(1 / STEP), search(STEP)


def _between(near: float, far: float, at: Callable[[float], bool], now: bool, whole: bool) -> float:
    for _ in range(HALVINGS):
        middle = (near * far) ** 0.5
        if whole:
            middle = float(round(middle))
        if middle in (near, far):
            break
        if at(middle) == now:
            near = middle
        else:
            far = middle
    return far


def best_whole(scenario: Scenario) -> Candidate | None:
    """Return the best colocation on any of the declared devices; None when none takes both roles."""
    found = [colocated(scenario, part) for part in whole_parts(scenario)]
    return min(found, key=cheapest_first, default=None)


def turning_points(scenario: Scenario) -> list[Turn]:
    """Return what would turn the verdict: link, prompt, output, and the decode device's price."""
    try:
        now = best_whole(scenario)
    except checks.MissingInputError:
        return []

    def pays(trial: Scenario, whole: Callable[[], Candidate | None]) -> bool:
        apart = split(trial)
        if apart.standing is not Feasibility.MEETS:
            return False
        other = whole()
        return judge_ranking([apart, *([other] if other else [])]).verdict is Verdict.PAYS

    def against_new(trial: Scenario) -> bool:
        return pays(trial, lambda: best_whole(trial))

    def link(value: float) -> bool:
        return pays(scenario.at(bytes_per_second=value), lambda: now)

    def prompt(value: float) -> bool:
        return against_new(scenario.at(prompt_tokens=int(value)))

    def output(value: float) -> bool:
        return against_new(scenario.at(output_tokens=int(value)))

    def price(value: float) -> bool:
        return pays(replace(scenario, decode=_priced(scenario.decode, value)), lambda: now)

    workload, rate = scenario.workload, scenario.link.bytes_per_second
    lengths = float(workload.prompt_tokens), float(workload.output_tokens)
    found = [
        Turn("link", "bytes/s", rate, *turns(rate, link)),
        Turn("prompt", "tokens", lengths[0], *turns(lengths[0], prompt, whole=True)),
        Turn("output", "tokens", lengths[1], *turns(lengths[1], output, whole=True)),
    ]
    device = scenario.decode.replica.device
    hourly = device.usd_per_hour(scenario.tariff)
    if hourly and device.name not in {pool.device for pool in (now.pools if now else ())}:
        found.append(Turn(f"price of {device.name}", "USD/h", hourly, *turns(hourly, price)))
    return found


def _priced(part: DeclaredGroup, usd_per_hour: float) -> DeclaredGroup:
    device = replace(part.replica.device, price_per_hour_usd=usd_per_hour)
    return replace(part, replica=replace(part.replica, device=device))
