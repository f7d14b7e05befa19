"""Geometries of the families that models come in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hawk_api.models.geometry import Geometry
from hawk_api.models.layers import Attention, Ffn, Layer, delta_attention, grouped_query, latent

if TYPE_CHECKING:
    from collections.abc import Callable


def dense(
    name: str,
    *,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn: int | Ffn,
    vocabulary: int,
    tied: bool = False,
    qkv_bias: bool = False,
    output_bias: bool = False,
    extra_attention: int = 0,
    norms: int = 2,
    window: int | None = None,
    is_global: Callable[[int], bool] = lambda _: True,
    first_dense: int = 0,
    dense_ffn: int | None = None,
) -> Geometry:
    """Grouped-query attention in every layer; layers that `is_global` (by index from 0) denies have a window.

    `ffn` is a width, or a mixture of experts; the first `first_dense` layers then have `dense_ffn`.
    """
    mixed = ffn if isinstance(ffn, Ffn) else Ffn(hidden, ffn)
    plain = Ffn(hidden, dense_ffn) if dense_ffn else mixed

    def attention(span: int | None) -> Attention:
        return grouped_query(
            hidden,
            heads,
            kv_heads,
            head_dim,
            window=span,
            qkv_bias=qkv_bias,
            output_bias=output_bias,
            extra_parameters=extra_attention,
        )

    full, sliding = attention(None), attention(window)
    return Geometry(
        name=name,
        hidden=hidden,
        vocabulary=vocabulary,
        query_heads=heads,
        layers=tuple(
            Layer(full if is_global(i) else sliding, plain if i < first_dense else mixed, norms * hidden)
            for i in range(layers)
        ),
        tied_embeddings=tied,
        extra_parameters=hidden,
    )


def latent_attention(
    name: str,
    *,
    layers: int,
    hidden: int,
    heads: int,
    query_rank: int | None,
    rank: int = 512,
    rope: int = 64,
    nope: int = 128,
    value: int = 128,
    ffn: Ffn,
    first_dense: int,
    dense_ffn: int,
    vocabulary: int,
    tied: bool = False,
) -> Geometry:
    """Multi-head latent attention in every layer, experts in all but the first layers."""
    attention = latent(hidden, heads, rank=rank, rope=rope, nope=nope, value=value, query_rank=query_rank)
    plain = Ffn(hidden, dense_ffn)
    return Geometry(
        name=name,
        hidden=hidden,
        vocabulary=vocabulary,
        query_heads=heads,
        layers=tuple(Layer(attention, plain if i < first_dense else ffn, 2 * hidden) for i in range(layers)),
        tied_embeddings=tied,
        extra_parameters=hidden,
    )


def kimi_linear(
    name: str,
    *,
    latent_geometry: Geometry,
    global_layers: frozenset[int],
    heads: int,
    head_dim: int,
    convolution: int,
) -> Geometry:
    """`latent_geometry` with Kimi Delta Attention in all layers but `global_layers` (indices from 0)."""
    delta = delta_attention(latent_geometry.hidden, heads, head_dim, convolution)
    return replace(
        latent_geometry,
        name=name,
        layers=tuple(
            layer if i in global_layers else replace(layer, attention=delta)
            for i, layer in enumerate(latent_geometry.layers)
        ),
    )


def learned_positions(
    name: str, *, layers: int, hidden: int, heads: int, ffn: int, vocabulary: int, positions: int
) -> Geometry:
    """OPT: multi-head attention with biases, two feed-forward matrices, LayerNorms, learned positions."""
    attention = grouped_query(hidden, heads, heads, hidden // heads, qkv_bias=True, output_bias=True)
    layer = Layer(attention, Ffn(hidden, ffn, matrices=2, biased=True), 4 * hidden)
    return Geometry(
        name=name,
        hidden=hidden,
        vocabulary=vocabulary,
        query_heads=heads,
        layers=(layer,) * layers,
        tied_embeddings=True,
        extra_parameters=2 * hidden + positions * hidden,
    )
