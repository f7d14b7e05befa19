"""The geometry that a Hugging Face config.json describes.

Families are told apart by `model_type`. One that isn't known is refused rather than guessed at: a wrong KV
size would plan wrong transfers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hawk_api.models.build import dense, kimi_linear, latent_attention, learned_positions
from hawk_api.models.layers import Ffn
from hawk_api.models.methods import read_quantization
from hawk_api.models.quantization import layer_formats
from hawk_api.models.reader import ModelConfigError, Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hawk_api.models.geometry import Geometry

SEPARATE = "hf_quant_config.json"
MAX_BYTES = 8 << 20
"""Largest file that is read. Real ones have some kilobytes, a list of quantized modules up to a megabyte."""


def parse_config(text: str, name: str = "config.json", *, quantization: str | None = None) -> Geometry:
    """The geometry of a config.json's text. Raises ModelConfigError.

    `quantization`: the text of the hf_quant_config.json beside it, where there is one.
    """
    separate = None if quantization is None else _parse(quantization, SEPARATE)
    return from_config(_parse(text, name), name, quantization=separate)


def _parse(text: str, name: str) -> dict[str, Any]:
    if len(text) > MAX_BYTES:
        raise ModelConfigError(f"{name}: {len(text)} characters; such a file has at most {MAX_BYTES}")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelConfigError(f"{name}: not JSON ({error}); give the model's config.json") from error
    if not isinstance(config, dict):
        raise ModelConfigError(f"{name}: not a JSON object; give the model's config.json")
    return config


def from_config(
    config: Mapping[str, Any], name: str = "config.json", *, quantization: Mapping[str, Any] | None = None
) -> Geometry:
    """The geometry of a parsed config.json, with the formats in which its weights were published.

    `quantization` is the content of hf_quant_config.json, which ModelOpt writes beside it; config.json's own
    `quantization_config` has precedence. Raises ModelConfigError.
    """
    geometry = _shape(config, name)
    inner = config.get("text_config")
    own = config.get("quantization_config")
    if own is None and isinstance(inner, dict):
        own = inner.get("quantization_config")
    if own is None and quantization is None:
        return geometry
    found = read_quantization(own, quantization, name)
    return replace(geometry, layer_formats=layer_formats(geometry.layers, found))


def _shape(config: Mapping[str, Any], name: str) -> Geometry:
    """The geometry with every weight in 16 bits."""
    inner = config.get("text_config")
    if isinstance(inner, dict) and str(config.get("model_type")) in _NESTED:
        tied = config.get("tie_word_embeddings", _NESTED[str(config["model_type"])])
        config = {"tie_word_embeddings": tied, **inner}
    family = str(config.get("model_type"))
    if family not in _FAMILIES:
        raise ModelConfigError(
            f"{name}: model_type {family!r} is not known; known are {', '.join(sorted(_FAMILIES))}; "
            "give spec.model.geometry instead"
        )
    try:
        return _FAMILIES[family](Reader(config, name))
    except ModelConfigError:
        raise
    except ValueError as error:
        raise ModelConfigError(f"{name}: {error}") from error


def _common(read: Reader, *, tied: bool = False) -> dict[str, Any]:
    return {
        "name": str(read.config.get("_name_or_path") or read.name),
        "layers": read.count("num_hidden_layers"),
        "hidden": read.count("hidden_size"),
        "heads": read.heads,
        "vocabulary": read.count("vocab_size"),
        "tied": read.flag("tie_word_embeddings", tied),
    }


def _grouped(read: Reader, *, tied: bool = False) -> dict[str, Any]:
    return {
        **_common(read, tied=tied),
        "kv_heads": read.count("num_key_value_heads", read.heads),
        "head_dim": read.head_dim,
        "ffn": read.count("intermediate_size"),
    }


def _llama(read: Reader) -> Geometry:
    bias = read.flag("attention_bias", False)
    return dense(**_grouped(read), qkv_bias=bias, output_bias=bias)


def _mistral(read: Reader) -> Geometry:
    window = read.optional("sliding_window")
    return dense(**_grouped(read), window=window, is_global=lambda _: window is None)


def _mixtral(read: Reader) -> Geometry:
    shape = _grouped(read)
    experts, per_token = read.count("num_local_experts"), read.count("num_experts_per_tok")
    ffn = Ffn(shape["hidden"], shape["ffn"], experts=experts, per_token=per_token)
    window = read.optional("sliding_window")
    return dense(**{**shape, "ffn": ffn}, window=window, is_global=lambda _: window is None)


def _qwen2(read: Reader) -> Geometry:
    sliding = read.flag("use_sliding_window", False)
    window = read.optional("sliding_window") if sliding else None
    # The first max_window_layers layers keep full attention.
    full = read.count("max_window_layers", 0, least=0) if window else 0
    return dense(
        **_grouped(read),
        qkv_bias=True,
        window=window,
        is_global=lambda index: window is None or index < full,
    )


def _qwen3(read: Reader) -> Geometry:
    shape = _grouped(read)
    return dense(**shape, extra_attention=2 * shape["head_dim"])


def _qwen3_moe(read: Reader) -> Geometry:
    shape = _grouped(read)
    ffn = Ffn(
        shape["hidden"],
        read.count("moe_intermediate_size"),
        experts=read.count("num_experts"),
        per_token=read.count("num_experts_per_tok"),
    )
    if read.config.get("mlp_only_layers") or read.count("decoder_sparse_step", 1) != 1:
        raise ModelConfigError(
            f"{read.name}: mixed dense and sparse layers aren't supported; give spec.model.geometry"
        )
    return dense(**{**shape, "ffn": ffn}, extra_attention=2 * shape["head_dim"])


def _phi3(read: Reader) -> Geometry:
    shape = _grouped(read, tied=False)
    window = read.optional("sliding_window")
    # A window as long as the context never drops a token, and is how the family says that it has none.
    if window is not None and window >= read.count("max_position_embeddings", 1 << 25):
        window = None
    return dense(**shape, window=window, is_global=lambda _: window is None)


def _pattern(read: Reader, default: Callable[[int], bool]) -> Callable[[int], bool]:
    """Which layers are global: by `layer_types` where it is given."""
    kinds = read.config.get("layer_types")
    if kinds is None:
        return default
    if not isinstance(kinds, list) or len(kinds) != read.count("num_hidden_layers"):
        raise ModelConfigError(f"{read.name}: layer_types must list num_hidden_layers entries; correct it")
    return lambda index: kinds[index] == "full_attention"


def _gemma2(read: Reader) -> Geometry:
    return dense(
        **_grouped(read, tied=True),
        norms=4,
        window=read.count("sliding_window", 4096),
        is_global=_pattern(read, lambda index: index % 2 == 1),
    )


def _gemma3(read: Reader) -> Geometry:
    shape = _grouped(read, tied=True)
    every = read.count("sliding_window_pattern", 6)
    return dense(
        **shape,
        norms=4,
        extra_attention=2 * shape["head_dim"],
        window=read.count("sliding_window"),
        is_global=_pattern(read, lambda index: (index + 1) % every == 0),
    )


def _gpt_oss(read: Reader) -> Geometry:
    shape = _grouped(read)
    experts = read.count("num_local_experts")
    ffn = Ffn(
        shape["hidden"],
        shape["ffn"],
        experts=experts,
        per_token=read.count("num_experts_per_tok"),
        biased=True,
        router_extra=experts,
    )
    return dense(
        **{**shape, "ffn": ffn},
        qkv_bias=True,
        output_bias=True,
        extra_attention=shape["heads"],
        window=read.count("sliding_window"),
        is_global=_pattern(read, lambda index: index % 2 == 1),
    )


def _latent(read: Reader) -> Geometry:
    shape = _common(read)
    experts = read.count("n_routed_experts" if "n_routed_experts" in read.config else "num_experts")
    shared = "n_shared_experts" if "n_shared_experts" in read.config else "num_shared_experts"
    per_token = "num_experts_per_tok" if "num_experts_per_tok" in read.config else "num_experts_per_token"
    corrected = read.config.get("model_type") != "deepseek_v2"
    return latent_attention(
        **shape,
        query_rank=read.optional("q_lora_rank"),
        rank=read.count("kv_lora_rank"),
        rope=read.count("qk_rope_head_dim"),
        nope=read.count("qk_nope_head_dim"),
        value=read.count("v_head_dim"),
        ffn=Ffn(
            shape["hidden"],
            read.count("moe_intermediate_size"),
            experts=experts,
            per_token=read.count(per_token),
            shared=read.count(shared, 0, least=0),
            router_extra=experts if corrected else 0,
        ),
        first_dense=read.count("first_k_dense_replace", 0, least=0),
        dense_ffn=read.count("intermediate_size"),
    )


def _kimi_linear(read: Reader) -> Geometry:
    base = _latent(read)
    linear = read.config.get("linear_attn_config")
    if not isinstance(linear, dict):
        raise ModelConfigError(
            f"{read.name}: linear_attn_config is missing; give the model's complete config.json"
        )
    inner = Reader(linear, f"{read.name}: linear_attn_config")
    listed = linear.get("full_attn_layers")
    if not isinstance(listed, list) or not all(
        isinstance(i, int) and 1 <= i <= base.layer_count for i in listed
    ):
        raise ModelConfigError(f"{inner.name}: full_attn_layers must list layers from 1; correct it")
    return kimi_linear(
        base.name,
        latent_geometry=base,
        global_layers=frozenset(i - 1 for i in listed),
        heads=inner.count("num_heads"),
        head_dim=inner.count("head_dim"),
        convolution=inner.count("short_conv_kernel_size", 4),
    )


def _opt(read: Reader) -> Geometry:
    shape = _common(read, tied=True)
    if read.config.get("word_embed_proj_dim", shape["hidden"]) != shape["hidden"]:
        raise ModelConfigError(
            f"{read.name}: word_embed_proj_dim differs from hidden_size; give spec.model.geometry"
        )
    del shape["tied"]
    return learned_positions(
        **shape,
        ffn=read.count("ffn_dim"),
        positions=read.count("max_position_embeddings") + 2,
    )


_NESTED = {"gemma3": True, "mistral3": False, "kimi_vl": False, "qwen3_vl": False, "qwen3_vl_moe": False}
"""Families whose text model is described in `text_config`. True where its embedding is the output head, too,
unless the file says otherwise."""

_FAMILIES: dict[str, Callable[[Reader], Geometry]] = {
    "deepseek_v2": _latent,
    "deepseek_v3": _latent,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "gpt_oss": _gpt_oss,
    "kimi_k2": _latent,
    "kimi_linear": _kimi_linear,
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "opt": _opt,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_vl_moe_text": _qwen3_moe,
    "qwen3_vl_text": _qwen3,
}
