"""The traffic of a running pool, from the inputs that its last decision records."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from . import checks
from .assumptions import Given

if TYPE_CHECKING:
    from hawk_api.v1alpha1 import HawkPoolStatus

__all__ = ["given_by_status"]

NEEDED = {
    "requestRate": "requests a second",
    "promptTokensMean": "prompt tokens",
    "outputTokensMean": "output tokens",
}


def given_by_status(status: HawkPoolStatus, rails: int = 1) -> Given:
    """Return the newest decision's inputs as a plan's; MissingInputError names what none of them has.

    A transfer's measured rate is that of its `rails` together; a plan's link is one of them.
    """
    for decision in status.decisions:
        inputs = {name: _number(text) for name, text in decision.inputs.items()}
        if all(inputs.get(name) for name in NEEDED):
            return Given(
                requests_per_second=inputs["requestRate"],
                prompt_tokens=max(1, round(inputs["promptTokensMean"] or 0)),
                output_tokens=max(1, round(inputs["outputTokensMean"] or 0)),
                dispersion=inputs.get("dispersion"),
                link_bytes_per_second=_rail(inputs.get("transferBytesPerSecond"), rails),
                source=f"measured by the pool, decision of {decision.time:%Y-%m-%d %H:%M:%S} UTC",
            )
    named = ", ".join(NEEDED.values())
    raise checks.MissingInputError(
        "status.decisions",
        f"none of the {len(status.decisions)} kept decisions has {named} above 0",
        "set spec.traffic and wait for requests, or give them as options",
    )


def _rail(rate: float | None, rails: int) -> float | None:
    return rate / rails if rate else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
