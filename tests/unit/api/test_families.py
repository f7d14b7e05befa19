"""Families of config.json without a preset: parameters as published, and the KV cache of their layers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hawk_api.models import Geometry, load_preset, parse_config
from tests.unit.api.test_models import CONFIGS

LLAMA4 = {
    "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192, "num_hidden_layers": 48,
    "intermediate_size_mlp": 16384, "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 202048,
    "num_experts_per_tok": 1, "attention_chunk_size": 8192,
}  # fmt: skip
MINIMAX_M2 = {
    "model_type": "minimax_m2", "hidden_size": 3072, "intermediate_size": 1536, "num_hidden_layers": 62,
    "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 200064,
    "num_local_experts": 256, "num_experts_per_tok": 8,
}  # fmt: skip
GEMMA3_12B = {
    "model_type": "gemma3_text", "hidden_size": 3840, "intermediate_size": 15360, "num_hidden_layers": 48,
    "num_attention_heads": 16, "num_key_value_heads": 8, "sliding_window": 1024,
}  # fmt: skip
PHI3 = {
    "model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064,
    "max_position_embeddings": 131072, "sliding_window": 262144,
}  # fmt: skip


def read(config: dict[str, Any]) -> Geometry:
    return parse_config(json.dumps(config))


@pytest.mark.parametrize(
    ("config", "billions", "kv_bytes"),
    [
        ({**LLAMA4, "num_local_experts": 16}, 107.77, 48 * 4096),
        ({**LLAMA4, "num_local_experts": 128, "interleave_moe_layer_step": 2}, 400.71, 48 * 4096),
        (MINIMAX_M2, 228.69, 62 * 4096),
        (GEMMA3_12B, 11.77, 48 * 2 * 8 * 256 * 2),
        (PHI3, 3.82, 32 * 2 * 3072 * 2),
    ],
)
def test_parameters_are_the_published_ones(config: dict[str, Any], billions: float, kv_bytes: int) -> None:
    """KV bytes of a token as long as every layer still keeps it."""
    found = read(config)

    assert found.weights.total / 1e9 == pytest.approx(billions, abs=0.006)
    assert found.kv_bytes(1000) == 1000 * kv_bytes


def test_chunked_layers_keep_a_chunk_at_most() -> None:
    found = read({**LLAMA4, "num_local_experts": 16})

    assert found.kv_bytes(65_536) == 4096 * (12 * 65_536 + 36 * 8192)


def test_head_dim_of_a_family_is_its_class_s_and_never_derived() -> None:
    """3840 hidden elements over 16 heads would be 240."""
    assert {layer.attention.head_dim for layer in read(GEMMA3_12B).layers} == {256}


def test_a_window_as_long_as_the_context_is_none() -> None:
    whole, windowed = read(PHI3), read({**PHI3, "sliding_window": 2047})

    assert whole.kv_bytes_per_token() == 2 * 32 * 3072 * 2
    assert windowed.kv_bytes(4096) == whole.kv_bytes(2047)


def test_a_vision_language_model_counts_its_text_part() -> None:
    text = {**CONFIGS["qwen3-8b"], "model_type": "qwen3_vl_text"}
    text.pop("tie_word_embeddings", None)
    found = read({"model_type": "qwen3_vl", "text_config": text, "vision_config": {"depth": 27}})

    assert found.weights == load_preset("qwen3-8b").weights
