"""Lessons of measured waits: slow, no more than the waits tell, and forgotten in time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hawk_planner.sizing import History, plan_replicas
from hawk_planner.sizing.learn import learn_corrections
from hawk_planner.sizing.needs import WAIT, load_of, needs_of
from hawk_planner.traffic import distribution, signals
from tests.unit.sizing.pools import pool, seen, window


def measured(rate: float, ttft: float, **more):
    found = window(rate, 4000, **more)
    shape = signals.value(distribution.of({ttft: 1.0}))
    return replace(found, prefill=replace(found.prefill, ttft=shape))


def need(found):
    return needs_of(pool(), load_of(found), {}).prefill["prefill"]


def after(looks: int, found, start: float = 1.0, ready: int = 3) -> float:
    corrections = {WAIT: start}
    for _ in range(looks):
        corrections = learn_corrections(corrections, need(found), found, ready, 15.0)
    return corrections[WAIT]


def test_waits_longer_than_the_formula_teach_a_factor_that_grows_slowly():
    slow = measured(20.0, need(window(20.0, 4000)).mean_service + 1.5)

    assert 1.0 < after(1, slow) < after(20, slow) <= 32.0
    assert after(1, slow) < 1.5


def test_waits_as_expected_teach_nothing():
    found = window(20.0, 4000)
    queue = need(found).queue(20.0, 3)
    usual = measured(20.0, need(found).mean_service + queue.mean_wait)

    assert after(50, usual) == pytest.approx(1.0, abs=0.05)


def test_what_was_learned_is_forgotten_faster_on_smooth_traffic():
    quiet = {"rate": 2.0, "ttft": 0.01}
    smooth, bursty = (after(40, measured(**quiet, dispersion=d), start=8.0) for d in (1.0, 100.0))

    assert 1.0 < smooth < bursty < 8.0


@pytest.mark.parametrize("ready", [0, 1])
def test_an_overloaded_or_empty_side_teaches_nothing(ready):
    assert after(5, measured(20.0, 30.0), start=2.0, ready=ready) == 2.0


def test_a_learned_factor_asks_for_more_prefill():
    found = window(20.0, 4000)
    taught = History(corrections={WAIT: 8.0})

    plain = plan_replicas(found, pool(), seen(prefill=3, decode=8), History(), 0.0)
    more = plan_replicas(found, pool(), seen(prefill=3, decode=8), taught, 0.0)

    assert more.prefill > plain.prefill
    assert more.inputs["waitCorrection"] == 8.0
    assert math.isfinite(float(more.prediction["ttftSeconds"]))
