"""Heads of keys and values that are fewer than the devices of a replica are kept by several."""

from __future__ import annotations

import pytest

from hawk_api.models import load_preset
from hawk_planner.perf.work import ModelWork
from hawk_planner.sizing.worker import Worker


def work(model: str) -> ModelWork:
    return ModelWork.of(load_preset(model), "float16")


@pytest.mark.parametrize(
    ("model", "devices", "copies"),
    [
        ("deepseek-v3", 1, 1),
        ("deepseek-v3", 8, 8),
        ("llama-3.1-8b", 8, 1),
        ("llama-3.1-8b", 16, 2),
        ("qwen3-30b-a3b", 8, 2),
        ("gpt-oss-20b", 16, 2),
    ],
)
def test_state_is_kept_and_read_once_for_each_device_that_lacks_a_head(
    model: str, devices: int, copies: int
) -> None:
    one, held = work(model), work(model).on(devices)

    assert held.kv_bytes(1000) == copies * one.kv_bytes(1000)
    assert held.decode(1000).state_bytes == copies * one.decode(1000).state_bytes
    assert held.decode(1000).flops == one.decode(1000).flops
    assert held.layer_bytes(1000) == one.layer_bytes(1000), "a transfer carries it once"


def test_states_of_a_fixed_size_are_split() -> None:
    """Only the latents of a hybrid are copied."""
    one, held = work("kimi-linear-48b-a3b"), work("kimi-linear-48b-a3b").on(8)

    assert held.kv_bytes(1000) - one.kv_bytes(1000) == 7 * (one.kv_bytes(1000) - one.state_bytes)


def test_fewer_sequences_fit_where_each_device_keeps_the_latent() -> None:
    worker = Worker(8e15, 8 * 4.8e12, 8 * 141e9, devices=8)
    apart = Worker(8e15, 8 * 4.8e12, 8 * 141e9, devices=1)
    model = work("deepseek-v3")

    assert worker.memory_batch(model, 32_768) == pytest.approx(apart.memory_batch(model, 32_768) / 8, abs=1)
    assert worker.step_seconds(model, 64, 32_768) > apart.step_seconds(model, 64, 32_768)
