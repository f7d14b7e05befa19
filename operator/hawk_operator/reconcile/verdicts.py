"""A decision and its execution, summed up as one verdict. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hawk_api.labels import PAUSED
from hawk_api.reasons import Reason
from hawk_api.v1alpha1 import ScalingMode
from hawk_operator.status.facts import Judgement

if TYPE_CHECKING:
    from hawk_api.v1alpha1 import HawkPool
    from hawk_operator.reconcile.act import ActionResult
    from hawk_operator.reconcile.plan import Plan
    from hawk_planner.sizing import Decision

_NUMBER: Final = re.compile(r"\d[\d.,]*")
_NO_DECISION: Final = frozenset({Reason.METRICS_LOST, Reason.NOT_ENOUGH_KNOWN})


def is_paused(pool: HawkPool) -> bool:
    """True if the pool's annotation asks to change nothing."""
    return (pool.metadata.annotations or {}).get(PAUSED, "").lower() == "true"


def schema_verdict(lacks: tuple[str, ...]) -> Judgement | None:
    """The condition Scaling while the served CRD lacks limits: None when it lacks nothing."""
    if not lacks:
        return None
    names = ", ".join(lacks[:5])
    return Judgement(False, Reason.SCHEMA_OUTDATED, f"nothing grows: the served HawkPool lacks {names}")


def current_message(said: str, decision: Decision | None) -> str:
    """The message on record as long as the present decision's differs from it in numbers alone.

    So the numbers in it don't change the status with every reconcile, and no sentence outlives its truth.
    """
    if decision is None or _NUMBER.sub("#", said) == _NUMBER.sub("#", decision.message):
        return said
    return decision.message


def scaling_verdict(
    pool: HawkPool, decision: Decision | None, said: str, plan: Plan | None, outcome: ActionResult | None
) -> Judgement:
    """The condition Scaling: True while decisions are made and carried out.

    `said` is the decision's message, as `current_message` gives it.
    """
    if is_paused(pool):
        return Judgement(False, Reason.PAUSED)
    failed = _failed(outcome) if outcome is not None else None
    if failed is not None:
        return failed
    if pool.spec.scaling.mode is ScalingMode.OFF:
        return Judgement(False, Reason.SCALING_OFF)
    if decision is None:
        return Judgement(None, Reason.NOT_OBSERVED, "no decision was made yet")
    if pool.spec.scaling.mode is ScalingMode.ADVISE:
        return Judgement(False, Reason.ADVISE_ONLY, f"advice: {said}")
    carried_out = decision.reason not in _NO_DECISION
    waits = f"; {plan.waits}" if plan is not None and plan.waits else ""
    return Judgement(carried_out, decision.reason, f"{said}{waits}")


def _failed(outcome: ActionResult) -> Judgement | None:
    """The writes that failed: refused for good, or outstanding and tried again."""
    if outcome.troubles:
        name, (_, message) = next(iter(outcome.troubles.items()))
        return Judgement(False, Reason.SCALING_FAILED, f"{name}: {message}")
    if outcome.outstanding:
        name, message = next(iter(outcome.outstanding.items()))
        reason = Reason.ONE_LEG_OUTSTANDING if outcome.scaled else Reason.SCALING_FAILED
        return Judgement(False, reason, f"{name} is outstanding: {message}")
    return None
