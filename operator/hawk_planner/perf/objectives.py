"""Objectives of latency, as sizing, plans and simulation hold them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.scaling import TtftObjective

if TYPE_CHECKING:
    from hawk_api.v1alpha1.scaling import Objective as ObjectiveSpec

__all__ = ["LatencyObjective", "objective_of"]


@dataclass(frozen=True)
class LatencyObjective:
    """A share of the requests (0 to 1) that stays within `target` seconds.

    With `stretch` a prompt may also take so many times the time of its own prefill, where that is longer.
    """

    share: float
    target: float
    stretch: float = 0.0

    def limit(self, alone: float) -> float:
        """Seconds until the first token of a prompt whose prefill alone takes `alone` seconds."""
        return max(self.target, self.stretch * alone)


def objective_of(spec: ObjectiveSpec | None) -> LatencyObjective | None:
    """Read it from a pool; None where the pool has none."""
    if spec is None:
        return None
    stretch = spec.stretch if isinstance(spec, TtftObjective) else None
    return LatencyObjective(spec.percentile / 100.0, spec.target, float(stretch or 0.0))
