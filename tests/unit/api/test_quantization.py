"""Weights as they were published: quantization_config of config.json, and hf_quant_config.json beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api.models import Geometry, ModelConfigError, load_preset, parse_config
from hawk_api.v1alpha1 import Precision
from tests.unit.api.test_models import CONFIGS

DENSE = CONFIGS["qwen3-8b"]
EXPERTS = CONFIGS["qwen3-30b-a3b"]
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3"}


def compressed(kind: str, bits: int, **more: Any) -> dict[str, Any]:
    weights = {"type": kind, "num_bits": bits, **more}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]}


def read(config: dict[str, Any], own: object = None, beside: object = None) -> Geometry:
    whole = config if own is None else {**config, "quantization_config": own}
    return parse_config(json.dumps(whole), quantization=None if beside is None else json.dumps(beside))


@pytest.mark.parametrize(
    ("own", "bytes_each"),
    [
        (BLOCKS, 1 + 4 / 16384),
        ({"quant_method": "fp8"}, 1.0),
        ({"quant_method": "fbgemm_fp8"}, 1.0),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, 0.5 + 2.5 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True}, 0.5 + 2 / 32),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": True}, 1.0),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 1.0),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 0.5 + 4 / 64),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 1.0),
        ({"quant_algo": "NVFP4", "ignore": ["lm_head"]}, 0.5625),
        (compressed("float", 8, strategy="channel"), 1.0),
        (compressed("float", 4, group_size=16), 0.5625),
        (compressed("int", 4, group_size=128, symmetric=True), 0.5 + 2 / 128),
    ],
)
def test_every_matrix_of_a_layer_has_the_published_format(own: dict[str, Any], bytes_each: float) -> None:
    plain, found = read(DENSE), read(DENSE, own)
    matrices = sum(layer.attention.parameters + layer.ffn.resident for layer in plain.layers)

    assert found.layers == plain.layers
    assert found.weights_bytes() == pytest.approx(
        plain.weights_bytes() - matrices * (2 - bytes_each), rel=1e-9
    )
    assert found.precision is found.ffn_precision


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [("deepseek-v3", 673), ("gpt-oss-120b", 65), ("gpt-oss-20b", 14), ("kimi-k2", 1029)],
)
def test_presets_weigh_what_was_published(name: str, gigabytes: int) -> None:
    assert load_preset(name).weights_bytes() / 1e9 == pytest.approx(gigabytes, rel=0.02)


def test_the_config_of_a_preset_gives_its_formats() -> None:
    kept = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    found = read(CONFIGS["gpt-oss-20b"], {"quant_method": "mxfp4", "modules_to_not_convert": kept})

    assert found.weights_bytes() == load_preset("gpt-oss-20b").weights_bytes()
    assert (found.precision, found.ffn_precision) == (Precision.BFLOAT16, Precision.FLOAT4)


@pytest.mark.parametrize(
    "excluded",
    [
        [f"model.layers.{index}.self_attn*" for index in range(48)],
        ["model.layers.*.self_attn"],
        ["self_attn"],
        ["re:.*self_attn.*"],
        [f"model.layers.{index}.self_attn.{one}_proj" for index in range(48) for one in "qkvo"],
        ["self_attn.q_proj"],
    ],
)
def test_attention_that_is_excluded_keeps_its_format_however_it_is_named(excluded: list[str]) -> None:
    beside = {
        "producer": {},
        "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head", *excluded]},
    }
    plain, found = read(EXPERTS), read(EXPERTS, beside=beside)

    assert found.weight_parts().attention == plain.weight_parts().attention
    assert found.weight_parts().experts == plain.weight_parts().experts * 0.5625 / 2
    assert (found.precision, found.ffn_precision) == (Precision.BFLOAT16, Precision.FLOAT4)


def test_a_layer_that_is_excluded_keeps_its_formats_alone() -> None:
    own = {**BLOCKS, "modules_to_not_convert": ["model.layers.1"]}
    formats = [stored.ffn.precision for _, stored in read(DENSE, own).stored_layers]

    assert formats[1] is Precision.BFLOAT16
    assert {*formats[:1], *formats[2:]} == {Precision.FLOAT8}, "layers 10 to 19 are no part of layer 1"


def test_mixed_precision_names_each_module() -> None:
    layers = {
        **{
            f"model.layers.{i}.self_attn.{one}_proj": {"quant_algo": "FP8"}
            for i in range(48)
            for one in "qkvo"
        },
        **{
            f"model.layers.{i}.mlp.experts.{e}.{one}_proj": {"quant_algo": "NVFP4"}
            for i in range(48)
            for e in range(2)
            for one in ("gate", "up", "down")
        },
    }
    beside = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}}
    found = read(EXPERTS, beside=beside)

    assert (found.precision, found.ffn_precision) == (Precision.FLOAT8, Precision.FLOAT4)


def test_the_own_key_has_precedence_over_the_file_beside() -> None:
    beside = {"quantization": {"quant_algo": "NVFP4"}}

    assert read(DENSE, BLOCKS, beside).precision is Precision.FLOAT8


@pytest.mark.parametrize(
    ("own", "beside", "says"),
    [
        ({"quant_method": "aqlm"}, None, r"quant_method 'aqlm' is not known; known are awq.*give spec.model"),
        ({}, None, "quant_method None is not known"),
        ([], None, "quantization_config: not a JSON object"),
        ({"quant_method": "modelopt", "quant_algo": "FP1"}, None, "quant_algo 'FP1' is not known"),
        ({"quant_method": "gptq", "bits": 3}, None, "3 bits a weight; known are 4 and 8"),
        ({"quant_method": "fp8", "weight_block_size": [0, 1]}, None, "weight_block_size is"),
        (
            {"quant_method": "fp8", "ignored_layers": "all"},
            None,
            "ignored_layers is 'all'; it must be a list",
        ),
        ({"quant_method": "compressed-tensors"}, None, "config_groups: not a JSON object"),
        (compressed("float", 6), None, "6 bits of type 'float'"),
        (None, {"quantization": {"quant_algo": "MIXED_PRECISION"}}, "quantized_layers: not a JSON object"),
        (None, [], "hf_quant_config.json: not a JSON object"),
    ],
)
def test_formats_that_are_not_known_are_refused_by_their_key(own: object, beside: object, says: str) -> None:
    with pytest.raises(ModelConfigError, match=says):
        read(DENSE, own, beside)


WORDS = """
    bits group_size config_groups weights targets type num_bits ignore quant_algo quantized_layers dynamic
    modules_to_not_convert weight_block_size block_structure
"""
KEYS = st.sampled_from(WORDS.split())
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["fp8", "awq", "Linear", "re:(", "*", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(
    st.sampled_from(["fp8", "awq", "mxfp4", "compressed-tensors", "modelopt", "bitsandbytes"]),
    st.dictionaries(KEYS, JSON),
)
def test_any_value_is_read_or_refused_by_its_key(method: str, values: dict[str, Any]) -> None:
    try:
        found = read(DENSE, {**values, "quant_method": method})
    except ModelConfigError as error:
        said = str(error)
    else:
        said = "quantization_config"
        assert found.weights_bytes() > 0
    assert "quantization_config" in said
