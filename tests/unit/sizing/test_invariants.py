"""Invariants of every decision, numbered, each with its reason.

I1  Never above a budget: what isn't there can't be scheduled, and money is a promise.
I2  Never below a minimum that the budget allows, never above a maximum, also without metrics.
I3  Monotone: more load never needs less, or, where classes replace each other, less money.
I4  Free of units: kilobytes for bytes and cents for dollars change nothing.
I5  Deterministic: the same input gives the same decision.
I6  Converges: under a steady load the second decision changes nothing, and goes on changing nothing. With
    bursts in the last hour it takes a start-up more, from whatever is there, also where classes replace
    each other.
I7  Unschedulable pods stop growth.
I8  Nothing that isn't a finite number gets into replicas.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hawk_api.v1alpha1.enums import Fallback, Role
from hawk_planner.perf.objectives import LatencyObjective
from hawk_planner.perf.work import ModelWork, Parts
from hawk_planner.sizing import GroupObservation, History, Problem, plan_replicas
from hawk_planner.sizing.allocate import within_ratio
from hawk_planner.sizing.worker import Worker
from hawk_planner.traffic import Window, signals
from hawk_planner.traffic.bins import Bin
from tests.unit.sizing.pools import GPU, NPU, group, pool, seen, window

checked = settings(deadline=None, max_examples=30)
ROLES = {"p": Role.PREFILL, "d": Role.DECODE, "b": Role.BOTH}


@st.composite
def groups(draw):
    kinds = draw(st.sampled_from(["pd", "ppd", "pdd", "pdb", "b", "bb", "ppdd"]))
    made = []
    for index, kind in enumerate(kinds):
        least = draw(st.integers(0, 3))
        made.append(
            group(
                f"{kind}{index}",
                ROLES[kind],
                least,
                draw(st.integers(max(1, least), 12)),
                worker=draw(st.sampled_from([GPU, NPU])),
                devices=draw(st.integers(1, 8)),
                usd_per_hour=draw(st.one_of(st.none(), st.floats(0.1, 9))),
            )
        )
    return tuple(made)


@st.composite
def problems(draw):
    found = draw(groups())
    low = draw(st.one_of(st.none(), st.fractions(Fraction(1, 8), 2, max_denominator=8)))
    high = draw(st.one_of(st.none(), st.fractions(1, 8, max_denominator=8)))
    assume(low is None or high is None or low <= high)
    return pool(
        groups=found,
        budget_devices=draw(st.one_of(st.none(), st.integers(1, 60))),
        budget_usd_per_hour=draw(st.one_of(st.none(), st.floats(0, 60))),
        ratio_min=low,
        ratio_max=high,
        forced_ratio=draw(st.sampled_from([None, None, Fraction(2, 3)])),
        ttft=draw(st.sampled_from([None, LatencyObjective(0.95, 0.25), LatencyObjective(0.5, 3.0)])),
        itl=draw(st.sampled_from([None, LatencyObjective(0.99, 0.025), LatencyObjective(0.9, 0.001)])),
        fallback=draw(st.sampled_from(list(Fallback))),
        link_bytes_per_second=draw(st.sampled_from([None, 25e9])),
    )


loads = st.builds(
    window,
    st.floats(0, 200),
    prompt=st.floats(1, 60_000),
    output=st.floats(1, 3_000),
    dispersion=st.floats(0, 300),
)
windows = st.one_of(
    st.none(),
    loads,
    st.just(Window(0.0, 60.0, error="http://prometheus:9090: connection refused")),
    st.just(Window(0.0, 60.0)),
)


@st.composite
def looks(draw):
    problem = draw(problems())
    there = {}
    for one in problem.groups:
        replicas = draw(st.integers(0, one.most))
        ready = draw(st.integers(0, replicas))
        pending = draw(st.sampled_from([0, 0, replicas - ready]))
        there[one.name] = GroupObservation(replicas, ready, ready, pending)
    history = History(seen_traffic=draw(st.booleans()))
    if draw(st.booleans()):
        history = History.start({name: o.replicas for name, o in there.items()}, -100.0)
    return draw(windows), problem, there, history


@checked
@given(looks())
def test_i1_i2_i8_every_decision_is_within_the_limits(look):
    found, problem, there, history = look

    made = plan_replicas(found, problem, there, history, 0.0)

    least = {g.name: g.least for g in problem.groups}
    assert all(isinstance(count, int) for count in made.replicas.values())
    if problem.budget_devices is not None:
        assert problem.devices(made.replicas) <= problem.budget_devices
    affordable = problem.budget_devices is None or problem.devices(least) <= problem.budget_devices
    if problem.budget_usd_per_hour is not None:
        priced = [g for g in problem.groups if g.usd_per_hour is not None]
        cost = sum(made.replicas[g.name] * g.usd_per_hour for g in priced)
        assert cost <= problem.budget_usd_per_hour * (1 + 1e-6)
        floor = sum(g.least * g.usd_per_hour for g in priced)
        affordable = affordable and floor <= problem.budget_usd_per_hour
    for one in problem.groups:
        assert made.replicas[one.name] <= one.most
        if affordable:
            assert made.replicas[one.name] >= one.least


@checked
@given(looks())
def test_i5_the_same_input_gives_the_same_decision(look):
    assert plan_replicas(*look, 7.0) == plan_replicas(*look, 7.0)


@checked
@given(looks(), st.integers(0, 3))
def test_i7_a_group_with_unschedulable_pods_does_not_grow(look, stuck):
    found, problem, there, history = look
    there = {name: GroupObservation(max(o.replicas, 1), 0, 0, 1) if stuck else o for name, o in there.items()}
    assume(stuck and found is not None and not found.error)

    made = plan_replicas(
        found, replace(problem, forced_ratio=None), there, replace(history, target=None), 0.0
    )

    for one in problem.groups:
        assert made.replicas[one.name] <= max(there[one.name].replicas, one.least)


@checked
@given(groups(), st.floats(0.1, 100), st.floats(1, 5), st.floats(100, 20_000), st.floats(10, 900))
def test_i3_more_load_never_needs_less(found, rate, factor, prompt, output):
    """Of classes that replace each other the mix may change; its price falls by no more than a step."""
    problem = pool(groups=tuple(replace(g, most=10_000) for g in found))
    little = plan_replicas(window(rate, prompt, output), problem, {}, History(), 0.0)
    much = plan_replicas(window(rate * factor, prompt, output), problem, {}, History(), 0.0)

    priced = all(g.usd_per_hour is not None for g in problem.groups)
    cost = {g.name: (g.usd_per_hour or 0.0) if priced else g.devices for g in problem.groups}
    before, after = (sum(cost[name] * n for name, n in made.replicas.items()) for made in (little, much))
    assert after >= before * 0.9
    if not problem.side(Role.BOTH):
        for role in (Role.PREFILL, Role.DECODE):
            mine = [g.name for g in problem.side(role)]
            if len(mine) == 1:
                assert much.replicas[mine[0]] >= little.replicas[mine[0]]


def _scaled(problem: Problem, size: float) -> Problem:
    """The same pool with bytes in another unit."""

    def parts(found: Parts) -> Parts:
        return tuple((cost * size, limit) for cost, limit in found)

    model = problem.model
    assert model is not None
    return replace(
        problem,
        model=ModelWork(
            model.weight_bytes * size,
            model.active_parameters,
            model.attention,
            model.decode_attention,
            parts(model.kv),
            parts(model.kv_read),
            model.state_bytes * size,
            model.head_parameters,
            model.lookup_bytes * size,
        ),
        groups=tuple(
            replace(
                g,
                worker=Worker(
                    g.worker.flops,
                    (g.worker.bandwidth or 0) * size,
                    (g.worker.memory or 0) * size,
                ),
            )
            for g in problem.groups
        ),
    )


@pytest.mark.parametrize("rate", [0.5, 4.0, 30.0])
def test_i4_bytes_in_another_unit_change_nothing(rate):
    problem = pool()
    plain = plan_replicas(window(rate), problem, {}, History(), 0.0)
    scaled = plan_replicas(window(rate), _scaled(problem, 1e-3), {}, History(), 0.0)

    assert scaled.replicas == plain.replicas


@checked
@given(looks())
def test_i4_cents_for_dollars_change_nothing(look):
    found, problem, there, history = look
    budget = problem.budget_usd_per_hour
    cents = replace(
        problem,
        budget_usd_per_hour=None if budget is None else 128.0 * budget,
        groups=tuple(
            replace(g, usd_per_hour=None if g.usd_per_hour is None else 128.0 * g.usd_per_hour)
            for g in problem.groups
        ),
    )

    assert plan_replicas(found, cents, there, history, 0.0).replicas == plan_replicas(*look, 0.0).replicas


@checked
@given(st.floats(0.2, 60), st.floats(200, 20_000), st.floats(10, 900), st.integers(0, 16), st.integers(0, 16))
def test_i6_a_steady_load_is_answered_once(rate, prompt, output, prefill, decode):
    problem = pool(down_window=0.0)
    history = History()
    replicas = {"prefill": prefill, "decode": decode}
    seen_replicas = []
    for step in range(5):
        made = plan_replicas(window(rate, prompt, output), problem, seen(**replicas), history, 15.0 * step)
        history, replicas = history.add(made), dict(made.replicas)
        seen_replicas.append(replicas)

    assert all(later == seen_replicas[0] for later in seen_replicas)


@checked
@given(looks(), loads, st.lists(st.sampled_from([1.0, 1.0, 1.0, 1.2, 5.0]), min_size=10, max_size=60))
def test_i6_bursts_that_came_before_are_answered_once(look, found, shape):
    _, problem, there, history = look
    assume(found.arrivals.get() > 0)
    counts = [30.0 * found.arrivals.get() * one for one in shape]
    prompt, output = found.prefill.prompt.get().mean, found.decode.output.get().mean
    found = replace(found, bins=tuple(Bin(n, n * prompt, n * output) for n in counts))
    problem = replace(problem, down_window=0.0)
    there = {name: GroupObservation(o.replicas, o.replicas, o.replicas) for name, o in there.items()}
    course = []
    for step in range(8):
        made = plan_replicas(found, problem, there, history, 15.0 * step)
        history, there = history.add(made), seen(**made.replicas)
        course.append(dict(made.replicas))

    assert all(later == course[4] for later in course[4:])


@checked
@given(problems(), st.floats(0.5, 50))
def test_ratio_bounds_hold_where_minima_maxima_and_budget_leave_room(problem, rate):
    problem = replace(
        problem,
        groups=tuple(replace(g, least=min(g.least, 1), most=500) for g in problem.groups),
        budget_devices=None,
        budget_usd_per_hour=None,
        forced_ratio=None,
    )
    assume(any(g.role is Role.PREFILL for g in problem.groups))

    made = plan_replicas(window(rate, 2000, 200), problem, {}, History(), 0.0)

    assume(max(made.replicas.values()) < 400)
    assert within_ratio(problem, made.replicas)


def test_not_a_number_never_reaches_replicas():
    broken = replace(window(3.0), burstiness=signals.not_a_number("NaN"))

    assert (
        plan_replicas(broken, pool(), {}, History(), 0.0).replicas
        == plan_replicas(window(3.0), pool(), {}, History(), 0.0).replicas
    )
