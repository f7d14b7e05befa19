"""The decision: a pure function of the traffic, the pool, what is there, what was decided, and the clock.

1. The goal: nothing changes while what is there carries the load, within the tolerance; else the decision
   goes to what the load itself takes (see `goal`).
2. Stabilisation: growth to the least that was wanted in the up window, shrinking to the most that was
   wanted in the down window.
3. Limits: bounds of each group, ratio bounds, budgets.

Without metrics the fallback holds; without traffic so far the rules of thumb give the ratio. Both keep
to the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hawk_api import ratio as ratios
from hawk_api.reasons import Reason
from hawk_api.v1alpha1.enums import Fallback, ScalingMode
from hawk_planner.sizing import explain
from hawk_planner.sizing.allocate import fit_budget, totals
from hawk_planner.sizing.decision import Decision
from hawk_planner.sizing.goal import Situation
from hawk_planner.sizing.learn import learn_corrections, learn_from_late, learn_steps
from hawk_planner.sizing.needs import CannotSizeError, Needs, load_of, needs_of, quiet_load
from hawk_planner.sizing.prompts import prompts_of, stages_of
from hawk_planner.sizing.startup import at_ratio, thumb

if TYPE_CHECKING:
    from hawk_planner.sizing.history import History
    from hawk_planner.sizing.problem import GroupObservation, Problem
    from hawk_planner.traffic import Window

Observed = Mapping[str, "GroupObservation"]


@dataclass(frozen=True)
class _Look:
    """Everything that one decision is made from."""

    window: Window | None
    problem: Problem
    observed: Observed
    history: History
    now: float

    @property
    def present(self) -> dict[str, int]:
        """Replicas asked for at present."""
        return {
            g.name: self.observed[g.name].replicas if g.name in self.observed else 0
            for g in self.problem.groups
        }

    @property
    def caps(self) -> dict[str, int]:
        """The most that each group may have now: with unschedulable pods, no more than there are."""
        caps = {}
        for group in self.problem.groups:
            seen = self.observed.get(group.name)
            most = seen.replicas if seen is not None and seen.pending > 0 else group.most
            caps[group.name] = max(group.least, min(group.most, most))
        return caps

    @property
    def stuck(self) -> str:
        """Which groups have unschedulable pods; empty when none has."""
        named = [
            f"{g.name}: {seen.pending} of {seen.replicas} pods can't be scheduled, so it doesn't grow"
            for g in self.problem.groups
            if (seen := self.observed.get(g.name)) is not None and seen.pending > 0
        ]
        return "; ".join(named)


def plan_replicas(
    window: Window | None, problem: Problem, observed: Observed, history: History, now: float
) -> Decision:
    """Decide on replicas. `window` is None where the pool observes no traffic. Never raises for data."""
    look = _Look(window, problem, observed, history, now)
    if problem.paused:
        return _decision(look, look.present, Reason.PAUSED, "replicas stay as they are", act=False)
    if problem.mode is ScalingMode.OFF:
        return _decision(look, look.present, Reason.SCALING_OFF, "replicas stay as they are", act=False)
    made = _automatic(look)
    if problem.forced_ratio is not None:
        made = _forced(look, made)
    return replace(made, act=problem.mode is ScalingMode.AUTO)


def _automatic(look: _Look) -> Decision:
    window, problem, history = look.window, look.problem, look.history
    if window is None or not problem.observes_traffic:
        return _startup(look, "the pool observes no traffic")
    lost = window.lost()
    if lost:
        return _fallback(look, lost)
    rate = window.arrivals.get()
    if rate <= 0:
        return _quiet(look, window, seen=history.seen_traffic)
    try:
        needs = needs_of(problem, load_of(window, _ahead(problem)), history.corrections)
    except CannotSizeError as error:
        return _fallback(look, str(error), Reason.NOT_ENOUGH_KNOWN)
    return _on_demand(look, window, needs)


def _ahead(problem: Problem) -> float:
    """Seconds until a worker that is asked for now is ready."""
    return max((group.startup_s or 0.0 for group in problem.groups), default=0.0) + problem.interval


def _quiet(look: _Look, window: Window, *, seen: bool) -> Decision:
    if not seen:
        return _startup(look, "no request came yet")
    if any(side.waiting.otherwise(0.0) > 0 for side in (window.prefill, window.decode)):
        return _hold(look, "requests wait, and none arrives or ends", Reason.STEADY)
    return _idle(look, window)


def _on_demand(look: _Look, window: Window, needs: Needs) -> Decision:
    problem, caps = look.problem, look.caps
    learned = _learned(look, window, needs)
    unseen = max(window.prefill.unseen_factor, window.decode.unseen_factor)
    situation = Situation(problem, needs, caps, look.present)
    asked = situation.goal(reserve=False, unseen=unseen)
    standby = situation.goal(reserve=True, unseen=unseen)
    kept = _lasting(look, standby)
    wanted = {name: max(count, kept[name]) for name, count in asked.items()}
    reserves = explain.reserves(needs, [name for name, count in asked.items() if kept[name] > count], kept)
    target, waits = {}, []
    for group in problem.groups:
        name, goal = group.name, wanted[group.name]
        target[name] = _stabilised(look, name, look.present[name], goal)
        if target[name] != goal:
            waits.append(f"{name}: {goal} is wanted, {target[name]} holds for the stabilization window")
    fitted = fit_budget(problem, target, budget_caps(problem, caps))
    impossible = explain.infeasible(problem, needs)
    decision = _decision(
        look,
        fitted.replicas,
        _reason(look, target, wanted, limits=fitted.limits, waits=waits, infeasible=impossible),
        explain.sizing(problem, needs, fitted.replicas),
        extra=[impossible, *reserves, *fitted.limits, *waits, look.stuck, *window.warnings],
    )
    return replace(
        decision,
        wanted=wanted,
        standby=standby,
        rate=needs.load.rate,
        prediction=explain.prediction(problem, needs, fitted.replicas),
        inputs=explain.inputs(problem, needs, window, look.history.corrections),
        corrections=learned,
        load=needs.load,
    )


def _lasting(look: _Look, standby: Mapping[str, int]) -> dict[str, int]:
    """The replicas that bursts need, where they were needed for a whole start-up: one window alone is
    noise."""
    since = look.now - _ahead(look.problem)
    return {name: look.history.least_standby(name, since, count) for name, count in standby.items()}


def _learned(look: _Look, window: Window, needs: Needs) -> dict[str, float]:
    """The corrections for waits and steps learned from this window and the workers as they are."""
    there = {name: seen.ready for name, seen in look.observed.items()}
    corrections = learn_steps(look.history.corrections, look.problem, needs, window, there)
    ready = {name: count for name, count in there.items() if name in needs.prefill}
    if window.prefill.late.known and look.problem.ttft is not None and needs.prefill:
        stages = stages_of(look.problem, needs, needs.load, counts=ready, caps=ready, present=ready)
        prompts = prompts_of(look.problem, needs, needs.load, stages, ((needs.load.rate, 1.0),))
        return learn_from_late(corrections, prompts, stages, window, ready, look.problem.interval)
    name = max(ready, key=lambda n: ready[n], default="")
    return learn_corrections(
        corrections, needs.prefill.get(name), window, sum(ready.values()), look.problem.interval
    )


def _reason(
    look: _Look,
    target: Mapping[str, int],
    wanted: Mapping[str, int],
    *,
    limits: tuple[str, ...],
    waits: list[str],
    infeasible: str,
) -> Reason:
    if any(limit.startswith("budget") for limit in limits):
        return Reason.AT_BUDGET
    if infeasible:
        return Reason.INFEASIBLE
    if look.stuck and any(wanted[name] >= cap for name, cap in look.caps.items()):
        return Reason.UNSCHEDULABLE
    if limits or any(wanted[g.name] >= g.most > g.least for g in look.problem.groups):
        return Reason.AT_BOUND
    if waits:
        return Reason.STABILIZING
    return Reason.STEADY if dict(target) == look.present else Reason.DEMAND


def _stabilised(look: _Look, group: str, present: int, goal: int) -> int:
    """HPA's rule: grow to the least wanted in the up window, shrink to the most in the down window."""
    problem, history = look.problem, look.history
    if goal > present:
        return max(present, history.lowest(group, look.now - problem.up_window, goal))
    if goal < present:
        return min(present, history.highest(group, look.now - problem.down_window, goal))
    return goal


def _idle(look: _Look, window: Window) -> Decision:
    """Traffic has ended: shrink to what bursts may need again, as the down window allows."""
    standby = _standby(look, window)
    least = _lasting(look, standby)
    target = {name: _stabilised(look, name, look.present[name], count) for name, count in least.items()}
    fitted = fit_budget(look.problem, target, budget_caps(look.problem, look.caps))
    waiting = fitted.replicas != least
    made = _decision(
        look,
        fitted.replicas,
        Reason.STABILIZING if waiting else Reason.STEADY if look.present == least else Reason.DEMAND,
        "no request in the window" + ("; shrinks when the stabilization window is over" if waiting else ""),
        extra=[look.stuck],
    )
    return replace(
        made, wanted=least, standby=standby, rate=0.0, inputs={"requestRate": 0.0}, load=look.history.load
    )


def _standby(look: _Look, window: Window) -> dict[str, int]:
    """The replicas that are kept without traffic: the minima, or what the last hour's bursts would need if
    they came."""
    problem, before = look.problem, look.history.load
    if before is not None:
        try:
            load = quiet_load(window, before)
            needs = needs_of(problem, load, look.history.corrections)
            return Situation(problem, needs, look.caps, look.present).goal(reserve=True)
        except CannotSizeError:
            pass
    return {group.name: group.least for group in problem.groups}


def _startup(look: _Look, why: str) -> Decision:
    ratio = thumb(look.problem, look.window)
    counts = at_ratio(look.problem, ratio, {})
    target = {name: _stabilised(look, name, look.present[name], count) for name, count in counts.items()}
    fitted = fit_budget(look.problem, target, budget_caps(look.problem, look.caps))
    return _decision(
        look,
        fitted.replicas,
        Reason.STARTUP,
        f"{why}: {ratios.format_ratio(ratio)} by the rules of thumb"
        if look.problem.startup_ratio is None
        else f"{why}: {ratios.format_ratio(ratio)} by spec.scaling.startupRatio",
        extra=[*fitted.limits, look.stuck],
    )


def _fallback(look: _Look, why: str, reason: Reason = Reason.METRICS_LOST) -> Decision:
    """Hold what was decided, or go to the start-up ratio; minima and budget are kept either way."""
    problem, history = look.problem, look.history
    nothing_yet = history.target is None and not any(look.present.values())
    if problem.fallback is Fallback.STARTUP or nothing_yet:
        made = _startup(look, why)
        return replace(made, reason=reason)
    return _hold(look, why, reason)


def _hold(look: _Look, why: str, reason: Reason) -> Decision:
    """Keep the last decision, within the minima and the budget."""
    problem, history = look.problem, look.history
    held = {**look.present, **{k: v for k, v in (history.target or {}).items() if k in look.present}}
    fitted = fit_budget(problem, held, budget_caps(problem, look.caps))
    return _decision(
        look, fitted.replicas, reason, f"{why}; holds the last decision", extra=[*fitted.limits, look.stuck]
    )


def _forced(look: _Look, made: Decision) -> Decision:
    """Cover what was computed, at exactly the ratio that the annotation forces."""
    ratio = look.problem.forced_ratio
    assert ratio is not None
    counts = at_ratio(look.problem, ratio, made.replicas)
    fitted = fit_budget(look.problem, counts, budget_caps(look.problem, look.caps))
    prefill, decode = totals(look.problem, fitted.replicas)
    exact = prefill * ratio.denominator == decode * ratio.numerator
    kept = "" if exact else " (the limits don't allow it exactly)"
    return replace(
        made,
        replicas=fitted.replicas,
        prefill=prefill,
        decode=decode,
        reason=Reason.FORCED,
        message=_join([f"{ratios.format_ratio(ratio)} is forced{kept}", *fitted.limits, made.message]),
    )


def budget_caps(problem: Problem, caps: Mapping[str, int]) -> dict[str, int]:
    """Caps that the budget of devices sets by itself: what is left beside the other groups' minima."""
    budget = problem.budget_devices
    if budget is None:
        return dict(caps)
    least = {g.name: g.least for g in problem.groups}
    bounded = {}
    for group in problem.groups:
        others = problem.devices({**least, group.name: 0})
        room = (budget - others) // group.devices if group.devices else caps[group.name]
        bounded[group.name] = max(group.least, min(caps[group.name], room))
    return bounded


def _decision(
    look: _Look,
    replicas: Mapping[str, int],
    reason: Reason,
    message: str,
    *,
    extra: list[str] | None = None,
    act: bool = True,
) -> Decision:
    prefill, decode = totals(look.problem, replicas)
    return Decision(
        time=look.now,
        replicas=dict(replicas),
        reason=reason,
        message=_join([message, *(extra or [])]),
        prefill=prefill,
        decode=decode,
        next_look=look.now + look.problem.interval,
        act=act,
        corrections=dict(look.history.corrections),
    )


def _join(parts: list[str]) -> str:
    return "; ".join(part for part in parts if part)
