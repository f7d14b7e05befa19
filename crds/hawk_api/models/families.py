"""Families of models: the geometry that the keys of each one's config.json describe."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hawk_api.models.build import dense, kimi_linear, latent_attention, learned_positions
from hawk_api.models.hybrids import nemotron_h, qwen3_next, sparse_latent
from hawk_api.models.layers import Ffn
from hawk_api.models.reader import ConfigReader, ModelConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_api.models.geometry import Geometry


def _common(read: ConfigReader, *, tied: bool = False) -> dict[str, Any]:
    return {
        "name": str(read.config.get("_name_or_path") or read.name),
        "layers": read.count("num_hidden_layers"),
        "hidden": read.count("hidden_size"),
        "heads": read.heads,
        "vocabulary": read.count("vocab_size"),
        "tied": read.flag("tie_word_embeddings", tied),
    }


def _grouped(read: ConfigReader, *, tied: bool = False) -> dict[str, Any]:
    return {
        **_common(read, tied=tied),
        "kv_heads": read.count("num_key_value_heads", read.heads),
        "head_dim": read.head_dim,
        "ffn": read.count("intermediate_size"),
    }


def _llama(read: ConfigReader) -> Geometry:
    bias = read.flag("attention_bias", False)
    return dense(**_grouped(read), qkv_bias=bias, output_bias=bias)


def _mistral(read: ConfigReader) -> Geometry:
    window = read.optional("sliding_window")
    return dense(**_grouped(read), window=window, is_global=lambda _: window is None)


def _mixtral(read: ConfigReader) -> Geometry:
    shape = _grouped(read)
    experts, per_token = read.count("num_local_experts"), read.count("num_experts_per_tok")
    ffn = Ffn(shape["hidden"], shape["ffn"], experts=experts, per_token=per_token)
    window = read.optional("sliding_window")
    return dense(**{**shape, "ffn": ffn}, window=window, is_global=lambda _: window is None)


def _qwen2(read: ConfigReader) -> Geometry:
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


def _qwen3(read: ConfigReader) -> Geometry:
    shape = _grouped(read)
    return dense(**shape, extra_attention=2 * shape["head_dim"])


def _qwen3_moe(read: ConfigReader) -> Geometry:
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


def _minimax_m2(read: ConfigReader) -> Geometry:
    """Query and key norms are as wide as all heads; every expert has a bias that routes to it."""
    shape = _grouped(read)
    experts = read.count("num_local_experts")
    ffn = Ffn(
        shape["hidden"],
        shape["ffn"],
        experts=experts,
        per_token=read.count("num_experts_per_tok"),
        router_extra=experts,
    )
    norms = (shape["heads"] + shape["kv_heads"]) * shape["head_dim"]
    return dense(**{**shape, "ffn": ffn}, extra_attention=norms if read.flag("use_qk_norm", True) else 0)


def _llama4(read: ConfigReader) -> Geometry:
    """Three of four layers attend within chunks, and keep no more than one of them."""
    shape = _grouped(read)
    hidden, every = shape["hidden"], read.count("interleave_moe_layer_step", 1)
    experts = Ffn(
        hidden,
        shape["ffn"],
        experts=read.count("num_local_experts"),
        per_token=read.count("num_experts_per_tok"),
        shared=1,
    )
    plain = Ffn(hidden, read.count("intermediate_size_mlp"))
    made = dense(
        **{**shape, "ffn": experts},
        window=read.count("attention_chunk_size", 8192),
        is_global=lambda index: (index + 1) % 4 == 0,
    )
    layers = tuple(
        layer if (index + 1) % every == 0 else replace(layer, ffn=plain)
        for index, layer in enumerate(made.layers)
    )
    return replace(made, layers=layers)


def _phi3(read: ConfigReader) -> Geometry:
    shape = _grouped(read, tied=False)
    window = read.optional("sliding_window")
    # A window as long as the context never drops a token, and is how the family says that it has none.
    if window is not None and window >= read.count("max_position_embeddings", 1 << 25):
        window = None
    return dense(**shape, window=window, is_global=lambda _: window is None)


def _pattern(read: ConfigReader, default: Callable[[int], bool]) -> Callable[[int], bool]:
    """Which layers are global: by `layer_types` where it is given."""
    kinds = read.config.get("layer_types")
    if kinds is None:
        return default
    if not isinstance(kinds, list) or len(kinds) != read.count("num_hidden_layers"):
        raise ModelConfigError(f"{read.name}: layer_types must list num_hidden_layers entries; correct it")
    return lambda index: kinds[index] == "full_attention"


def _gemma2(read: ConfigReader) -> Geometry:
    return dense(
        **_grouped(read, tied=True),
        norms=4,
        window=read.count("sliding_window", 4096),
        is_global=_pattern(read, lambda index: index % 2 == 1),
    )


def _gemma3(read: ConfigReader) -> Geometry:
    shape = _grouped(read, tied=True)
    every = read.count("sliding_window_pattern", 6)
    return dense(
        **shape,
        norms=4,
        extra_attention=2 * shape["head_dim"],
        window=read.count("sliding_window"),
        is_global=_pattern(read, lambda index: (index + 1) % every == 0),
    )


def _gpt_oss(read: ConfigReader) -> Geometry:
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


def _latent(read: ConfigReader) -> Geometry:
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


def _sparse_latent(read: ConfigReader) -> Geometry:
    return sparse_latent(read, _latent(read))


def _kimi_linear(read: ConfigReader) -> Geometry:
    base = _latent(read)
    linear = read.config.get("linear_attn_config")
    if not isinstance(linear, dict):
        raise ModelConfigError(
            f"{read.name}: linear_attn_config is missing; give the model's complete config.json"
        )
    inner = ConfigReader(linear, f"{read.name}: linear_attn_config")
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


def _opt(read: ConfigReader) -> Geometry:
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


NESTED = {
    "gemma3": True,
    "kimi_k25": False,
    "kimi_vl": False,
    "llama4": False,
    "mistral3": False,
    "qwen3_5": False,
    "qwen3_5_moe": False,
    "qwen3_vl": False,
    "qwen3_vl_moe": False,
}
"""Families whose text model is described in `text_config`. True where its embedding is the output head, too,
unless the file says otherwise."""

_GEMMA3 = {
    "vocab_size": 262_208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
}
DEFAULTS: dict[str, dict[str, int]] = {
    "gemma2": {**_GEMMA3, "vocab_size": 256_000},
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "llama4_text": {"head_dim": 128},
    "qwen3": {"head_dim": 128},
    "qwen3_vl_text": {"head_dim": 128},
}
"""Published files leave out keys that equal the defaults of their class in transformers (version 5.23)."""

FAMILIES: dict[str, Callable[[ConfigReader], Geometry]] = {
    "deepseek_v2": _latent,
    "deepseek_v3": _latent,
    "deepseek_v32": _sparse_latent,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "glm_moe_dsa": _sparse_latent,
    "gpt_oss": _gpt_oss,
    "kimi_k2": _latent,
    "kimi_linear": _kimi_linear,
    "llama": _llama,
    "llama4_text": _llama4,
    "mimo": _qwen2,
    "minimax_m2": _minimax_m2,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "nemotron_h": nemotron_h,
    "opt": _opt,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_5_moe_text": qwen3_next,
    "qwen3_5_text": qwen3_next,
    "qwen3_moe": _qwen3_moe,
    "qwen3_next": qwen3_next,
    "qwen3_vl_moe_text": _qwen3_moe,
    "qwen3_vl_text": _qwen3,
}
