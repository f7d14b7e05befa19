"""What would turn the verdict: the nearest value of one input at which it changes.

The search walks outwards from the present value by steps of a quarter, up to sixty-four times either way,
and halves the last step; other inputs stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from . import checks
from .colocated import colocated
from .plan import Verdict, judge
from .split import split
from .ways import whole_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from .scenario import Device, Part, Scenario

__all__ = ["Turn", "pays", "turning_points", "turns"]

STEP = 1.5
FURTHEST = 64.0
HALVINGS = 6


@dataclass(frozen=True)
class Turn:
    """One input and the nearest values at which the verdict changes; None where it never does."""

    name: str
    unit: str
    present: float
    below: float | None
    above: float | None


def pays(scenario: Scenario) -> bool:
    """Return whether the declared split costs less than the best colocation, both meeting the objectives."""
    found = [split(scenario), *(colocated(scenario, part) for part in whole_parts(scenario))]
    return judge(found).verdict is Verdict.PAYS


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
            if at(tried) != now:
                return _between(near, tried, at, now, whole)
            near, far = tried, far * factor
        return None

    return search(1 / STEP), search(STEP)


def _between(near: float, far: float, at: Callable[[float], bool], now: bool, whole: bool) -> float:
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        if whole:
            middle = float(round(middle))
        if middle in (near, far):
            break
        if at(middle) == now:
            near = middle
        else:
            far = middle
    return far


def turning_points(scenario: Scenario) -> list[Turn]:
    """Return what would turn the verdict on the declared split: link, price, prompt and output length."""

    def link(value: float) -> bool:
        return _pays(scenario.at(bytes_per_second=value))

    def prompt(value: float) -> bool:
        return _pays(scenario.at(prompt_tokens=int(value)))

    def output(value: float) -> bool:
        return _pays(scenario.at(output_tokens=int(value)))

    def price(value: float) -> bool:
        return _pays(replace(scenario, decode=_priced(scenario.decode, value)))

    workload = scenario.workload
    found = [
        Turn("link", "bytes/s", scenario.link.bytes_per_second, *turns(scenario.link.bytes_per_second, link)),
        Turn(
            "prompt",
            "tokens",
            float(workload.prompt_tokens),
            *turns(workload.prompt_tokens, prompt, whole=True),
        ),
        Turn(
            "output",
            "tokens",
            float(workload.output_tokens),
            *turns(workload.output_tokens, output, whole=True),
        ),
    ]
    device = scenario.decode.replica.device
    hourly = device.usd_per_hour(scenario.tariff)
    if hourly and device.name != scenario.prefill.replica.device.name:
        found.append(Turn(f"price of {device.name}", "USD/h", hourly, *turns(hourly, price)))
    return found


def _pays(scenario: Scenario) -> bool:
    try:
        return pays(scenario)
    except checks.MissingInputError:
        return False


def _priced(part: Part, usd_per_hour: float) -> Part:
    device: Device = replace(part.replica.device, price_per_hour_usd=usd_per_hour)
    return replace(part, replica=replace(part.replica, device=device))
