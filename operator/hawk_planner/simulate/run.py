"""Run policies on a trace: baselines are tuned on its first part, and every policy is scored on the rest."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from hawk_api import ratio as ratios
from hawk_api.v1alpha1.enums import Role
from hawk_planner.simulate import policies
from hawk_planner.simulate.baselines import dynamo
from hawk_planner.simulate.cache import Store, code
from hawk_planner.simulate.engine import ClusterSettings, Policy, Simulation
from hawk_planner.simulate.hindsight import GOOD, oracle, static_best
from hawk_planner.simulate.policies import Hawk, Knobs, PerRole, Schedule, decode_side, fixed
from hawk_planner.simulate.score import Score, score_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

    from hawk_planner.simulate.traces import Trace
    from hawk_planner.sizing import Problem

_BASELINES: Mapping[str, tuple[Callable[[Knobs], dict[Role, policies.Measure]], policies.Rule]] = {
    "hpa": (policies.by_utilisation, policies.hpa),
    "hpa-queue": (policies.by_queue, policies.hpa),
    "keda": (policies.by_queue, policies.keda),
    "llm-d": (policies.by_utilisation, policies.llm_d),
    "aibrix": (policies.by_utilisation, policies.aibrix),
}
HINDSIGHT = ("static-best", "oracle")
"""Policies that know the whole trace."""
TUNING_S = 600.0
_USES = (0.3, 0.5, 0.7, 0.85)
_QUEUES = (0.5, 1.0, 2.0, 4.0)
_FILLS = (0.4, 0.6, 0.8, 1.0)
"""Sequences a decode replica that a rule aims at, as a share of the batch that ITL allows."""
_SIMULATED = (
    *(
        f"hawk_planner.simulate.{name}"
        for name in ("engine", "meter", "policies", "router", "score", "workers")
    ),
    *(f"hawk_planner.perf.{name}" for name in ("collectives", "experts", "rates", "steps", "work")),
    "hawk_planner.sizing.worker",
)
"""The code that says what a policy's decisions lead to."""

Tell = Callable[[str, int], None]
"""Called with a policy's name and the requests of its present run that have come; a new run begins at 0."""
Family = Callable[[float], Policy]
"""A policy as it was tuned (1), or more (above) or less generous with replicas."""
Tuned = tuple[Family, dict[str, float | str]]
"""A family, and the settings that tuning found for it."""


class UnknownPolicyError(ValueError):
    """There is no policy of that name."""


@dataclass(frozen=True)
class Arena:
    """A trace, a pool and a cluster on which policies are compared. `tuning_s` is the part for tuning.

    Runs that `store` knows aren't repeated; `tell` hears of those that are.
    """

    trace: Trace
    problem: Problem
    settings: ClusterSettings
    tuning_s: float
    store: Store | None = field(default=None, compare=False)
    tell: Tell | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls,
        trace: Trace,
        problem: Problem,
        settings: ClusterSettings,
        *,
        store: Store | None = None,
        tell: Tell | None = None,
    ) -> Arena:
        """Tune on the first ten minutes, or a quarter of a trace that is shorter than forty."""
        return cls(trace, problem, settings, min(TUNING_S, trace.seconds / 4.0), store, tell)

    @property
    def begun(self) -> Arena:
        """The arena with the start that all policies share: the best constant replicas of the first part."""
        if self.settings.initial:
            return self
        schedule, _ = static_best(self.problem, self.tune)
        return replace(self, settings=replace(self.settings, initial=schedule.steps[0][1]))

    def tune(self, policy: Policy) -> Score:
        """Score a policy on the first part."""
        return self._run(self._first, policy, (0.0, self.tuning_s), drain_s=60.0)

    def judge(self, policy: Policy) -> Score:
        """Score a policy on the rest, having run through the first part as well."""
        return self._run(self.trace, policy, (self.tuning_s, self.trace.seconds + 1e-6), drain_s=3600.0)

    @cached_property
    def _first(self) -> Trace:
        return self.trace.part(0.0, self.tuning_s)

    @cached_property
    def _digest(self) -> str:
        """The digest of everything that all runs here depend on, but for their settings and policies; of
        the pool, what is served and scored: the rest is for our decision, whose key has it.
        """
        served = self.problem.model, self.problem.groups, self.problem.ttft, self.problem.itl
        found = hashlib.sha256(f"{code(*_SIMULATED)} {served}".encode())
        for r in self.trace.requests:
            found.update(f"{r.arrival!r} {r.prompt} {r.output}\n".encode())
        return found.hexdigest()

    def _run(self, trace: Trace, policy: Policy, span: tuple[float, float], *, drain_s: float) -> Score:
        settings = replace(self.settings, drain_after_s=drain_s)
        if isinstance(policy, Schedule):
            settings = replace(settings, initial=policy.steps[0][1])
        key = "" if self.store is None else f"{self._digest} {span} {settings} {policy.key}"
        if self.store is not None and (kept := self.store.get(key)) is not None:
            return replace(Score.of_plain(kept), policy=policy.name)
        outcome = Simulation(trace, self.problem, policy, settings).run(self._telling(policy.name))
        found = score_result(trace, self.problem, outcome, policy.name, span)
        if self.store is not None:
            self.store.put(key, found.plain())
        return found

    def _telling(self, name: str) -> Callable[[int], None] | None:
        tell = self.tell
        if tell is None:
            return None
        tell(name, 0)
        return lambda come: tell(name, come)


def compare_policies(arena: Arena, names: Iterable[str]) -> list[Score]:
    """Score policies by name, in order; raises UnknownPolicyError. Deterministic."""
    wanted = list(names)
    for name in wanted:
        check_policy(name)
    arena = arena.begun
    with dynamo.Host() as host:
        return [run_policy(arena, name, host) for name in wanted]


def check_policy(name: str) -> None:
    """Refuse a name that no policy has; raises UnknownPolicyError."""
    if name.startswith("fixed:"):
        try:
            ratios.parse_ratio(name.removeprefix("fixed:"))
        except ValueError as error:
            raise UnknownPolicyError(
                f"{name!r} has no ratio of counts from 1 to 9999; write prefill:decode, such as fixed:1:2"
            ) from error
    elif name not in POLICIES:
        raise UnknownPolicyError(f"{name!r} is unknown; use fixed:A:B or one of {', '.join(POLICIES)}")


def run_policy(arena: Arena, name: str, host: dynamo.Host) -> Score:
    """Score one policy in an arena that has begun, tuned first if it is one that people tune."""
    if name == "static-best":
        return static_best(arena.problem, arena.judge)[1]
    if name == "oracle":
        return oracle(arena.trace, arena.problem, arena.settings, arena.judge)[1]
    made, settings = family(arena, name, host)
    return replace(arena.judge(made(1.0)), settings=settings)


def family(arena: Arena, name: str, host: dynamo.Host) -> Tuned:
    """A policy outside HINDSIGHT, tuned on the first part; its family around that, and its settings.

    A more generous baseline has lower targets and higher minima, a more generous fixed ratio more replicas,
    and our own decision a stricter objective.
    """
    if name.startswith("fixed:"):
        return _fixed(arena, name, ratios.parse_ratio(name.removeprefix("fixed:")))
    return _FAMILIES[name](arena, host)


def _ours(arena: Arena, _: dynamo.Host) -> Tuned:
    """The decision, which knows the start-up time as its accelerator class would say it."""
    groups = (replace(group, startup_s=arena.settings.startup_s) for group in arena.problem.groups)
    problem = replace(arena.problem, groups=tuple(groups))
    ttft = problem.ttft

    def made(generosity: float) -> Hawk:
        if ttft is None or generosity == 1.0:
            return Hawk(problem)
        share = 1.0 - (1.0 - ttft.share) / generosity
        return Hawk(replace(problem, ttft=replace(ttft, share=share)))

    return made, {}


def _fixed(arena: Arena, name: str, ratio: Fraction) -> Tuned:
    """A fixed ratio, as often as the first part needs."""
    prefill, decode = arena.problem.side(Role.PREFILL)[0].name, decode_side(arena.problem)[0].name

    def often(times: int) -> Schedule:
        return fixed({prefill: times * ratio.numerator, decode: times * ratio.denominator}, name)

    enough = (n for n in range(1, 40) if arena.tune(often(n)).of_attainable >= GOOD)
    times = next(enough, 40)
    return lambda generosity: often(max(1, round(times * generosity))), {"times": times}


def _tuned(name: str, arena: Arena, _: dynamo.Host) -> Tuned:
    """A baseline with the best knobs of the first part: each role's target and minimum, swept twice."""
    measure, rule = _BASELINES[name]
    uses = _USES if measure is policies.by_utilisation else _QUEUES
    batch = _batch(arena)
    fills = tuple(max(1.0, round(share * batch)) for share in _FILLS)
    start = arena.settings.initial
    least_p, least_d = (
        sorted({1, max(1, start[g.name] // 2), start[g.name]})
        for g in (arena.problem.side(Role.PREFILL)[0], decode_side(arena.problem)[0])
    )
    most = 2 * max(start.values()) + 4
    knobs = Knobs(uses[1], fills[1], 1, 1, most)

    def policy(turned: Knobs) -> PerRole:
        return PerRole(arena.problem, name, turned, measure=measure, rule=rule)

    @cache
    def tuned(turned: Knobs) -> tuple[float, float]:
        return _rank(arena.tune(policy(turned)))

    for _sweep in range(2):
        sides = (
            [{"prefill": a, "least_prefill": b} for a, b in itertools.product(uses, least_p)],
            [{"decode": a, "least_decode": b} for a, b in itertools.product(fills, least_d)],
        )
        for options in sides:
            tried = [replace(knobs, **option) for option in options]  # type: ignore[arg-type]
            knobs = min(tried, key=tuned)

    def made(generosity: float) -> PerRole:
        return policy(
            replace(
                knobs,
                prefill=knobs.prefill / generosity,
                decode=knobs.decode / generosity,
                least_prefill=math.ceil(knobs.least_prefill * generosity),
                least_decode=math.ceil(knobs.least_decode * generosity),
            )
        )

    return made, asdict(knobs)


def _dynamo(arena: Arena, host: dynamo.Host) -> Tuned:
    """Dynamo's planner with the best settings of the first part; its environment is made at the first use."""
    start = arena.settings.initial
    least_p, least_d = (
        sorted({1, start[groups[0].name]})
        for groups in (arena.problem.side(Role.PREFILL), decode_side(arena.problem))
    )
    ttft = 1e3 * (arena.problem.ttft.target if arena.problem.ttft else 10.0)
    itl = 1e3 * (arena.problem.itl.target if arena.problem.itl else 1.0)
    tried = [
        dynamo.DynamoSettings(interval, load, p, d, scale * ttft, itl, 2 * max(start.values()) + 4)
        for interval, load in itertools.product((30, 60, 180), (False, True))
        for p, d in itertools.product(least_p, least_d)
        for scale in (0.5, 1.0)
    ]
    best = min(tried, key=lambda s: _rank(arena.tune(dynamo.Dynamo(arena.problem, host, s))))

    def made(generosity: float) -> dynamo.Dynamo:
        turned = replace(
            best,
            ttft_ms=best.ttft_ms / generosity,
            itl_ms=best.itl_ms / generosity,
            least_prefill=math.ceil(best.least_prefill * generosity),
            least_decode=math.ceil(best.least_decode * generosity),
        )
        return dynamo.Dynamo(arena.problem, host, turned)

    return made, asdict(best)


_FAMILIES: Mapping[str, Callable[[Arena, dynamo.Host], Tuned]] = {
    "hawk": _ours,
    **{name: partial(_tuned, name) for name in _BASELINES},
    "dynamo": _dynamo,
}
POLICIES = (*_FAMILIES, *HINDSIGHT)
"""Policies by name; besides them `fixed:A:B`, any ratio of prefill to decode."""


def _rank(found: Score) -> tuple[float, float]:
    """Good ones by cost, the others by what they miss."""
    missing = max(0.0, GOOD - found.of_attainable)
    return missing, found.cost_usd


def _batch(arena: Arena) -> float:
    """The batch that ITL allows at the trace's mean context: the base of the baselines' decode targets."""
    model = arena.problem.model
    assert model is not None
    requests = arena.trace.requests
    context = sum(r.prompt + r.output / 2 for r in requests) / max(1, len(requests))
    worker = decode_side(arena.problem)[0].worker
    target = arena.problem.itl.target if arena.problem.itl else math.inf
    return float(
        max(1, min(worker.latency_batch(model, context, target), worker.memory_batch(model, context)))
    )
