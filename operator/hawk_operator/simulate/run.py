"""Run policies on a trace: peers tuned on its first part, everyone scored on the rest."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from hawk_api import ratio as ratios
from hawk_api.v1alpha1.enums import Role
from hawk_operator.simulate import policies
from hawk_operator.simulate.engine import Policy, Settings, Simulation
from hawk_operator.simulate.hindsight import GOOD, oracle, static_best
from hawk_operator.simulate.peers import dynamo
from hawk_operator.simulate.policies import Hawk, Knobs, PerRole, Schedule, decode_side, fixed
from hawk_operator.simulate.score import Score, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from fractions import Fraction

    from hawk_operator.simulate.traces import Trace
    from hawk_operator.sizing import Problem

_PEERS: Mapping[str, tuple[Callable[[Knobs], dict[Role, policies.Measure]], policies.Rule]] = {
    "hpa": (policies.by_utilisation, policies.hpa),
    "hpa-queue": (policies.by_queue, policies.hpa),
    "keda": (policies.by_queue, policies.keda),
    "llm-d": (policies.by_utilisation, policies.llm_d),
    "aibrix": (policies.by_utilisation, policies.aibrix),
}
POLICIES = ("hawk", *_PEERS, "dynamo", "static-best", "oracle")
"""Policies by name; besides them `fixed:A:B`, any ratio of prefill to decode."""
TUNING_S = 600.0
_USES = (0.3, 0.5, 0.7, 0.85)
_QUEUES = (0.5, 1.0, 2.0, 4.0)
_FILLS = (0.4, 0.6, 0.8, 1.0)
"""Sequences a decode replica that a rule aims at, as a share of the batch that ITL allows."""


class UnknownPolicyError(ValueError):
    """There is no policy of that name."""


@dataclass(frozen=True)
class Arena:
    """A trace, a pool and a cluster on which policies are compared. `tuning_s` is the part for tuning."""

    trace: Trace
    problem: Problem
    settings: Settings
    tuning_s: float

    @classmethod
    def of(cls, trace: Trace, problem: Problem, settings: Settings, tuning_s: float | None = None) -> Arena:
        """Tune on the first ten minutes, or a quarter of a trace that is shorter than forty."""
        part = min(TUNING_S, trace.seconds / 4.0) if tuning_s is None else tuning_s
        return cls(trace, problem, settings, part)

    @property
    def begun(self) -> Arena:
        """The arena with the start that all policies share: the best constant replicas of the first part."""
        if self.settings.initial:
            return self
        schedule, _ = static_best(self.problem, self.tune)
        return replace(self, settings=replace(self.settings, initial=schedule.steps[0][1]))

    def tune(self, policy: Policy) -> Score:
        """Score a policy on the first part."""
        part = self.trace.part(0.0, self.tuning_s)
        return self._run(part, policy, (0.0, self.tuning_s), drain_s=60.0)

    def judge(self, policy: Policy, progress: Callable[[int], None] | None = None) -> Score:
        """Score a policy on the rest, having run through the first part as well."""
        end = self.trace.seconds + 1e-6
        return self._run(self.trace, policy, (self.tuning_s, end), progress=progress)

    def _run(
        self,
        trace: Trace,
        policy: Policy,
        span: tuple[float, float],
        *,
        drain_s: float = 3600.0,
        progress: Callable[[int], None] | None = None,
    ) -> Score:
        settings = replace(self.settings, drain_after_s=drain_s)
        if isinstance(policy, Schedule):
            settings = replace(settings, initial=policy.steps[0][1])
        outcome = Simulation(trace, self.problem, policy, settings).run(progress)
        return score(trace, self.problem, outcome, policy.name, span)


def compare(
    arena: Arena, names: Iterable[str], progress: Callable[[str, int], None] | None = None
) -> list[Score]:
    """Score policies by name, in order; raises UnknownPolicyError. Deterministic."""
    wanted = list(names)
    for name in wanted:
        check(name)
    arena = arena.begun
    found = []
    for name in wanted:
        tell = None if progress is None else (lambda done, name=name: progress(name, done))
        found.append(_compete(arena, name, tell))
    return found


def check(name: str) -> None:
    """Refuse a name that no policy has; raises UnknownPolicyError."""
    if name.startswith("fixed:"):
        try:
            ratios.parse(name.removeprefix("fixed:"))
        except ValueError as error:
            raise UnknownPolicyError(f"{name!r}: {error}; write fixed:1:2") from error
    elif name not in POLICIES:
        raise UnknownPolicyError(f"{name!r} is unknown; use fixed:A:B or one of {', '.join(POLICIES)}")


def _compete(arena: Arena, name: str, progress: Callable[[int], None] | None) -> Score:
    if name == "hawk":
        return arena.judge(Hawk(arena.problem), progress)
    if name == "dynamo":
        return _dynamo(arena, progress)
    if name == "static-best":
        return static_best(arena.problem, arena.judge)[1]
    if name == "oracle":
        return oracle(arena.trace, arena.problem, arena.settings, arena.judge)[1]
    if name.startswith("fixed:"):
        return _fixed(arena, name, ratios.parse(name.removeprefix("fixed:")))
    return _tuned(arena, name, progress)


def _fixed(arena: Arena, name: str, ratio: Fraction) -> Score:
    """A fixed ratio, as often as the first part needs."""
    prefill, decode = arena.problem.side(Role.PREFILL)[0].name, decode_side(arena.problem)[0].name
    for times in range(1, 41):
        policy = fixed({prefill: times * ratio.numerator, decode: times * ratio.denominator}, name)
        if times == 40 or arena.tune(policy).of_attainable >= GOOD:
            break
    settings: dict[str, float | str] = {"times": times}
    return replace(arena.judge(policy), settings=settings)


def _tuned(arena: Arena, name: str, progress: Callable[[int], None] | None) -> Score:
    """A peer with the best knobs of the first part: each role's target and minimum, swept twice."""
    measure, rule = _PEERS[name]
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

    for _ in range(2):
        sides = (
            [{"prefill": a, "least_prefill": b} for a, b in itertools.product(uses, least_p)],
            [{"decode": a, "least_decode": b} for a, b in itertools.product(fills, least_d)],
        )
        for options in sides:
            tried = [replace(knobs, **option) for option in options]  # type: ignore[arg-type]
            knobs = min(tried, key=lambda k: _rank(arena.tune(policy(k))))
    settings: dict[str, float | str] = {
        "prefill": knobs.prefill,
        "decode": knobs.decode,
        "least_prefill": knobs.least_prefill,
        "least_decode": knobs.least_decode,
        "most": knobs.most,
    }
    return replace(arena.judge(policy(knobs), progress), settings=settings)


def _dynamo(arena: Arena, progress: Callable[[int], None] | None) -> Score:
    """Dynamo's planner with the best settings of the first part; its environment is made at the first use."""
    start = arena.settings.initial
    least_p, least_d = (
        sorted({1, start[groups[0].name]})
        for groups in (arena.problem.side(Role.PREFILL), decode_side(arena.problem))
    )
    ttft = 1e3 * (arena.problem.ttft.target if arena.problem.ttft else 10.0)
    itl = 1e3 * (arena.problem.itl.target if arena.problem.itl else 1.0)
    tried = [
        dynamo.Settings(interval, load, p, d, scale * ttft, itl, 2 * max(start.values()) + 4)
        for interval, load in itertools.product((30, 60, 180), (False, True))
        for p, d in itertools.product(least_p, least_d)
        for scale in (0.5, 1.0)
    ]
    host = dynamo.Host()
    try:
        best = min(tried, key=lambda s: _rank(arena.tune(dynamo.Dynamo(arena.problem, host, s))))
        found = arena.judge(dynamo.Dynamo(arena.problem, host, best), progress)
    finally:
        host.close()
    return replace(found, settings=asdict(best))


def _rank(found: Score) -> tuple[float, float]:
    """Good ones by cost, the others by what they miss."""
    missing = max(0.0, GOOD - found.of_attainable)
    return missing, found.cost_usd


def _batch(arena: Arena) -> float:
    """The batch that ITL allows at the trace's mean context; what the peers' decode targets are made of."""
    model = arena.problem.model
    assert model is not None
    requests = arena.trace.requests
    context = sum(r.prompt + r.output / 2 for r in requests) / max(1, len(requests))
    worker = decode_side(arena.problem)[0].worker
    target = arena.problem.itl.target if arena.problem.itl else math.inf
    return float(
        max(1, min(worker.latency_batch(model, context, target), worker.memory_batch(model, context)))
    )
