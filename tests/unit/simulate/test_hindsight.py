"""The clairvoyant: what it pays, and how much it runs to find that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hawk_api.v1alpha1.enums import QueueOrder
from hawk_planner.simulate.baselines import dynamo
from hawk_planner.simulate.engine import ClusterSettings
from hawk_planner.simulate.generate import CHAT, Stream, burst
from hawk_planner.simulate.hindsight import GOOD, oracle_curve, static_best
from hawk_planner.simulate.policies import Hawk, Schedule
from hawk_planner.simulate.run import Arena, family
from tests.unit.sizing.pools import pool


def arena() -> Arena:
    """Two bursts, each of half a minute."""
    trace = Stream(burst(CHAT, 2.0, 50.0, 240.0, 30.0), 5).trace("bursts", 300.0)
    problem = pool(queue_order=QueueOrder.SLACK)
    return Arena(
        trace, problem, ClusterSettings(order=QueueOrder.SLACK, initial={"prefill": 1, "decode": 2}), 0.0
    )


@pytest.mark.slow
def test_the_clairvoyant_meets_the_objectives_for_less_than_any_constant_split_in_few_runs_and_asks_ahead():
    chosen = arena()
    curve = oracle_curve(chosen.trace, chosen.problem, chosen.settings, chosen.judge)
    _, constant = static_best(chosen.problem, chosen.judge)
    good = [score for _, score in curve if score.of_attainable >= GOOD]

    assert min(score.cost_usd for score in good) < 0.9 * constant.cost_usd
    assert len(curve) <= 25
    assert len(good) < len(curve)

    schedule, _ = max(curve, key=lambda one: one[1].of_attainable)
    wanted = {when: replicas["prefill"] for when, replicas in schedule.steps}

    assert wanted[165.0] == 1
    assert wanted[180.0] > 1


@pytest.mark.parametrize(("generosity", "share"), [(0.5, 0.9), (1.0, 0.95), (2.0, 0.975)])
def test_a_generous_decision_has_fewer_late_requests_as_its_objective_and_knows_the_start_up(
    generosity, share
):
    with dynamo.Host() as host:
        made, settings = family(replace(arena(), tuning_s=60.0), "hawk", host)
    policy = made(generosity)

    assert settings == {}
    assert isinstance(policy, Hawk)
    assert policy.problem.ttft is not None
    assert policy.problem.ttft.share == pytest.approx(share)
    assert {group.startup_s for group in policy.problem.groups} == {60.0}


def test_a_generous_fixed_ratio_is_there_more_often():
    with dynamo.Host() as host:
        made, settings = family(replace(arena(), tuning_s=60.0), "fixed:1:3", host)
    often = settings["times"]
    policies = made(1.0), made(2.0)

    assert all(isinstance(policy, Schedule) for policy in policies)
    assert policies[0].steps[0][1] == {"prefill": often, "decode": 3 * often}
    assert policies[1].steps[0][1] == {"prefill": 2 * often, "decode": 6 * often}
