"""One traffic, all policies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import Role
from hawk_planner.simulate.baselines import dynamo
from hawk_planner.simulate.course import BinnedLoad, Course
from hawk_planner.simulate.engine import ClusterSettings
from hawk_planner.simulate.hindsight import GOOD, oracle_curve, static_best
from hawk_planner.simulate.policies import fixed
from hawk_planner.simulate.run import HINDSIGHT, Arena, family
from hawk_planner.simulate.sample import sample_problem
from tests.bench.policies.results import LENDS, OURS, Result, Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hawk_api.v1alpha1.enums import QueueOrder
    from hawk_planner.simulate.cache import Store
    from hawk_planner.simulate.run import Tell
    from hawk_planner.simulate.score import Score
    from hawk_planner.simulate.traces import Trace

POLICIES = (
    "hawk",
    "hpa",
    "hpa-queue",
    "keda",
    "llm-d",
    "aibrix",
    "dynamo",
    "fixed:1:1",
    "fixed:1:2",
    "fixed:1:4",
    "static-best",
    "oracle",
)
GENEROSITIES = (0.25, 0.5, 0.75, 1.5)
"""Besides 1: the other points of each policy's curve."""
DRAWN = ("hawk", "oracle")
"""Whose course is drawn, besides that of the cheapest baseline."""


def measure(
    trace: Trace,
    order: QueueOrder,
    *,
    store: Store,
    tell: Tell | None = None,
    policies: Sequence[str] = POLICIES,
    curves: bool = True,
) -> Result:
    """Score policies, ours among them; unless `curves` is false also around their settings, and the
    clairvoyant.
    """
    problem = replace(sample_problem(), queue_order=order)
    arena = Arena.of(trace, problem, ClusterSettings(order=order), store=store, tell=tell).begun
    found: dict[str, list[Score]] = {}
    with dynamo.Host() as host:
        for name in policies:
            if curves or name != "oracle":
                found[name] = list(_scores(arena, name, host, curves=curves))
            if curves and name == "hawk":
                found[LENDS] = [_lent(arena, host)]
    first = {name: scores[0] for name, scores in found.items() if scores}
    drawn = [first[name] for name in (*DRAWN, *_cheapest(list(first.values()))) if name in first]
    return Result(
        traffic=trace.name.partition(".")[0].partition(":")[0],
        order=order,
        requests=len(trace.requests),
        seconds=round(trace.seconds, 1),
        scored_s=round(trace.seconds - arena.tuning_s, 1),
        attainable=round(first["hawk"].attainable, 5),
        load=BinnedLoad.of(trace),
        rows=tuple(Row.of(score) for score in first.values()),
        courses=tuple(Course.of(score, problem) for score in drawn) if curves else (),
        curves={
            name: tuple((round(s.cost_usd, 3), round(s.of_attainable, 5)) for s in scores)
            for name, scores in found.items()
            if curves
        },
    )


def _lent(arena: Arena, host: dynamo.Host) -> Score:
    """Our decision where decode workers take prompts that would be late elsewhere."""
    groups = arena.problem.groups
    lent = (replace(group, role=Role.BOTH) if group.role is Role.DECODE else group for group in groups)
    arena = replace(arena, problem=replace(arena.problem, groups=tuple(lent)))
    made, _ = family(arena, "hawk", host)
    return replace(arena.judge(made(1.0)), policy=LENDS)


def _scores(arena: Arena, name: str, host: dynamo.Host, *, curves: bool) -> Iterator[Score]:
    """A policy's score, and then those of its other settings."""
    if name == "oracle":
        yield from _clairvoyant(arena)
    elif name == "static-best":
        schedule, best = static_best(arena.problem, arena.judge)
        yield best
        for more in _around(schedule.steps[0][1]) if curves else ():
            yield arena.judge(fixed(more, name))
    else:
        made, settings = family(arena, name, host)
        yield replace(arena.judge(made(1.0)), settings=settings)
        for generosity in GENEROSITIES if curves else ():
            yield arena.judge(made(generosity))


def _clairvoyant(arena: Arena) -> Iterator[Score]:
    curve = [s for _, s in oracle_curve(arena.trace, arena.problem, arena.settings, arena.judge)]
    good = [s for s in curve if s.of_attainable >= GOOD]
    if good:
        yield min(good, key=lambda s: s.cost_usd)
    yield from sorted(curve, key=lambda s: s.of_attainable, reverse=True)


def _around(replicas: dict[str, int]) -> Iterator[dict[str, int]]:
    """One worker fewer and more on each side."""
    for name, count in replicas.items():
        for other in (count - 1, count + 1):
            if other:
                yield {**replicas, name: other}


def _cheapest(scores: Sequence[Score]) -> list[str]:
    """The name of the cheapest baseline that meets the objectives and doesn't know the trace."""
    baselines = [s for s in scores if s.policy not in {*OURS, *HINDSIGHT} and s.of_attainable >= GOOD]
    return [min(baselines, key=lambda s: s.cost_usd).policy] if baselines else []
