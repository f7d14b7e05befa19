"""From traffic to replicas: pure, explained, and within the limits. The operator's entry is `sizing.api`.

What is named here is loaded when it is asked for: the planner on a command line takes the roofline and the
queues of this package, and would wait for numpy and the whole decision.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hawk_planner.sizing.decide import plan_replicas
    from hawk_planner.sizing.decision import Decision
    from hawk_planner.sizing.history import History
    from hawk_planner.sizing.problem import GroupObservation, Problem, SizedGroup
    from hawk_planner.sizing.steps import Present, Step, next_step
    from hawk_planner.sizing.worker import Worker

__all__ = [
    "Decision",
    "GroupObservation",
    "History",
    "Present",
    "Problem",
    "SizedGroup",
    "Step",
    "Worker",
    "next_step",
    "plan_replicas",
]

_HOMES = {
    "Decision": "decision",
    "SizedGroup": "problem",
    "GroupObservation": "problem",
    "History": "history",
    "Present": "steps",
    "Problem": "problem",
    "Step": "steps",
    "Worker": "worker",
    "next_step": "steps",
    "plan_replicas": "decide",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
