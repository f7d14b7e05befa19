"""Policies: ours, which is the operator's own decision, and the rules that people use today.

The peers scale each role by itself, as they do where they come from. Their parameters are fields, so that
a sweep can find each one's best.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import Role
from hawk_planner.simulate.cache import code
from hawk_planner.sizing import History, plan_replicas

if TYPE_CHECKING:
    from hawk_planner.simulate.meter import Gauges
    from hawk_planner.sizing import Decision, GroupObservation, Problem, SizedGroup
    from hawk_planner.traffic import Window

Observed = Mapping[str, "GroupObservation"]


def decode_side(problem: Problem) -> tuple[SizedGroup, ...]:
    """The groups that decode: dedicated ones, else those of role Both."""
    return problem.side(Role.DECODE) or problem.side(Role.BOTH)


class Hawk:
    """The operator's decision, with its history."""

    def __init__(self, problem: Problem, name: str = "hawk") -> None:
        self.name = name
        self.problem = problem
        self.history = History()
        self.last: Decision | None = None

    @property
    def key(self) -> str:
        """The pool, and the code of the decision."""
        return f"{code('hawk_planner.sizing', 'hawk_planner.traffic')} {self.problem}"

    def decide(self, window: Window, gauges: Gauges, observed: Observed, now: float) -> Mapping[str, int]:
        """One decision."""
        del gauges
        if not self.history.entries:
            self.history = History.start({name: o.replicas for name, o in observed.items()}, now)
        self.last = plan_replicas(window, self.problem, observed, self.history, now)
        self.history = self.history.add(self.last)
        return self.last.replicas


@dataclass
class Schedule:
    """Replicas by time, known before: [(from when, replicas)], in order."""

    steps: list[tuple[float, dict[str, int]]]
    name: str = "schedule"

    @property
    def key(self) -> str:
        """The steps."""
        return repr(self.steps)

    def decide(self, window: Window, gauges: Gauges, observed: Observed, now: float) -> Mapping[str, int]:
        """The replicas of the newest step that has begun."""
        del window, gauges, observed
        found: dict[str, int] = {}
        for when, replicas in self.steps:
            if when > now + 1e-9:
                break
            found = replicas
        return found


def fixed(replicas: Mapping[str, int], name: str) -> Schedule:
    """The same replicas all the time."""
    return Schedule([(0.0, dict(replicas))], name)


@dataclass(frozen=True)
class Knobs:
    """The targets that a sweep may vary. `prefill` and `decode` are the values that a rule aims at, each
    role its own."""

    prefill: float
    decode: float
    least_prefill: int = 1
    least_decode: int = 1
    most: int = 64


Measure = Callable[["Gauges", int], float]
"""A role's use, 1.0 being the target of its rule; from the gauges and the ready replicas."""


def by_utilisation(knobs: Knobs) -> dict[Role, Measure]:
    """Prefill by its busy time, decode by sequences a replica."""
    return {**by_queue(knobs), Role.PREFILL: lambda g, n: g.prefill_use / knobs.prefill}


def by_queue(knobs: Knobs) -> dict[Role, Measure]:
    """Both by the requests a replica that wait or run (prefill works on one at a time)."""
    return {
        Role.PREFILL: lambda g, n: (g.prefill_waiting + g.prefill_running) / max(1, n) / knobs.prefill,
        Role.DECODE: lambda g, n: (g.decode_running + g.decode_waiting) / max(1, n) / knobs.decode,
    }


@dataclass
class RuleState:
    """The state of a role's rule."""

    recommended: deque[tuple[float, int]] = field(default_factory=deque)
    readings: deque[tuple[float, float]] = field(default_factory=deque)
    acted_at: float = -math.inf


@dataclass(frozen=True)
class RoleLook:
    """One role at one look: replicas asked for and ready, its use, and the gauges."""

    role: Role
    present: int
    ready: int
    use: float
    gauges: Gauges
    now: float


Rule = Callable[[RoleLook, RuleState], int]
"""Replicas that one role should have, before its bounds."""


class PerRole:
    """A rule for each role, deaf to the other role."""

    def __init__(
        self,
        problem: Problem,
        name: str,
        knobs: Knobs,
        *,
        measure: Callable[[Knobs], dict[Role, Measure]],
        rule: Rule,
    ) -> None:
        self.name = name
        self.knobs = knobs
        self.rule = rule
        self.measures = measure(knobs)
        self.least = {Role.PREFILL: knobs.least_prefill, Role.DECODE: knobs.least_decode}
        sides = {Role.PREFILL: problem.side(Role.PREFILL), Role.DECODE: decode_side(problem)}
        self.groups = {role: groups for role, groups in sides.items() if groups}
        self.most = {r: min(knobs.most, sum(g.most for g in groups)) for r, groups in self.groups.items()}
        self.memory = {role: RuleState() for role in self.measures}

    @property
    def key(self) -> str:
        """The rule by its name, and its knobs."""
        return f"{self.name} {self.knobs}"

    def decide(self, window: Window, gauges: Gauges, observed: Observed, now: float) -> Mapping[str, int]:
        """Each role's rule, its replicas given to the role's groups in order."""
        del window
        counts: dict[str, int] = {}
        for role, groups in self.groups.items():
            present = sum(observed[g.name].replicas for g in groups)
            ready = sum(observed[g.name].ready for g in groups)
            look = RoleLook(role, present, ready, self.measures[role](gauges, ready), gauges, now)
            wanted = max(self.least[role], min(self.most[role], self.rule(look, self.memory[role])))
            for group in groups:
                counts[group.name] = min(wanted, group.most)
                wanted -= counts[group.name]
        return counts


def hpa(look: RoleLook, memory: RuleState) -> int:
    """The HorizontalPodAutoscaler: proportional, with 10% tolerance; at most doubling (or 4 more) every
    15 s; down to the highest recommendation of the last 300 s.
    """
    present, ready, use = look.present, max(1, look.ready), look.use
    if use > 1.0 and present > look.ready:  # pods that aren't ready count as idle
        use = max(1.0, use * ready / present)
        ready = present
    wanted = present if abs(use - 1.0) <= 0.1 else math.ceil(ready * use - 1e-9)
    memory.recommended.append((look.now, wanted))
    while memory.recommended[0][0] < look.now - 300.0:
        memory.recommended.popleft()
    if wanted > present:
        return min(wanted, max(2 * present, present + 4))
    return min(present, max(count for _, count in memory.recommended))


def keda(look: RoleLook, memory: RuleState) -> int:
    """KEDA: an HPA that is fed every 30 s."""
    if look.now - memory.acted_at < 30.0 - 1e-9:
        return look.present
    memory.acted_at = look.now
    return hpa(look, memory)


def llm_d(look: RoleLook, memory: RuleState) -> int:
    """llm-d's saturation: one more when less than 0.1 of KV (of 0.80) or 3 of the queue (of 5 a replica)
    is spare, or above the target; one less when the rest would still have that; nothing while it scales.
    """
    del memory
    present, ready, gauges = look.present, max(1, look.ready), look.gauges
    if look.ready < present:
        return present
    decodes = look.role is Role.DECODE
    kv = gauges.kv_usage if decodes else 0.0
    queue = (gauges.decode_waiting if decodes else gauges.prefill_waiting) / ready
    if 0.80 - kv < 0.1 or 5.0 - queue < 3.0 or look.use > 1.0:
        return present + 1
    more = ready / max(1, ready - 1)
    calm = 0.80 - kv * more >= 0.1 and 5.0 - queue * more >= 3.0 and look.use * more < 0.9
    return present - 1 if calm else present


def aibrix(look: RoleLook, memory: RuleState) -> int:
    """AIBrix's APA: a mean of 180 s; above 1.1 of the target up to at most double, below 0.9 down to at
    least half, 300 s between reductions.
    """
    memory.readings.append((look.now, look.use))
    while memory.readings[0][0] < look.now - 180.0:
        memory.readings.popleft()
    use = sum(value for _, value in memory.readings) / len(memory.readings)
    if use > 1.1:
        return min(math.ceil(look.present * use), 2 * look.present)
    if use < 0.9 and look.now - memory.acted_at >= 300.0:
        memory.acted_at = look.now
        return max(math.ceil(look.present * use), math.ceil(look.present / 2))
    return look.present
