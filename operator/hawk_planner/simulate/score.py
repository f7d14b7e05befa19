"""The score of a run: attainment, cost, energy, and how often it changed its mind."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from hawk_api.v1alpha1.enums import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hawk_planner.perf.objectives import LatencyObjective
    from hawk_planner.simulate.engine import SimulationResult
    from hawk_planner.simulate.traces import Trace
    from hawk_planner.sizing import Problem, SizedGroup

IDLE_POWER = 0.3
"""Share of its full power that an idle device takes: an assumption, typical of servers."""


@dataclass(frozen=True)
class Score:
    """One policy on one stretch of a trace. Shares are of all its requests."""

    policy: str
    requests: int
    slo_attainment: float
    """Share that met TTFT and ITL."""
    ttft_attainment: float
    itl_attainment: float
    attainable: float
    """Share that would meet both on idle workers."""
    goodput_per_second: float
    """Requests a second that met both."""
    cost_usd: float
    energy_kwh: float | None
    direction_changes: int
    """Times that a group's replicas turned from growing to shrinking or the reverse."""
    replica_hours: dict[str, float]
    ttft_p50_seconds: float
    ttft_p95_seconds: float
    ttft_p99_seconds: float
    settings: dict[str, float | str] = field(default_factory=dict)
    """The choice of a sweep."""
    timeline: tuple[tuple[float, dict[str, int], dict[str, int]], ...] = ()

    @property
    def of_attainable(self) -> float:
        """Attainment as a share of what is attainable."""
        return self.slo_attainment / self.attainable if self.attainable else 1.0

    def plain(self) -> dict[str, Any]:
        """As JSON takes it; `of_plain` reverses it."""
        return asdict(self)

    @classmethod
    def of_plain(cls, plain: dict[str, Any]) -> Score:
        """The score that `plain` made this of."""
        steps = tuple((when, wanted, ready) for when, wanted, ready in plain["timeline"])
        return cls(**{**plain, "timeline": steps})


def prompt_groups(problem: Problem) -> tuple[SizedGroup, ...]:
    """The groups whose prefill the objective is measured by: dedicated ones, else those of role Both."""
    return problem.side(Role.PREFILL) or problem.side(Role.BOTH)


def ttft_target(objective: LatencyObjective | None, alone: float) -> float:
    """The TTFT that a prompt must stay within, given the time of its prefill alone."""
    return math.inf if objective is None else objective.limit(alone)


def score_result(
    trace: Trace, problem: Problem, outcome: SimulationResult, name: str, span: tuple[float, float]
) -> Score:
    """Judge the requests that arrive within `span` (seconds), and the cost of that time."""
    start, end = span
    model = problem.model
    assert model is not None
    fastest = [group.worker for group in prompt_groups(problem)]
    decoders = [group.worker for group in problem.groups if group.role is not Role.PREFILL]
    itl = math.inf if problem.itl is None else problem.itl.target
    alone_s: dict[int, float] = {}
    met = first = steady = attainable = 0
    times = []
    for request, ttft, gap in zip(trace.requests, outcome.ttft_s, outcome.itl_s, strict=True):
        if not start <= request.arrival < end:
            continue
        if request.prompt not in alone_s:
            alone_s[request.prompt] = min(w.prefill_seconds(model, request.prompt) for w in fastest)
        alone = alone_s[request.prompt]
        target = ttft_target(problem.ttft, alone) * (1 + 1e-9)
        in_time, smooth = ttft <= target, gap <= itl
        step = min(w.step_seconds(model, 1, request.prompt + request.output) for w in decoders)
        attainable += alone <= target and (request.output <= 1 or step <= itl)
        first += in_time
        steady += smooth
        met += in_time and smooth
        times.append(ttft)
    times.sort()
    number = max(1, len(times))
    groups = {group.name: group for group in problem.groups}
    hours = dict.fromkeys(groups, 0.0)
    energy: float | None = 0.0
    for worker in outcome.spans:
        lived = worker.within(start, end)
        hours[worker.group] += lived / 3600.0
        watts = groups[worker.group].watts
        if watts is None or energy is None:
            energy = None
            continue
        whole = max(1e-9, worker.end - worker.start)
        use = min(1.0, worker.busy_s / whole)
        energy += lived * watts * (use + IDLE_POWER * (1.0 - use)) / 3.6e6
    stretch = end - start if math.isfinite(end) else outcome.end - start
    return Score(
        policy=name,
        requests=len(times),
        slo_attainment=met / number,
        ttft_attainment=first / number,
        itl_attainment=steady / number,
        attainable=attainable / number,
        goodput_per_second=met / max(stretch, 1e-9),
        cost_usd=sum(hours[name] * (group.cost_per_hour or 0.0) for name, group in groups.items()),
        energy_kwh=energy,
        direction_changes=direction_changes(
            [wanted for when, wanted, _ in outcome.timeline if start <= when < end]
        ),
        replica_hours=hours,
        ttft_p50_seconds=_quantile(times, 0.50),
        ttft_p95_seconds=_quantile(times, 0.95),
        ttft_p99_seconds=_quantile(times, 0.99),
        timeline=tuple(step for step in outcome.timeline if start <= step[0] < end),
    )


def direction_changes(wanted: Sequence[dict[str, int]]) -> int:
    """How often the replicas of a group turn from growing to shrinking or back, over all groups."""
    turns = 0
    for name in wanted[0] if wanted else ():
        direction = 0
        for before, after in itertools.pairwise(wanted):
            step = after[name] - before[name]
            if step:
                turn = 1 if step > 0 else -1
                turns += direction == -turn
                direction = turn
    return turns


def _quantile(ordered: Sequence[float], q: float) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(q * len(ordered)) - 1)] if ordered else math.nan
