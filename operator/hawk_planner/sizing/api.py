"""The decision for a HawkPool as the operator holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_planner.sizing.decide import Observed, plan_replicas
from hawk_planner.sizing.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.models.geometry import Geometry
    from hawk_api.v1alpha1.acceleratorclass import AcceleratorClassSpec
    from hawk_api.v1alpha1.hawkpool import HawkPool
    from hawk_planner.sizing.decision import Decision
    from hawk_planner.sizing.history import History
    from hawk_planner.traffic import Window


def decide_replicas(  # noqa: PLR0917 -- the six things that a decision is made from, in this order everywhere
    window: Window | None,
    pool: HawkPool,
    classes: Mapping[str, AcceleratorClassSpec],
    observed: Observed,
    history: History,
    now: float,
    *,
    geometry: Geometry | None,
    link_bytes_per_second: float | None = None,
) -> Decision:
    """Decide on the replicas of every group of a pool; pure.

    `window` is what `traffic.collect` gave, None for a pool without `spec.traffic`. `geometry` is the
    resolved model, None when it isn't known (the fallback holds then). `history` is kept by the caller:
    `history.add(decision)` after each decision. `now` is in seconds since the epoch.
    """
    problem = Problem.of(pool, classes, geometry, link_bytes_per_second)
    return plan_replicas(window, problem, observed, history, now)
