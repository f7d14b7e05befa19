"""Families of config.json without a preset: parameters as published, and the KV cache of their layers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api.models import Geometry, ModelConfigError, load_preset, parse_config
from tests.unit.api.test_models import CONFIGS

LLAMA4 = {
    "model_type": "llama4_text",
    "hidden_size": 5120,
    "intermediate_size": 8192,
    "num_hidden_layers": 48,
    "intermediate_size_mlp": 16384,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "vocab_size": 202048,
    "num_experts_per_tok": 1,
    "attention_chunk_size": 8192,
}
MINIMAX_M2 = {
    "model_type": "minimax_m2",
    "hidden_size": 3072,
    "intermediate_size": 1536,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 200064,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
}
GEMMA3_12B = {
    "model_type": "gemma3_text",
    "hidden_size": 3840,
    "intermediate_size": 15360,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "sliding_window": 1024,
}
PHI3 = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32064,
    "max_position_embeddings": 131072,
    "sliding_window": 262144,
}


DSA = {
    "model_type": "glm_moe_dsa",
    "hidden_size": 6144,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 78,
    "num_attention_heads": 64,
    "q_lora_rank": 2048,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "vocab_size": 154880,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_topk": 2048,
}
QWEN35 = {
    "model_type": "qwen3_5_moe_text",
    "hidden_size": 2048,
    "moe_intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "shared_expert_intermediate_size": 512,
    "num_hidden_layers": 40,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "vocab_size": 248320,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
}
NEMOTRON = {
    "model_type": "nemotron_h",
    "hidden_size": 2688,
    "intermediate_size": 1856,
    "num_hidden_layers": 52,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
    "mamba_ssm_cache_dtype": "float32",
    "moe_intermediate_size": 1856,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "moe_shared_expert_intermediate_size": 3712,
    "vocab_size": 131072,
}


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
        (DSA, 743.91, 78 * (576 * 2 + 132)),
    ],
)
def test_parameters_are_the_published_ones(config: dict[str, Any], billions: float, kv_bytes: int) -> None:
    """KV bytes of a token as long as every layer still keeps it."""
    found = read(config)

    assert found.weights.total / 1e9 == pytest.approx(billions, abs=0.006)
    assert found.kv_bytes(1000) == 1000 * kv_bytes


@pytest.mark.parametrize(
    ("config", "billions", "kv_bytes", "state_bytes"),
    [
        (QWEN35, 34.66, 10 * 2 * 2 * 256 * 2, 30 * (32 * 128 * 128 * 4 + (2 * 16 + 32) * 128 * 3 * 2)),
        (NEMOTRON, 31.58, 6 * 2 * 2 * 128 * 2, 23 * (4096 * 128 * 4 + (4096 + 2 * 8 * 128) * 3 * 2)),
    ],
)
def test_states_come_on_top_of_the_kv_of_attention(
    config: dict[str, Any], billions: float, kv_bytes: int, state_bytes: int
) -> None:
    found = read(config)

    assert found.weights.total / 1e9 == pytest.approx(billions, abs=0.006)
    assert found.kv_bytes(1000) == 1000 * kv_bytes + state_bytes


def test_words_for_layers_say_what_letters_do() -> None:
    words = {"M": "mamba", "*": "attention", "E": "moe"}
    pattern = str(NEMOTRON["hybrid_override_pattern"])

    assert (
        read({**NEMOTRON, "layers_block_type": [words[one] for one in pattern]}).layers
        == read(NEMOTRON).layers
    )


def test_experts_in_a_latent_are_smaller_and_shared_ones_are_not() -> None:
    """Nemotron 3 Super, as published: 120.6 billion parameters, 12.7 of them active."""
    pattern = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"
    found = read(
        {
            **NEMOTRON,
            "hidden_size": 4096,
            "mamba_num_heads": 128,
            "num_hidden_layers": 88,
            "hybrid_override_pattern": pattern,
            "moe_intermediate_size": 2688,
            "moe_latent_size": 1024,
            "moe_shared_expert_intermediate_size": 5376,
            "n_routed_experts": 512,
            "num_experts_per_tok": 22,
        }
    )

    assert found.weights.total / 1e9 == pytest.approx(120.6, rel=0.01)
    assert found.weights.active / 1e9 == pytest.approx(12.7, rel=0.03)


def test_an_index_is_read_whole_and_the_latents_that_it_chooses_alone() -> None:
    found, dense = read(DSA), read({**DSA, "model_type": "deepseek_v3"})

    for layer in found.layers:
        assert layer.attention.read_bytes(100_000, 2) == 2048 * 576 * 2 + 100_000 * 132
    assert found.kv_bytes(100_000) == dense.kv_bytes(100_000) + 78 * 100_000 * 132
    assert found.attention_flops(100_000) < dense.attention_flops(100_000) / 5


def test_layers_that_share_an_index_have_none_of_their_own() -> None:
    kinds = ["full", "shared"] * 39
    found = read({**DSA, "indexer_types": kinds})

    assert found.kv_bytes(1000) == 1000 * (78 * 576 * 2 + 39 * 132)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({**DSA, "indexer_types": ["full"]}, "indexer_types must list num_hidden_layers entries"),
        ({**DSA, "indexer_types": ["none"] * 78}, "indexer_types has 'none'; known are full, shared"),
        ({**DSA, "index_topk": None}, "index_topk is missing"),
        ({**QWEN35, "layer_types": ["mamba"] * 40}, "layer_types has 'mamba'; known are full_attention"),
        ({**QWEN35, "layer_types": ["full_attention"]}, "layer_types must list num_hidden_layers entries"),
        ({**QWEN35, "shared_expert_intermediate_size": 500}, "500 is no multiple of an expert's 512"),
        ({**QWEN35, "mlp_only_layers": [1]}, "mlp_only_layers"),
        ({**NEMOTRON, "hybrid_override_pattern": "M"}, "must have one entry for each layer"),
        ({**NEMOTRON, "hybrid_override_pattern": "?" * 52}, "hybrid_override_pattern has '\\?'"),
        ({**NEMOTRON, "layers_block_type": ["conv"] * 52}, "layers_block_type has 'conv'"),
    ],
)
def test_a_layer_that_is_not_known_is_refused_by_its_key(config: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelConfigError, match=says):
        read(config)


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


EVERY = [
    *CONFIGS.values(),
    LLAMA4 | {"num_local_experts": 16},
    MINIMAX_M2,
    GEMMA3_12B,
    PHI3,
    DSA,
    QWEN35,
    NEMOTRON,
]
OPTIONAL = [
    "layer_types",
    "indexer_types",
    "sliding_window",
    "layers_block_type",
    "moe_latent_size",
    "text_config",
]


@given(
    st.sampled_from(EVERY).flatmap(
        lambda config: st.tuples(st.just(config), st.sampled_from([*config, *OPTIONAL]))
    ),
    st.sampled_from([None, 0, -1, 3, 1.5, True, "x", "M" * 52, [], [1], [None] * 48, {}, {"a": 1}, 10**30]),
)
def test_any_value_of_any_key_is_read_or_refused(at: tuple[dict[str, Any], str], value: object) -> None:
    config, key = at
    try:
        found = read({**config, key: value})
    except ModelConfigError as error:
        said = str(error)
    else:
        said = "config.json"
        assert found.weights_bytes() > 0
    assert said.startswith("config.json")
