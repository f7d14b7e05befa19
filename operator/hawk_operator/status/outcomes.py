"""Outcomes of the decisions in a pool's history, beside their predictions. Pure.

The newest decision gets its outcome twice: when its replicas have been ready for a whole window, so that
what is measured is due to it, and when the next decision takes its place. In between the numbers stay: a
status that moves with every measurement would be written for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hawk_planner.sizing.decision import text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hawk_api.v1alpha1.scaling import Objective
    from hawk_api.v1alpha1.status import DecisionRecord
    from hawk_operator.status.facts import Facts
    from hawk_planner.traffic import Distribution, Signal, Window

_DEFAULT_SHARE: Final = 0.95
CARRIED_OUT: Final = "readyAfterSeconds"
NEVER_READY: Final = "never: another decision came first"


def scaling_followed(
    before: tuple[DecisionRecord, ...], records: tuple[DecisionRecord, ...], facts: Facts, now: datetime
) -> tuple[DecisionRecord, ...]:
    """`records`, newest first, with what is known of their outcomes; `before` is the history as it was."""
    if not records:
        return records
    newest, rest = records[0], records[1:]
    if rest and before and rest[0].time == before[0].time:
        rest = (_closed(rest[0], facts), *rest[1:])  # the newest of before was just replaced
    return (_settled(newest, facts, now), *rest)


def measured(facts: Facts) -> dict[str, float]:
    """The window's figures, under the names of the predictions: seconds, requests/s."""
    window, objectives = facts.window, facts.pool.spec.objectives
    if window is None:
        return {}
    found = {
        "ttftSeconds": _quantile(window.prefill.ttft, objectives.ttft),
        "itlSeconds": _quantile(window.decode.itl, objectives.itl),
        "requestRate": window.arrivals.get() if window.arrivals.known else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _closed(record: DecisionRecord, facts: Facts) -> DecisionRecord:
    """The outcome of a decision at its end: the traffic of the last window was served by it."""
    if CARRIED_OUT not in record.observed:
        return record.model_copy(update={"observed": {CARRIED_OUT: NEVER_READY}})
    return _with(record, {**record.observed, **_texts(measured(facts))})


def _settled(record: DecisionRecord, facts: Facts, now: datetime) -> DecisionRecord:
    """The newest decision: since when it is carried out, and once, a window later, what is measured."""
    observed = dict(record.observed)
    age = (now - record.time).total_seconds()
    if CARRIED_OUT not in observed:
        if not _carried_out(record, facts):
            return record
        observed[CARRIED_OUT] = text(round(age))
    if len(observed) == 1 and facts.window is not None and age >= _due(observed, facts.window):
        observed |= _texts(measured(facts))
    return _with(record, observed)


def _due(observed: Mapping[str, str], window: Window) -> float:
    """Seconds after a decision when a whole window was served by it."""
    return float(observed[CARRIED_OUT]) + window.seconds


def _carried_out(record: DecisionRecord, facts: Facts) -> bool:
    """True if every group has what was decided for it: no more, no less, and ready."""
    wanted: Mapping[str, int] = record.replicas
    return bool(wanted) and all(
        len(group.pods.active) == group.pods.ready == wanted.get(group.name, group.pods.ready)
        for group in facts.groups
    )


def _with(record: DecisionRecord, observed: Mapping[str, str]) -> DecisionRecord:
    return record.model_copy(update={"observed": dict(observed)})


def _quantile(signal: Signal[Distribution], objective: Objective | None) -> float | None:
    if not signal.known:
        return None
    return signal.get().quantile(objective.percentile / 100 if objective else _DEFAULT_SHARE)


def _texts(values: Mapping[str, float]) -> dict[str, str]:
    return {name: text(value) for name, value in values.items()}
