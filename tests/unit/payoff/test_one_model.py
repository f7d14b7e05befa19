"""Sizing and plan never disagree on whether a deployment can meet its objectives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from hawk_api.models import load_preset
from hawk_api.v1alpha1 import AcceleratorClassSpec, HawkPool, HawkPoolSpec
from hawk_planner.payoff.candidate import Feasibility
from hawk_planner.payoff.split import split
from hawk_planner.payoff.ways import attains
from hawk_planner.sizing import Problem
from hawk_planner.sizing.demand import OfferedLoad
from hawk_planner.sizing.explain import infeasible
from hawk_planner.sizing.needs import CannotSizeError, needs_of
from hawk_planner.traffic import distribution

from .pools import pool, question, scenario

if TYPE_CHECKING:
    from hawk_planner.payoff.scenario import Scenario

MODELS = {
    "dense": "mistral-7b-instruct-v0.2",
    "experts": "mixtral-8x7b-v0.1",
    "latent": "deepseek-v3",
    "window": "gpt-oss-20b",
    "hybrid": "kimi-linear-48b-a3b",
}
QUIET = 0.01
"""Requests/s that no pool is too small for."""
FAST = 1e15
"""Bytes a second of a link that isn't in question."""


@st.composite
def classes(draw: st.DrawFn) -> AcceleratorClassSpec:
    flops = {"bfloat16": f"{draw(st.integers(50, 2500))}T"}
    if draw(st.booleans()):
        flops["float8"] = f"{draw(st.integers(100, 5000))}T"
    figures = {"memory": f"{draw(st.integers(16, 288))}G", "bandwidth": f"{draw(st.integers(200, 8000))}G"}
    return AcceleratorClassSpec.model_validate(
        {"flops": flops, **figures, "power": "500", "price": "20000", "startup": "1m"}
    )


@st.composite
def deployments(draw: st.DrawFn) -> tuple[HawkPoolSpec, dict[str, AcceleratorClassSpec], dict[str, Any]]:
    """A split pool, its classes, and the lengths of its requests."""
    milliseconds = [draw(st.sampled_from(range(*span))) for span in ((5, 5000), (2, 120))]
    spec = pool(
        draw(st.sampled_from(sorted(MODELS.values()))),
        devices=(draw(st.sampled_from([1, 2, 4, 8])), draw(st.sampled_from([1, 2, 4, 8]))),
        ttft=f"{milliseconds[0]}ms",
        itl=f"{milliseconds[1]}ms",
    )
    body = spec.to_dict()
    if draw(st.booleans()):
        body["objectives"]["ttft"]["stretch"] = draw(st.sampled_from(["0.5", "1.5", "3"]))
    body["model"]["kvDtype"] = draw(st.sampled_from(["float16", "float8"]))
    body["model"]["weights"] = draw(st.sampled_from(["bfloat16", "float8"]))
    lengths = {
        "prompt_tokens": draw(st.integers(16, 60_000)),
        "output_tokens": draw(st.integers(2, 4_000)),
    }
    return HawkPoolSpec.model_validate(body), {"gpu": draw(classes()), "npu": draw(classes())}, lengths


def sized(spec: HawkPoolSpec, known: dict[str, AcceleratorClassSpec], lengths: dict[str, Any]) -> str:
    """Return the objective that sizing calls infeasible, or empty."""
    body = {"apiVersion": "hawkpool.dev/v1alpha1", "kind": "HawkPool", "metadata": {"name": "p"}}
    whole = HawkPool.model_validate(body | {"spec": spec.to_dict()})
    assert spec.model.preset is not None
    problem = Problem.of(whole, known, load_preset(spec.model.preset))
    prompt, output = (distribution.of({float(length): 1.0}) for length in lengths.values())
    try:
        return infeasible(problem, needs_of(problem, OfferedLoad(QUIET, prompt, output), {}))
    except CannotSizeError as error:
        return str(error)


def asked(spec: HawkPoolSpec, known: dict[str, AcceleratorClassSpec], lengths: dict[str, Any]) -> Scenario:
    given = {"requests_per_second": QUIET, "link_bytes_per_second": FAST, "path_share": 1.0}
    return question(spec, known, **lengths, **given).scenario


@settings(max_examples=150, deadline=None)
@given(deployments())
def test_sizing_and_plan_agree_on_what_can_be_met(
    deployment: tuple[HawkPoolSpec, dict[str, AcceleratorClassSpec], dict[str, Any]],
) -> None:
    """Prefill emits the first token, as sizing has it; then no handoff comes before it."""
    problem, found = sized(*deployment), split(replace(asked(*deployment), emitter="prefill"))
    event(problem.partition(":")[2][:12] or "feasible")
    assert (found.standing is Feasibility.MEETS) == (not problem), (problem, found.problem)


@settings(max_examples=60, deadline=None)
@given(deployments())
def test_no_plan_meets_what_sizing_calls_infeasible(
    deployment: tuple[HawkPoolSpec, dict[str, AcceleratorClassSpec], dict[str, Any]],
) -> None:
    """Where decode emits the first token, a plan may miss more (the handoff), never less."""
    if sized(*deployment):
        assert split(asked(*deployment)).standing is not Feasibility.MEETS


def test_a_stretched_objective_is_met_by_a_prompt_that_takes_longer() -> None:
    """A prompt of 8 s misses 2 s, but twice its own prefill is what the pool asks for."""
    spec = pool(ttft="2s").to_dict()
    plain = scenario(HawkPoolSpec.model_validate(spec), prompt_tokens=100_000, requests_per_second=QUIET)
    spec["objectives"]["ttft"]["stretch"] = "2"
    stretched = scenario(HawkPoolSpec.model_validate(spec), prompt_tokens=100_000, requests_per_second=QUIET)
    assert split(plain).standing is Feasibility.MISSES
    assert split(stretched).standing is Feasibility.MEETS


@pytest.mark.parametrize(("service", "met"), [(1.9, True), (3.9, True), (4.1, False)])
def test_the_stretch_counts_from_the_declared_prefill_alone(service: float, met: bool) -> None:
    """Whichever way serves, so that a slow one gets no laxer objective than a fast one."""
    spec = pool(ttft="10ms").to_dict()
    spec["objectives"]["ttft"]["stretch"] = "2"
    here = scenario(HawkPoolSpec.model_validate(spec), requests_per_second=QUIET)
    alone = split(here).parts["prefill_seconds"]
    assert attains(100, here, QUIET, service * alone / 2, 0.0) == met
