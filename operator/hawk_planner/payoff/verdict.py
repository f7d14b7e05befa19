"""The condition PaysOff of a pool: its declared split against serving whole, on its present traffic.

True and False hold at the middle of the inputs' ranges; the message says where an end would turn them.
Unknown names what is missing. A link that wasn't measured is not assumed: the verdict is then the one
that holds for any link, or Unknown with the rate from which the split would pay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from hawk_api.reasons import Reason

from . import checks
from .assumptions import Given
from .candidate import Candidate, Feasibility, ServingMode
from .plan import corners
from .question import Question, build_question
from .split import split
from .turning import best_whole, turns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.models import Geometry
    from hawk_api.v1alpha1 import AcceleratorClassSpec, HawkPoolSpec
    from hawk_planner.traffic import Window

    from .scenario import Scenario

__all__ = ["PaysOff", "condition", "given_by"]

ANY_LINK = 1e15
"""Bytes a second that no transfer is held up by."""


class PaysOff(NamedTuple):
    """A condition's status (None is Unknown), reason and message."""

    status: bool | None
    reason: Reason
    message: str


@dataclass(frozen=True)
class _Compared:
    apart: Candidate
    whole: Candidate

    @property
    def pays(self) -> bool | None:
        """True if the split is better; None when a price is missing."""
        meets = self.apart.standing is Feasibility.MEETS, self.whole.standing is Feasibility.MEETS
        if meets[0] != meets[1]:
            return meets[0]
        costs = self.apart.usd_per_million_tokens, self.whole.usd_per_million_tokens
        if costs[0] is None:
            return None if self.apart.pools else False
        if costs[1] is None:
            return None if self.whole.pools else True
        return costs[0] < costs[1]


def given_by(window: Window, link_bytes_per_second: float | None = None, *, rails: int = 1) -> Given:
    """Return a window's traffic as a plan's inputs; it must not be lost, its rate not zero.

    Without `link_bytes_per_second` (of one rail) the agents' measured transfers count, over `rails` rails.
    """
    if link_bytes_per_second is None and window.link.known:
        link_bytes_per_second = window.link.get() / rails
    return Given(
        requests_per_second=window.arrivals.get(),
        prompt_tokens=max(1, round(window.prefill.prompt.get().mean)),
        output_tokens=max(1, round(window.decode.output.get().mean)),
        dispersion=window.burstiness.value,
        link_bytes_per_second=link_bytes_per_second,
        source=f"measured over {window.seconds:g} s",
    )


def condition(
    spec: HawkPoolSpec,
    classes: Mapping[str, AcceleratorClassSpec],
    traffic: Window | Given | None,
    link_bytes_per_second: float | None = None,
    *,
    geometry: Geometry | None,
) -> PaysOff:
    """Return whether the pool's split pays on `traffic`; pure, never raises for what users write.

    `traffic` is a window of measured traffic or figures given; None where a pool observes none.
    `link_bytes_per_second` is the measured rate of one rail; without it the window's measured transfers
    count, and without these no rate is assumed.
    """
    lacking = _lacking(spec, traffic, geometry)
    if lacking is not None:
        return lacking
    assert geometry is not None
    assert traffic is not None
    given = traffic if isinstance(traffic, Given) else given_by(traffic, rails=spec.transfer.rails)
    rate = link_bytes_per_second or given.link_bytes_per_second
    link = Given(link_bytes_per_second=rate or ANY_LINK, source="measured end to end")
    try:
        question = build_question(
            spec, geometry, classes, replace(given, link_bytes_per_second=None), measured=link
        )
        return _decided(question) if rate else _for_any_link(question)
    except checks.MissingInputError as missing:
        return PaysOff(None, Reason.NOT_ENOUGH_KNOWN, str(missing))
    except checks.InputError as wrong:
        return PaysOff(None, Reason.INVALID_SPEC, str(wrong))


def _lacking(spec: HawkPoolSpec, traffic: Window | Given | None, geometry: Geometry | None) -> PaysOff | None:
    """Return the condition of a pool that can't be compared."""
    roles = {group.role for group in spec.groups}
    if len(roles) == 1:
        return PaysOff(None, Reason.NOT_NEEDED, f"every group has the role {roles.pop()}: nothing is split")
    missing = "model: its geometry isn't known" if geometry is None else _traffic_problem(traffic)
    return PaysOff(None, Reason.NOT_ENOUGH_KNOWN, missing) if missing else None


def _traffic_problem(traffic: Window | Given | None) -> str:
    if traffic is None:
        return "traffic: the pool observes none; set spec.traffic"
    if isinstance(traffic, Given):
        return ""
    lost = traffic.lost()
    if lost:
        return f"traffic: {lost}"
    return "" if traffic.arrivals.get() > 0 else "traffic: no requests arrive, so nothing can repay"


def _compare(scenario: Scenario) -> _Compared:
    none = Candidate(ServingMode.COLOCATED, "colocated", Feasibility.MISSES, "no class takes both roles")
    return _Compared(split(scenario), best_whole(scenario) or none)


def _decided(question: Question) -> PaysOff:
    compared = _compare(question.scenario)
    verdict = compared.pays
    if verdict is None:
        return PaysOff(None, Reason.NOT_ENOUGH_KNOWN, _prices_missing(compared))
    others = {_compare(scenario).pays for scenario in corners(question)}
    text = _describe(question.scenario, compared)
    if others - {verdict}:
        text += "; at an end of the assumed efficiencies the verdict is the opposite (see hawk plan)"
    return PaysOff(verdict, Reason.PAYS_OFF if verdict else Reason.DOES_NOT_PAY_OFF, text)


def _for_any_link(question: Question) -> PaysOff:
    compared = _compare(question.scenario)
    if compared.pays is False:
        text = _describe(question.scenario, compared)
        return PaysOff(False, Reason.DOES_NOT_PAY_OFF, f"{text}; no link would change that")
    if compared.pays is None:
        return PaysOff(None, Reason.NOT_ENOUGH_KNOWN, _prices_missing(compared))
    slowest, _ = turns(
        400e9 / 8, lambda rate: bool(_compare(question.scenario.at(bytes_per_second=rate)).pays)
    )
    known = f"; at 400 Gb/s the verdict turns at {slowest * 8 / 1e9:.0f} Gb/s" if slowest else ""
    return PaysOff(None, Reason.NOT_ENOUGH_KNOWN, f"link: its rate was never measured{known}")


def _prices_missing(compared: _Compared) -> str:
    unpriced = compared.apart if compared.apart.usd_per_million_tokens is None else compared.whole
    return (
        f"price: that of {unpriced.unpriced} isn't known; give price and power, or pricePerHour, in the class"
    )


def _path(scenario: Scenario) -> str:
    rate = scenario.link.bytes_per_second
    return "" if rate >= ANY_LINK else f" over {scenario.link.rails} x {rate * 8 / 1e9:.3g} Gb/s measured"


def _describe(scenario: Scenario, compared: _Compared) -> str:
    workload = scenario.workload

    def one(candidate: Candidate) -> str:
        cost = candidate.usd_per_million_tokens
        figure = "no figure" if cost is None else f"{cost:.2f} USD a million tokens"
        return f"{figure}, {candidate.problem or 'meets the objectives'}"

    return (
        f"at {workload.requests_per_second:.3g} requests/s of {workload.prompt_tokens} + "
        f"{workload.output_tokens} tokens{_path(scenario)}: split {one(compared.apart)}; "
        f"{compared.whole.title} {one(compared.whole)}"
    )
