"""Lessons about decode from the time between tokens: slow, within bounds, and never from nonsense."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_planner.sizing import History, plan_replicas
from hawk_planner.sizing.learn import learn_steps
from hawk_planner.sizing.needs import STEP, load_of, needs_of
from hawk_planner.traffic import distribution, signals
from tests.unit.sizing.pools import AGENT, MODEL, NPU, pool, seen, window

READY = {"prefill": 2, "decode": 6}
checked = settings(deadline=None, max_examples=25)


def measured(gap: float, running: float = 300.0, rate: float = 24.0):
    found = window(rate, 1500, 600)
    itl = signals.value(distribution.of({gap: 1.0}))
    return replace(found, decode=replace(found.decode, itl=itl, running=signals.value(running)))


def after(looks: int, found, start: float = 1.0) -> float:
    problem, corrections = pool(), {STEP: start}
    needs = needs_of(problem, load_of(found), {})
    for _ in range(looks):
        corrections = learn_steps(corrections, problem, needs, found, READY)
    return corrections[STEP]


def expected(found, batch: float = 50.0) -> float:
    return NPU.step_seconds(MODEL, batch, load_of(found).context)


@checked
@given(st.floats(0.5, 3.9), st.floats(0.5, 3.9))
def test_steps_that_are_slower_by_a_factor_teach_that_factor(factor, start):
    found = measured(factor * expected(measured(0.01)))

    assert after(1500, found, start) == pytest.approx(factor, rel=0.01)


@checked
@given(st.floats(1e-6, 1e3), st.floats(0, 1e5), st.floats(0.5, 4.0))
def test_one_look_moves_little_and_no_look_leaves_the_bounds(gap, running, start):
    once = after(1, measured(gap, running), start)

    assert 0.5 <= once <= 4.0
    assert abs(math.log(once / start)) <= math.log(8.0) * 15.0 / 1200.0 + 1e-9


@checked
@given(st.floats(0.5, 4.0), st.floats(1.0, 4.0), st.floats(0.5, 60.0))
def test_slower_steps_never_need_fewer_decode_workers(start, factor, rate):
    taught = (History(corrections={STEP: one}) for one in (start, min(4.0, start * factor)))
    fast, slow = (plan_replicas(window(rate, 1500, 600), pool(), {}, one, 0.0) for one in taught)

    assert slow.decode >= fast.decode
    assert slow.prefill == fast.prefill


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(window(24.0, 1500, 600), id="nobody measures it"),
        pytest.param(measured(0.5, rate=0.001), id="too few tokens"),
        pytest.param(
            replace(measured(0.5), own=frozenset({"itl"})), id="the user's query gives a percentile"
        ),
    ],
)
def test_what_says_nothing_teaches_nothing(found):
    assert after(10, found, 2.0) == 2.0


def test_a_restart_remembers_what_was_learned():
    taught = History(corrections={STEP: 1.5, "wait": 0.25})
    made = plan_replicas(window(**AGENT), pool(), seen(**READY), taught, 0.0)
    again = History.restore([made.record()], made.replicas, 10.0)

    assert made.inputs["stepCorrection"] == 1.5
    assert again.corrections == {STEP: 1.5, "wait": 0.25}
