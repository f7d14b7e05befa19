"""Sizing, plans and simulation take the same time for a decode step, whatever the kind of model."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from hawk_api.models import load_preset
from hawk_api.v1alpha1 import DataType, Precision, Role
from hawk_planner.payoff.scenario import Device, Replica
from hawk_planner.perf.experts import expert_groups
from hawk_planner.perf.rates import ASSUMED
from hawk_planner.perf.steps import prompt_seconds, step_timer
from hawk_planner.perf.work import ModelWork
from hawk_planner.simulate.workers import StepCost
from hawk_planner.sizing import Worker

from .pools import group

DENSE, EXPERTS, LATENT = "mistral-7b-instruct-v0.2", "mixtral-8x7b-v0.1", "deepseek-v3"
WINDOWED, HYBRID = "gpt-oss-20b", "kimi-linear-48b-a3b"
KINDS = (DENSE, EXPERTS, LATENT, WINDOWED, HYBRID)
DEVICES = 8
NODE = Worker(
    flops=DEVICES * 1979e12,
    bandwidth=DEVICES * 4.8e12,
    memory=DEVICES * 141e9,
    devices=DEVICES,
    attention_flops=DEVICES * 989e12,
)
CONTEXT = 4096


def plan_seconds(work: ModelWork, batch: float) -> float:
    """The plan's seconds of a step on the same devices."""
    device = Device("gpu", 1979e12, 141e9, 4.8e12, attention_flops=989e12)
    return step_timer(work.decode(CONTEXT), Replica(device, DEVICES).rates(ASSUMED))(batch)


@pytest.mark.parametrize("batch", [1, 2, 8, 32, 256, 2048])
@pytest.mark.parametrize("name", KINDS)
def test_a_step_takes_the_same_time_everywhere(name: str, batch: int) -> None:
    """Whatever limits it: reading weights or state, or arithmetic of linear layers or attention."""
    work = ModelWork.of(load_preset(name), DataType.FLOAT16).on(DEVICES)
    sized = NODE.step_seconds(work, batch, CONTEXT)
    assert sized == pytest.approx(plan_seconds(work, batch), rel=1e-9)
    simulated, _ = StepCost.of(group("all", Role.DECODE, worker=NODE), work).line(batch, batch * CONTEXT)
    assert simulated == pytest.approx(sized, rel=1e-9)


@pytest.mark.parametrize("name", KINDS)
def test_a_step_lies_between_perfect_overlap_and_none(name: str) -> None:
    work = ModelWork.of(load_preset(name), DataType.FLOAT16).on(DEVICES)
    rates, step = NODE.rates, work.decode(CONTEXT)
    for batch in (1, 16, 128, 1024):
        arithmetic = batch * (step.linear_flops / rates.flops + step.attention_flops / rates.attention_flops)
        reading = (work.step_bytes(batch) + batch * step.state_bytes) / rates.bytes_per_second
        seconds = NODE.step_seconds(work, batch, CONTEXT) - rates.overhead_s
        assert max(arithmetic, reading) * (1 - 1e-9) <= seconds <= (arithmetic + reading) * (1 + 1e-9)


def test_reading_the_state_is_not_hidden_behind_the_linear_layers() -> None:
    """At a batch that keeps the arithmetic busy, twice the context costs all the bytes of it."""
    work = ModelWork.of(load_preset(DENSE), DataType.FLOAT16)
    less, more = (NODE.step_seconds(work, 512, context) for context in (1000, 2000))
    state = work.kv_read_bytes(2000) - work.kv_read_bytes(1000)
    assert more - less == pytest.approx(512 * state / NODE.rates.bytes_per_second)


def test_a_chunk_beside_a_batch_shares_the_weights_and_nothing_else() -> None:
    work = ModelWork.of(load_preset(DENSE), DataType.FLOAT16)
    chunk, step, rates = work.prompt(512), work.decode(CONTEXT), NODE.rates
    both = step_timer(step, rates, chunk)(64)
    alone = prompt_seconds(chunk, rates), step_timer(step, rates)(64)
    assert max(alone) < both < sum(alone)


def test_attention_is_multiplied_in_16_bits_whatever_the_weights_are() -> None:
    work = ModelWork.of(load_preset(LATENT), DataType.FLOAT16).on(DEVICES)
    same = replace(NODE, attention_flops=None)
    faster = same.prefill_seconds(work, 32_768)
    slower = 1 / NODE.rates.attention_flops - 1 / same.rates.attention_flops
    assert NODE.prefill_seconds(work, 32_768) - faster == pytest.approx(
        work.prompt(32_768).attention_flops * slower
    )


def test_a_step_reads_the_experts_that_its_tokens_choose() -> None:
    """One token of DeepSeek-V3 chooses 8 of 256 experts a layer: a twentieth of the model, not all of it."""
    work = ModelWork.of(load_preset(LATENT), DataType.FLOAT16).on(DEVICES)
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
    work = ModelWork.of(load_preset(LATENT), DataType.FLOAT16).on(DEVICES)
    more = work.decode(1001).attention_flops - work.decode(1000).attention_flops
    assert more == pytest.approx(61 * 278_528)


@pytest.mark.parametrize("name", [DENSE, EXPERTS, WINDOWED])
def test_elsewhere_a_decoded_token_attends_as_a_prefilled_one(name: str) -> None:
    for layer in load_preset(name).layers:
        assert layer.attention.decode_work_per_pair == layer.attention.work_per_pair
