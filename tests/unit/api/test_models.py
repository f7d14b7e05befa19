import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_api.models import (
    Geometry,
    ModelConfigError,
    from_spec,
    load_preset,
    parse_config,
    preset_names,
    resolve_geometry,
)
from hawk_api.v1alpha1 import AttentionKind, DataType, GeometrySpec, ModelSpec, Precision

PUBLISHED = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.3-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b-instruct-v0.2": 7_241_732_096,
    "mixtral-8x7b-v0.1": 46_702_792_704,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_419_200,
    "gemma-2-9b": 9_241_705_984,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "phi-4": 14_659_507_200,
    "opt-125m": 125_239_296,
}
"""Parameter counts that the models' publishers give."""


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_weights_add_up_to_the_published_count(name: str, count: int) -> None:
    assert load_preset(name).weights.total == count


@pytest.mark.parametrize(
    ("name", "billions"), [("kimi-linear-48b-a3b", 48), ("kimi-k2", 1000), ("gemma-3-27b", 27)]
)
def test_weights_are_near_the_name_where_only_that_is_published(name: str, billions: int) -> None:
    assert load_preset(name).weights.total / 1e9 == pytest.approx(billions, rel=0.03)


def test_kv_of_a_70b_llama_at_32k() -> None:
    llama = load_preset("llama-3.3-70b")

    assert llama.kv_bytes(32_768) == 10_737_418_240
    assert llama.prefill_flops(32_768, attention=False) == pytest.approx(4.63e15, rel=2e-3)


def test_dense_and_expert_weights_of_the_mistral_pair() -> None:
    mistral, mixtral = load_preset("mistral-7b-instruct-v0.2"), load_preset("mixtral-8x7b-v0.1")

    assert mistral.weights.ffn_resident == 5_637_144_576
    assert mixtral.weights.ffn_resident == 45_097_156_608
    assert [round(2 * g.weights.other / 1e9, 3) for g in (mistral, mixtral)] == [3.209, 3.211]
    assert [round(g.weights_bytes() / 1e9, 3) for g in (mistral, mixtral)] == [14.483, 93.406]
    assert [round(g.ffn_flops_per_token() / 1e9, 3) for g in (mistral, mixtral)] == [11.274, 22.549]
    assert mistral.kv_bytes(16_384) == 2 * 2**30
    assert mistral.kv_bytes_per_token() == 131_072
    assert 2 * mistral.weights.ffn_resident == 11_274_289_152
    assert 2 * mixtral.weights.ffn_resident == 84 * 2**30


@pytest.mark.parametrize(
    ("name", "bytes_per_token"), [("qwen3-8b", 147_456), ("deepseek-v3", 70_272), ("gpt-oss-20b", 24_576)]
)
def test_bytes_a_further_token(name: str, bytes_per_token: int) -> None:
    assert load_preset(name).kv_bytes_per_token(DataType.BFLOAT16) == bytes_per_token


@pytest.mark.parametrize("name", preset_names())
@settings(max_examples=25)
@given(tokens=st.integers(0, 300_000), dtype=st.sampled_from(DataType))
def test_retained_state_of_every_preset(name: str, tokens: int, dtype: DataType) -> None:
    """Layers add up, more tokens never take less, and far out each token adds the same."""
    model = load_preset(name)

    assert model.kv_bytes(tokens, dtype) == sum(model.kv_bytes_by_layer(tokens, dtype))
    assert model.kv_bytes(tokens, dtype) <= model.kv_bytes(tokens + 1, dtype)
    assert model.kv_read_bytes(tokens, dtype) <= model.kv_bytes(tokens, dtype)
    far = 10_000 + tokens
    per_token = model.kv_bytes_per_token(dtype)
    assert model.kv_bytes(far + 1, dtype) - model.kv_bytes(far, dtype) == per_token
    assert model.kv_bytes(far, dtype) == model.kv_bytes_fixed(dtype) + far * per_token
    assert model.kv_bytes(0, dtype) == 0


@given(st.integers(1, 400), st.integers(1, 64))
def test_attention_work_of_a_prefill_is_that_of_its_tokens(tokens: int, window: int) -> None:
    model = from_spec(_spec(attention="Hybrid", globalEvery=3, window=window))
    one_by_one = sum(model.attention_flops(context) for context in range(1, tokens + 1))

    assert model.prefill_flops(tokens) - model.prefill_flops(tokens, attention=False) == one_by_one


def test_a_hybrid_keeps_a_window_in_some_layers_and_everything_in_others() -> None:
    model = from_spec(_spec(layers=6, attention="Hybrid", globalEvery=3, window=100))
    one = 2 * 2 * 8 * 2  # keys and values, two heads of eight, two bytes

    assert model.attention is AttentionKind.HYBRID
    assert model.kv_bytes_by_layer(1000) == tuple(one * n for n in (100, 100, 1000, 100, 100, 1000))


def test_a_recurrent_state_is_there_from_the_first_token_and_stays() -> None:
    model = from_spec(_spec(attention="Linear", stateBytes="2Mi"))

    assert [model.kv_bytes(n) for n in (0, 1, 10**6)] == [0, 4 * 2 * 2**20, 4 * 2 * 2**20]


def test_sparse_attention_keeps_all_and_reads_few() -> None:
    model = from_spec(_spec(attention="Sparse", window=64))

    assert model.kv_bytes(1000) == from_spec(_spec()).kv_bytes(1000)
    assert model.kv_read_bytes(1000) == from_spec(_spec()).kv_bytes(64)


def test_kimi_linear_grows_in_one_layer_of_four() -> None:
    kimi = load_preset("kimi-linear-48b-a3b")
    growing = [index for index, layer in enumerate(kimi.layers) if layer.attention.grows()]

    assert growing == [3, 7, 11, 15, 19, 23, 26]
    assert kimi.kv_bytes_per_token() == 7 * (512 + 64) * 2


def test_weights_in_other_formats() -> None:
    gpt = load_preset("gpt-oss-20b")

    assert gpt.weights_bytes() == pytest.approx(13.76e9, rel=1e-3)
    assert gpt.weights_bytes(Precision.BFLOAT16) == 2 * gpt.weights.total


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown model 'llama3.3-70b'; did you mean llama-3.3-70b"):
        load_preset("llama3.3-70b")
    with pytest.raises(ValueError, match="choose one of llama-3-8b"):
        load_preset("§")


LLAMA_70B = {
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama-3.3-70b": LLAMA_70B,
    "mistral-7b-instruct-v0.2": {
        "model_type": "mistral",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "vocab_size": 32000,
    },
    "mixtral-8x7b-v0.1": {
        "model_type": "mixtral",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": None,
        "vocab_size": 32000,
    },
    "qwen2.5-7b": {
        "model_type": "qwen2",
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "max_window_layers": 28,
        "num_attention_heads": 28,
        "num_hidden_layers": 28,
        "num_key_value_heads": 4,
        "sliding_window": 131072,
        "use_sliding_window": False,
        "tie_word_embeddings": False,
        "vocab_size": 152064,
    },
    "qwen3-8b": {
        "model_type": "qwen3",
        "head_dim": 128,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_attention_heads": 32,
        "num_hidden_layers": 36,
        "num_key_value_heads": 8,
        "tie_word_embeddings": False,
        "vocab_size": 151936,
    },
    "qwen3-30b-a3b": {
        "model_type": "qwen3_moe",
        "decoder_sparse_step": 1,
        "head_dim": 128,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "mlp_only_layers": [],
        "moe_intermediate_size": 768,
        "num_attention_heads": 32,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 48,
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
        "vocab_size": 151936,
    },
    "deepseek-v3": {
        "model_type": "deepseek_v3",
        "first_k_dense_replace": 3,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "kv_lora_rank": 512,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_attention_heads": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 61,
        "num_key_value_heads": 128,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "tie_word_embeddings": False,
        "v_head_dim": 128,
        "vocab_size": 129280,
    },
    "gemma-3-27b": {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "head_dim": 128,
            "hidden_size": 5376,
            "intermediate_size": 21504,
            "num_attention_heads": 32,
            "num_hidden_layers": 62,
            "num_key_value_heads": 16,
            "sliding_window": 1024,
            "sliding_window_pattern": 6,
            "vocab_size": 262208,
        },
    },
    "gpt-oss-20b": {
        "model_type": "gpt_oss",
        "head_dim": 64,
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
        "num_attention_heads": 64,
        "num_experts_per_tok": 4,
        "num_hidden_layers": 24,
        "num_key_value_heads": 8,
        "num_local_experts": 32,
        "sliding_window": 128,
        "tie_word_embeddings": False,
        "vocab_size": 201088,
    },
    "opt-125m": {
        "model_type": "opt",
        "ffn_dim": 3072,
        "hidden_size": 768,
        "max_position_embeddings": 2048,
        "num_attention_heads": 12,
        "num_hidden_layers": 12,
        "vocab_size": 50272,
        "word_embed_proj_dim": 768,
    },
}


@pytest.mark.parametrize(("name", "config"), CONFIGS.items())
def test_a_config_json_gives_what_the_preset_gives(name: str, config: dict[str, Any]) -> None:
    read = parse_config(json.dumps(config))

    assert read.layers == load_preset(name).layers
    assert read.weights == load_preset(name).weights


@pytest.mark.parametrize(
    "key",
    [key for key in LLAMA_70B if key not in {"model_type", "tie_word_embeddings", "num_key_value_heads"}],
)
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(ModelConfigError, match=f"{key} is missing"):
        parse_config(json.dumps({k: v for k, v in LLAMA_70B.items() if k != key}), "my.json")


@pytest.mark.parametrize("value", [0, -1, "64", 6.5, True, 1 << 40])
def test_a_wrong_value_is_named(value: object) -> None:
    with pytest.raises(ModelConfigError, match=r"num_hidden_layers is .*whole number"):
        parse_config(json.dumps({**LLAMA_70B, "num_hidden_layers": value}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "model_type 'None' is not known"),
        ('{"model_type": "mamba2"}', r"'mamba2' is not known; known are .*llama.*geometry"),
        (json.dumps({**LLAMA_70B, "num_key_value_heads": 7}), "64 query heads are no multiple of 7"),
        (json.dumps({**LLAMA_70B, "num_attention_heads": 60}), "hidden_size 8192 is no multiple"),
        (" " * (1 << 24), "at most"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_config_is_refused(text: str, says: str) -> None:
    with pytest.raises(ModelConfigError, match=says):
        parse_config(text)


def test_a_pool_names_its_model_in_one_of_three_ways() -> None:
    by_name = resolve_geometry(ModelSpec(preset="qwen3-8b"))
    by_config = resolve_geometry(
        ModelSpec.model_validate({"configMapRef": {"name": "m"}}), json.dumps(CONFIGS["qwen3-8b"])
    )

    assert by_name.layers == by_config.layers
    assert resolve_geometry(ModelSpec.model_validate({"geometry": _spec().to_dict()})).layer_count == 4
    with pytest.raises(ValueError, match=r"ConfigMap m has no key config.json"):
        resolve_geometry(ModelSpec.model_validate({"configMapRef": {"name": "m"}}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kvHeads": None}, "kvHeads is needed"),
        ({"kvHeads": 3}, "no multiple"),
        ({"attention": "Sliding"}, "window is needed"),
        ({"attention": "MLA"}, "latentRank is needed"),
        ({"attention": "Linear"}, "stateBytes is needed"),
        ({"attention": "Hybrid", "globalEvery": 2}, "window is needed"),
        ({"experts": 8}, "expertsPerToken is needed"),
    ],
)
def test_a_geometry_that_lacks_something_says_what(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        from_spec(_spec(**changes))


def test_tokens_are_not_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        load_preset("qwen3-8b").kv_bytes(-1)


def _spec(**changes: Any) -> GeometrySpec:
    shape = {
        "layers": 4,
        "queryHeads": 4,
        "kvHeads": 2,
        "headDim": 8,
        "hidden": 32,
        "ffn": 64,
        "vocabulary": 100,
    }
    return GeometrySpec.model_validate({**shape, **changes})


def test_geometries_can_be_shared() -> None:
    assert isinstance(hash(load_preset("llama-3.3-70b").layers), int)
    assert load_preset("llama-3.3-70b") is load_preset("llama-3.3-70b")
    assert isinstance(load_preset("llama-3.3-70b"), Geometry)
