"""Workers for prompts: the cheapest mix of a pool's groups, on top of what decode needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hawk_api.v1alpha1.enums import Role
from hawk_planner.sizing.demand import OF_THE_ATTAINABLE
from hawk_planner.sizing.mix import Prompts, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_planner.sizing.demand import OfferedLoad
    from hawk_planner.sizing.needs import Needs
    from hawk_planner.sizing.problem import Problem, SizedGroup

_BUSIEST = 0.9
"""Share of a worker's compute that decoding may take before prompts on it are counted out."""


def stages_of(
    problem: Problem,
    needs: Needs,
    load: OfferedLoad,
    *,
    counts: Mapping[str, int],
    caps: Mapping[str, int],
    present: Mapping[str, int],
) -> list[Stage]:
    """The groups that prefill, in the router's order: dedicated ones, the slowest first, then lenders."""
    dedicated = bool(problem.side(Role.PREFILL))
    stages = []
    for group in problem.groups:
        if group.name not in needs.prefill:
            continue
        need = needs.prefill[group.name]
        service = np.array([seconds for seconds, _ in need.service])
        lends = dedicated and group.role is Role.BOTH
        if group.role is Role.BOTH:
            service = service / _left(problem, needs, load, group, counts.get(group.name, 0))
        stages.append(
            Stage(
                name=group.name,
                service=service,
                price=problem.price(group),
                least=counts.get(group.name, 0),
                most=max(counts.get(group.name, 0), caps.get(group.name, 0)),
                lends=lends,
                near=present.get(group.name, 0),
                link_replicas=0.0 if group.role is Role.BOTH else need.link_replicas,
            )
        )
    return sorted(stages, key=lambda stage: (stage.lends, -float(stage.service[0]), stage.name))


def _left(problem: Problem, needs: Needs, load: OfferedLoad, group: SizedGroup, workers: int) -> float:
    """Share of its compute that a worker of role Both has for prompts beside its batch."""
    need, model = needs.decode[group.name], problem.model
    others = sum(needs.decode[g.name].carries(g.least) for g in problem.side(Role.DECODE))
    rate = max(0.0, load.rate - others)
    if model is None or not workers or need.tokens <= 0 or need.step_s <= 0:
        return 1.0
    batch = rate * need.tokens * need.step_s / workers
    return max(1.0 - _BUSIEST, 1.0 - group.worker.busy_seconds(model, batch, need.context) / need.step_s)


def prompts_of(
    problem: Problem,
    needs: Needs,
    load: OfferedLoad,
    stages: list[Stage],
    rates: tuple[tuple[float, float], ...],
) -> Prompts:
    """The prompts of a load, with the share of them that must be in time."""
    objective = problem.ttft
    assert objective is not None
    need = needs.prefill[stages[0].name]
    weights = np.array([p for _, p in need.service])
    alone = np.min(
        [[s for s, _ in needs.prefill[stage.name].service] for stage in stages if not stage.lends], axis=0
    )
    targets = np.maximum(objective.target, objective.stretch * alone)
    attainable = float(weights[alone <= targets].sum())
    return Prompts(
        rates=np.array([rate for rate, _ in rates]),
        shares=np.array([share for _, share in rates]),
        weights=weights,
        targets=targets,
        share=min(objective.share, OF_THE_ATTAINABLE * attainable),
        dispersion=need.dispersion,
        wait_factor=need.wait_factor,
        order=problem.queue_order,
    )
