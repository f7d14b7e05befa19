"""On steady traffic a plan says what the simulated cluster does."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

import pytest

from hawk_api.models import load_preset
from hawk_api.v1alpha1 import HawkPool
from hawk_planner.payoff.split import decode_side, sided
from hawk_planner.simulate.engine import ClusterSettings, Simulation, SimulationResult
from hawk_planner.simulate.policies import fixed
from hawk_planner.simulate.traces import Trace, TraceRequest
from hawk_planner.sizing import Problem

from .pools import CLASSES, pool, question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hawk_planner.payoff.scenario import Scenario

MODEL = "mistral-7b-instruct-v0.2"
POOL = pool(MODEL, ttft="200ms")
LENGTH = 400.0
"""Seconds of traffic: enough for a 95th percentile that is steady to a few per cent."""
LINK = 45e9
WARM = 15.0
"""Seconds until the simulated batches are those of steady traffic."""


def planned(rate: float, prompt: int, output: int) -> Scenario:
    given = {"requests_per_second": rate, "prompt_tokens": prompt, "output_tokens": output}
    scenario = question(POOL, **given, link_bytes_per_second=LINK, path_share=1.0).scenario
    # The simulated prefill emits the first token itself.
    return replace(scenario, emitter="prefill")


def simulated(
    rate: float, prompt: int, output: int, counts: tuple[int, int]
) -> tuple[list[float], list[float]]:
    """TTFT and mean gap of each request of Poisson traffic on so many replicas."""
    dice, now, requests = random.Random(3), 0.0, []
    while now < LENGTH:
        now += dice.expovariate(rate)
        requests.append(TraceRequest(now, prompt, output))
    replicas = {"first": counts[0], "second": counts[1]}
    body = {"apiVersion": "hawkpool.dev/v1alpha1", "kind": "HawkPool", "metadata": {"name": "p"}}
    whole = HawkPool.model_validate(body | {"spec": POOL.to_dict()})
    problem = Problem.of(whole, CLASSES, load_preset(MODEL))
    settings = ClusterSettings(initial=replicas, link_bytes_per_second=LINK)
    outcome: SimulationResult = Simulation(
        Trace("steady", tuple(requests)), problem, fixed(replicas, "fixed"), settings
    ).run()
    kept = [index for index, request in enumerate(requests) if request.arrival > WARM]
    return [outcome.ttft_s[i] for i in kept], [outcome.itl_s[i] for i in kept]


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * len(values))]


@pytest.mark.parametrize(
    ("rate", "prompt", "output"),
    [
        (20.0, 1500, 200),
        pytest.param(30.0, 2048, 128, marks=pytest.mark.slow),
        pytest.param(12.0, 4096, 256, marks=pytest.mark.slow),
    ],
)
def test_a_plan_and_a_simulation_agree(rate: float, prompt: int, output: int) -> None:
    """The same pools under the same steady traffic."""
    scenario = planned(rate, prompt, output)
    plan = sided(scenario, scenario.prefill.replica, scenario.decode.replica)
    assert plan is not None
    assert not plan.problem
    ttft, gaps = simulated(rate, prompt, output, (plan.prefills, plan.decodes))
    assert plan.prefill_seconds == pytest.approx(min(ttft), rel=1e-3)
    assert plan.ttft_seconds == pytest.approx(quantile(ttft, 0.95), rel=0.10)
    assert plan.decoding.step_seconds == pytest.approx(fmean(gaps), rel=0.05)


@pytest.mark.slow
def test_a_plan_holds_every_gap_and_a_simulation_each_requests_mean() -> None:
    """Why a plan may buy one decode replica more: its percentile is of gaps at the batch's peaks."""
    scenario = planned(30.0, 2048, 128)
    plan = sided(scenario, scenario.prefill.replica, scenario.decode.replica)
    assert plan is not None
    _, gaps = simulated(30.0, 2048, 128, (plan.prefills, plan.decodes))
    decoding = decode_side(scenario, scenario.decode.replica, plan.decodes, 0.0)
    assert decoding.itl_seconds >= 0.98 * quantile(gaps, 0.99)
