"""Models known by name, from their published configurations.

The table is data: `presets()` gives every name, `preset(name)` builds one geometry. Parameter counts
that follow from it are compared with the published counts in the tests.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from hawk_api.models.build import dense, kimi_linear, latent_attention, learned_positions
from hawk_api.models.formats import BFLOAT16, FLOAT8_BLOCKS, MXFP4, LayerFormats, WeightFormat
from hawk_api.models.layers import Ffn

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_api.models.geometry import Geometry

_8b = partial(dense, layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14_336)
_llama3 = partial(dense, kv_heads=8, vocabulary=128_256)
_llama3_8b = partial(_8b, vocabulary=128_256)
_llama3_70b = partial(_llama3, layers=80, hidden=8192, heads=64, head_dim=128, ffn=28_672)
_qwen25 = partial(dense, head_dim=128, qkv_bias=True, vocabulary=152_064)
_qwen3 = partial(dense, kv_heads=8, head_dim=128, extra_attention=256, vocabulary=151_936)


def _moe(
    hidden: int, width: int, experts: int, per_token: int, *, shared: int = 0, router_extra: int = 0
) -> Ffn:
    return Ffn(hidden, width, experts=experts, per_token=per_token, shared=shared, router_extra=router_extra)


def _odd(index: int) -> bool:
    return index % 2 == 1


def _sixth(index: int) -> bool:
    return index % 6 == 5


_gemma2 = partial(dense, vocabulary=256_000, tied=True, norms=4, window=4096, is_global=_odd)
_gemma3 = partial(dense, vocabulary=262_208, tied=True, norms=4, window=1024, is_global=_sixth)


def _gpt_oss(name: str, layers: int, experts: int) -> Geometry:
    ffn = Ffn(2880, 2880, experts=experts, per_token=4, biased=True, router_extra=experts)
    made = dense(
        name,
        layers=layers,
        hidden=2880,
        heads=64,
        kv_heads=8,
        head_dim=64,
        ffn=ffn,
        vocabulary=201_088,
        qkv_bias=True,
        output_bias=True,
        extra_attention=64,
        window=128,
        is_global=_odd,
    )
    return _stored(made, BFLOAT16, MXFP4)


def _in_float8(name: str, build: Callable[[str], Geometry]) -> Geometry:
    return _stored(build(name), FLOAT8_BLOCKS, FLOAT8_BLOCKS)


def _stored(geometry: Geometry, attention: WeightFormat, ffn: WeightFormat) -> Geometry:
    return replace(
        geometry,
        layer_formats=(LayerFormats(attention=attention, ffn=ffn, experts=ffn),) * geometry.layer_count,
    )


def _kimi_linear(name: str) -> Geometry:
    base = latent_attention(
        name,
        layers=27,
        hidden=2304,
        heads=32,
        query_rank=None,
        ffn=_moe(2304, 1024, 256, 8, shared=1, router_extra=256),
        first_dense=1,
        dense_ffn=9216,
        vocabulary=163_840,
    )
    return kimi_linear(
        name,
        latent_geometry=base,
        global_layers=frozenset({3, 7, 11, 15, 19, 23, 26}),
        heads=32,
        head_dim=128,
        convolution=4,
    )


_kimi_k2 = partial(
    latent_attention,
    layers=61,
    hidden=7168,
    heads=64,
    query_rank=1536,
    ffn=_moe(7168, 2048, 384, 8, shared=1, router_extra=384),
    first_dense=1,
    dense_ffn=18_432,
    vocabulary=163_840,
)
_v3 = partial(
    latent_attention,
    layers=61,
    hidden=7168,
    heads=128,
    query_rank=1536,
    ffn=_moe(7168, 2048, 256, 8, shared=1, router_extra=256),
    first_dense=3,
    dense_ffn=18_432,
    vocabulary=129_280,
)

_TABLE: dict[str, Callable[[str], Geometry]] = {
    # Llama
    "llama-3-8b": _llama3_8b,
    "llama-3.1-8b": _llama3_8b,
    "llama-3-70b": _llama3_70b,
    "llama-3.1-70b": _llama3_70b,
    "llama-3.3-70b": _llama3_70b,
    "llama-3.1-405b": partial(_llama3, layers=126, hidden=16_384, heads=128, head_dim=128, ffn=53_248),
    "llama-3.2-1b": partial(_llama3, layers=16, hidden=2048, heads=32, head_dim=64, ffn=8192, tied=True),
    "llama-3.2-3b": partial(_llama3, layers=28, hidden=3072, heads=24, head_dim=128, ffn=8192, tied=True),
    "tinyllama-1.1b": partial(
        dense, layers=22, hidden=2048, heads=32, kv_heads=4, head_dim=64, ffn=5632, vocabulary=32_000
    ),
    # Mistral
    "mistral-7b-instruct-v0.2": partial(_8b, vocabulary=32_000),
    "mistral-7b-instruct-v0.3": partial(_8b, vocabulary=32_768),
    "mistral-nemo-12b": partial(
        dense, layers=40, hidden=5120, heads=32, kv_heads=8, head_dim=128, ffn=14_336, vocabulary=131_072
    ),
    "mistral-small-24b": partial(
        dense, layers=40, hidden=5120, heads=32, kv_heads=8, head_dim=128, ffn=32_768, vocabulary=131_072
    ),
    "mistral-large-2407": partial(
        dense, layers=88, hidden=12_288, heads=96, kv_heads=8, head_dim=128, ffn=28_672, vocabulary=32_768
    ),
    "mixtral-8x7b-v0.1": partial(_8b, vocabulary=32_000, ffn=_moe(4096, 14_336, 8, 2)),
    "mixtral-8x22b-v0.1": partial(
        dense,
        layers=56,
        hidden=6144,
        heads=48,
        kv_heads=8,
        head_dim=128,
        ffn=_moe(6144, 16_384, 8, 2),
        vocabulary=32_000,
    ),
    # Qwen
    "qwen2.5-0.5b": partial(
        dense,
        layers=24,
        hidden=896,
        heads=14,
        kv_heads=2,
        head_dim=64,
        ffn=4864,
        qkv_bias=True,
        vocabulary=151_936,
        tied=True,
    ),
    "qwen2.5-1.5b": partial(
        _qwen25, layers=28, hidden=1536, heads=12, kv_heads=2, ffn=8960, vocabulary=151_936, tied=True
    ),
    "qwen2.5-3b": partial(
        _qwen25, layers=36, hidden=2048, heads=16, kv_heads=2, ffn=11_008, vocabulary=151_936, tied=True
    ),
    "qwen2.5-7b": partial(_qwen25, layers=28, hidden=3584, heads=28, kv_heads=4, ffn=18_944),
    "qwen2.5-14b": partial(_qwen25, layers=48, hidden=5120, heads=40, kv_heads=8, ffn=13_824),
    "qwen2.5-32b": partial(_qwen25, layers=64, hidden=5120, heads=40, kv_heads=8, ffn=27_648),
    "qwen2.5-72b": partial(_qwen25, layers=80, hidden=8192, heads=64, kv_heads=8, ffn=29_568),
    "qwen3-0.6b": partial(_qwen3, layers=28, hidden=1024, heads=16, ffn=3072, tied=True),
    "qwen3-1.7b": partial(_qwen3, layers=28, hidden=2048, heads=16, ffn=6144, tied=True),
    "qwen3-4b": partial(_qwen3, layers=36, hidden=2560, heads=32, ffn=9728, tied=True),
    "qwen3-8b": partial(_qwen3, layers=36, hidden=4096, heads=32, ffn=12_288),
    "qwen3-14b": partial(_qwen3, layers=40, hidden=5120, heads=40, ffn=17_408),
    "qwen3-32b": partial(_qwen3, layers=64, hidden=5120, heads=64, ffn=25_600),
    "qwen3-30b-a3b": partial(
        _qwen3, layers=48, hidden=2048, heads=32, kv_heads=4, ffn=_moe(2048, 768, 128, 8)
    ),
    "qwen3-235b-a22b": partial(
        _qwen3, layers=94, hidden=4096, heads=64, kv_heads=4, ffn=_moe(4096, 1536, 128, 8)
    ),
    # DeepSeek and Kimi
    "deepseek-v2-lite": partial(
        latent_attention,
        layers=27,
        hidden=2048,
        heads=16,
        query_rank=None,
        ffn=_moe(2048, 1408, 64, 6, shared=2),
        first_dense=1,
        dense_ffn=10_944,
        vocabulary=102_400,
    ),
    "deepseek-v3": partial(_in_float8, build=_v3),
    "deepseek-r1": partial(_in_float8, build=_v3),
    "kimi-k2": partial(_in_float8, build=_kimi_k2),
    "kimi-linear-48b-a3b": _kimi_linear,
    # Gemma
    "gemma-2-2b": partial(_gemma2, layers=26, hidden=2304, heads=8, kv_heads=4, head_dim=256, ffn=9216),
    "gemma-2-9b": partial(_gemma2, layers=42, hidden=3584, heads=16, kv_heads=8, head_dim=256, ffn=14_336),
    "gemma-2-27b": partial(_gemma2, layers=46, hidden=4608, heads=32, kv_heads=16, head_dim=128, ffn=36_864),
    "gemma-3-1b": partial(
        _gemma3,
        layers=26,
        hidden=1152,
        heads=4,
        kv_heads=1,
        head_dim=256,
        ffn=6912,
        vocabulary=262_144,
        extra_attention=512,
        window=512,
    ),
    "gemma-3-4b": partial(
        _gemma3, layers=34, hidden=2560, heads=8, kv_heads=4, head_dim=256, ffn=10_240, extra_attention=512
    ),
    "gemma-3-12b": partial(
        _gemma3, layers=48, hidden=3840, heads=16, kv_heads=8, head_dim=256, ffn=15_360, extra_attention=512
    ),
    "gemma-3-27b": partial(
        _gemma3, layers=62, hidden=5376, heads=32, kv_heads=16, head_dim=128, ffn=21_504, extra_attention=256
    ),
    # OpenAI's open weights
    "gpt-oss-20b": partial(_gpt_oss, layers=24, experts=32),
    "gpt-oss-120b": partial(_gpt_oss, layers=36, experts=128),
    # Phi
    "phi-4": partial(
        dense, layers=40, hidden=5120, heads=40, kv_heads=10, head_dim=128, ffn=17_920, vocabulary=100_352
    ),
    # Small enough for CPUs
    "opt-125m": partial(
        learned_positions, layers=12, hidden=768, heads=12, ffn=3072, vocabulary=50_272, positions=2050
    ),
}


def preset_names() -> tuple[str, ...]:
    """Every name, in order."""
    return tuple(_TABLE)


@cache
def load_preset(name: str) -> Geometry:
    """The geometry of a model by name. ValueError suggests the nearest names."""
    if name in _TABLE:
        return _TABLE[name](name)
    raise ValueError(unknown_preset(name))


def unknown_preset(name: str) -> str:
    """The message for a name that isn't known."""
    near = difflib.get_close_matches(name.lower(), _TABLE, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(_TABLE)}"
    return f"unknown model {name!r}; {hint}"
