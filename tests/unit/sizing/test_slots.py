"""The sequences of a batch: memory and engine bound it, and both are told."""

from __future__ import annotations

import pytest

from hawk_api.models import load_preset
from hawk_api.v1alpha1 import GroupSpec, HawkPool, HawkPoolSpec
from hawk_planner.payoff.split import split
from hawk_planner.perf.rates import ASSUMED
from hawk_planner.perf.slots import declared_sequences
from hawk_planner.sizing import Problem
from hawk_planner.sizing.demand import OfferedLoad
from hawk_planner.sizing.needs import needs_of
from hawk_planner.traffic import distribution
from tests.unit.payoff.pools import CLASSES, pool, question


def template(**container: object) -> dict[str, object]:
    return {"spec": {"containers": [{"name": "sidecar", "image": "x"}, {"name": "engine", **container}]}}


@pytest.mark.parametrize(
    ("container", "found"),
    [
        ({"args": ["serve", "model", "--max-num-seqs", "512"]}, 512),
        ({"args": ["--max-num-seqs=64", "--port=8000"]}, 64),
        ({"command": ["sh", "-c", "vllm serve m --max-num-seqs 1024 --port 80"]}, 1024),
        ({"command": ["sh", "-c", "exec vllm serve m --max-num-seqs='96'"]}, 96),
        ({"args": ["--max-num-seqs", "8", "--max-num-seqs", "16"]}, 16),
        ({"args": ["--max-running-requests", "48"]}, 48),
        ({"args": ["--max_batch_size", "2048"]}, 2048),
        ({"args": ["--max-num-seqs", "many"]}, None),
        ({"args": ["--max-num-seqs", "0"]}, None),
        ({"args": ["--no-max-num-seqs-at-all"]}, None),
        ({"args": "--max-num-seqs 5"}, 5),
        ({}, None),
    ],
)
def test_the_engines_setting_is_read_from_its_arguments(container: dict[str, object], found: int) -> None:
    group = GroupSpec.model_validate({"name": "d", "role": "Decode", "template": template(**container)})
    assert declared_sequences(group) == found


def test_a_workload_that_is_only_scaled_says_nothing() -> None:
    target = {"kind": "Deployment", "name": "decode"}
    group = GroupSpec.model_validate({"name": "d", "role": "Decode", "scaleTargetRef": target})
    assert declared_sequences(group) is None


def with_setting(most: int) -> HawkPoolSpec:
    body = pool(itl=None).to_dict()
    body["groups"][1]["template"] = template(args=["--max-num-seqs", str(most)])
    return HawkPoolSpec.model_validate(body)


def need_of(spec: HawkPoolSpec) -> tuple[int, str]:
    body = {"apiVersion": "hawkpool.dev/v1alpha1", "kind": "HawkPool", "metadata": {"name": "p"}}
    whole = HawkPool.model_validate(body | {"spec": spec.to_dict()})
    problem = Problem.of(whole, CLASSES, load_preset("llama-3.1-8b"))
    prompt, output = (distribution.of({tokens: 1.0}) for tokens in (2048.0, 256.0))
    need = needs_of(problem, OfferedLoad(10.0, prompt, output), {}).decode["second"]
    return need.batch, need.limit


def test_sizing_fills_what_the_engine_takes_and_no_more_than_the_memory() -> None:
    assert need_of(pool(itl=None)) == (
        ASSUMED.most_sequences,
        "the engine's batch of 256, KV memory would hold 328",
    )
    assert need_of(with_setting(32)) == (32, "the engine's batch of 32, KV memory would hold 328")
    batch, limit = need_of(with_setting(1000))
    assert batch == 328
    assert limit.startswith("KV memory")


def test_a_plan_lists_both_bounds_and_who_set_them() -> None:
    listed = {one.name: one for one in question(with_setting(32)).assumptions}
    assert listed["second.sequences_by_memory"].value == 328
    assert listed["second.sequences_by_engine"].value == 32
    assert "template" in listed["second.sequences_by_engine"].source
    listed = {one.name: one for one in question(with_setting(32), most_sequences=400).assumptions}
    assert listed["second.sequences_by_engine"].value == 400
    assert listed["second.sequences_by_engine"].option == "--assume most_sequences="


def test_a_larger_engine_batch_needs_fewer_replicas_in_a_plan() -> None:
    many, few = (split(question(with_setting(most), requests_per_second=100.0).scenario) for most in (300, 8))
    assert few.devices > many.devices
