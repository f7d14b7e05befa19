"""From traffic to replicas: pure, explained, and within the limits."""

from hawk_operator.sizing.api import decide
from hawk_operator.sizing.decide import plan
from hawk_operator.sizing.decision import Decision
from hawk_operator.sizing.history import History
from hawk_operator.sizing.problem import Group, GroupObservation, Objective, Problem
from hawk_operator.sizing.roofline import ModelWork, Worker
from hawk_operator.sizing.steps import Present, Step, next_step

__all__ = [
    "Decision",
    "Group",
    "GroupObservation",
    "History",
    "ModelWork",
    "Objective",
    "Present",
    "Problem",
    "Step",
    "Worker",
    "decide",
    "next_step",
    "plan",
]
