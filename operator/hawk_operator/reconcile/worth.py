"""The verdict on a pool's split, computed again only when something moved.

The words of the answer hold measured figures: renewed at each reconcile, they would have the status of every
pool with traffic written for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hawk_operator.status.facts import Judgement

if TYPE_CHECKING:
    from hawk_operator.reconcile.case import Case
    from hawk_planner.traffic import Window

NEAR: Final = 0.25
"""Traffic has not moved while every figure is within this share of the one that was judged."""


@dataclass(frozen=True)
class Judged:
    """A verdict and what it was made of."""

    verdict: Judgement
    asked: tuple[object, ...]
    """Everything but the traffic."""
    figures: tuple[float, ...]


def judge_split(case: Case, window: Window | None) -> Judgement:
    """The verdict on the pool's split: the former one while spec, classes and traffic are as they were."""
    from hawk_planner.payoff.verdict import condition  # noqa: PLC0415 - much arithmetic, for leaders only

    lost = window.lost() if window is not None else "no traffic"
    asked = (case.pool.metadata.generation, case.geometry, case.classes, lost)
    figures = _figures(window) if window is not None and not lost else ()
    kept = case.memory.worth
    if kept is None or kept.asked != asked or not _near(kept.figures, figures):
        found = condition(case.pool.spec, case.classes, window, geometry=case.geometry)
        kept = Judged(Judgement(found.status, found.reason, found.message), asked, figures)
        case.memory.worth = kept
    return kept.verdict


def _figures(window: Window) -> tuple[float, ...]:
    rate = window.arrivals.get()
    if rate <= 0:
        return (0.0,)
    lengths = (window.prefill.prompt.get().mean, window.decode.output.get().mean)
    spread = math.sqrt(
        max(0.0, window.burstiness.otherwise(0.0))
    )  # a variance, which chance moves twice as far
    return (rate, *lengths, spread, window.link.otherwise(0.0))


def _near(before: tuple[float, ...], now: tuple[float, ...]) -> bool:
    return len(before) == len(now) and all(
        abs(new - old) <= NEAR * old for old, new in zip(before, now, strict=True)
    )
