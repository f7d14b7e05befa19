"""Sizing, plans and simulation take the same time for a decode step, whatever the kind of model."""

from __future__ import annotations

from itertools import pairwise

import pytest

from hawk_api.models import load_preset
from hawk_api.v1alpha1 import DataType, Precision, Role
from hawk_planner.payoff.roofline import Machine
from hawk_planner.payoff.work import ModelCosts
from hawk_planner.perf.experts import expert_groups
from hawk_planner.simulate.workers import StepCost
from hawk_planner.sizing import ModelWork, Worker
from hawk_planner.sizing.roofline import (
    DECODE_MBU,
    PREFILL_MFU,
    STEP_OVERHEAD_S,
    TENSOR_EFFICIENCY,
)

from .pools import group

DENSE, EXPERTS, LATENT = "mistral-7b-instruct-v0.2", "mixtral-8x7b-v0.1", "deepseek-v3"
WINDOWED, HYBRID = "gpt-oss-20b", "kimi-linear-48b-a3b"
KINDS = (DENSE, EXPERTS, LATENT, WINDOWED, HYBRID)
DEVICES = 8
NODE = Worker(flops=DEVICES * 1979e12, bandwidth=DEVICES * 4.8e12, memory=DEVICES * 141e9, devices=DEVICES)
CONTEXT = 4096


def planned(name: str, batch: float) -> float:
    """The plan's seconds of a step on the same devices."""
    sharing = TENSOR_EFFICIENCY**3
    machine = Machine(
        flops=(NODE.flops or 0) * sharing,
        bytes_per_second=(NODE.bandwidth or 0) * sharing,
        compute_share=PREFILL_MFU,
        memory_share=DECODE_MBU,
    )
    costs = ModelCosts(load_preset(name), DataType.FLOAT16)
    return costs.decode(CONTEXT).timer(machine, STEP_OVERHEAD_S)(batch)


@pytest.mark.parametrize("batch", [1, 2, 8, 32])
@pytest.mark.parametrize("name", KINDS)
def test_a_step_takes_the_same_time_everywhere(name: str, batch: int) -> None:
    """Where reading is the limit, which it is at these batches."""
    work = ModelWork.of(load_preset(name), DataType.FLOAT16)
    sized = NODE.step_seconds(work, batch, CONTEXT)
    assert sized == pytest.approx(planned(name, batch), rel=1e-6)
    simulated, _ = StepCost.of(group("all", Role.DECODE, worker=NODE), work).line(batch, batch * CONTEXT)
    assert simulated == pytest.approx(sized, rel=1e-6)


def test_a_step_reads_the_experts_that_its_tokens_choose() -> None:
    """One token of DeepSeek-V3 chooses 8 of 256 experts a layer: a twentieth of the model, not all of it."""
    work = ModelWork.of(load_preset(LATENT), DataType.FLOAT16)
    assert work.step_bytes(1) < 0.06 * work.weight_bytes
    assert work.step_bytes(10_000) == pytest.approx(work.weight_bytes - work.lookup_bytes, rel=1e-6)
    read = [work.step_bytes(2**power) for power in range(12)]
    assert all(less < more for less, more in pairwise(read))
    assert NODE.step_seconds(work, 1, CONTEXT) < 0.004


def test_a_dense_model_reads_all_its_weights() -> None:
    work = ModelWork.of(load_preset(DENSE), DataType.FLOAT16)
    assert work.experts == ()
    assert work.step_bytes(1) == work.step_bytes(64) == work.weight_bytes - work.lookup_bytes


def test_shared_experts_are_read_by_every_step() -> None:
    geometry = load_preset(LATENT)
    [routed] = expert_groups(geometry, Precision.FLOAT8)
    shared = sum(layer.ffn.shared * layer.ffn.expert_parameters for layer in geometry.layers)
    assert shared > 0
    dense = sum(layer.ffn.expert_parameters for layer in geometry.layers if not layer.ffn.experts)
    assert routed.nbytes == geometry.weights.ffn_resident - shared - dense
    assert routed.touched(1) == pytest.approx(routed.nbytes * 8 / 256)


def test_decoding_over_a_latent_multiplies_the_latent_itself() -> None:
    """128 heads; 576 elements for a key (the latent and its rotary part), 512 for a value, as published."""
    [attention] = {layer.attention for layer in load_preset(LATENT).layers}
    assert attention.decode_work_per_pair == 2 * 128 * (576 + 512) == 278_528
    assert attention.work_per_pair == 2 * 128 * (192 + 128) == 81_920
    work = ModelWork.of(load_preset(LATENT), DataType.FLOAT16)
    assert work.token_flops(1001) - work.token_flops(1000) == pytest.approx(61 * 278_528)


@pytest.mark.parametrize("name", [DENSE, EXPERTS, WINDOWED])
def test_elsewhere_a_decoded_token_attends_as_a_prefilled_one(name: str) -> None:
    for layer in load_preset(name).layers:
        assert layer.attention.decode_work_per_pair == layer.attention.work_per_pair
