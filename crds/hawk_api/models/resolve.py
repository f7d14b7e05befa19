"""From a pool's `spec.model` to a geometry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_api.models.config import parse_config
from hawk_api.models.geometry import Geometry
from hawk_api.models.layers import Attention, Ffn, Layer, grouped_query, latent, recurrent
from hawk_api.models.presets import load_preset
from hawk_api.v1alpha1.enums import AttentionKind

if TYPE_CHECKING:
    from hawk_api.v1alpha1.model import GeometrySpec, ModelSpec


def resolve_geometry(model: ModelSpec, config_json: str | None = None) -> Geometry:
    """The geometry of `model`; `config_json` is the text that its configMapRef names.

    Raises ValueError when the preset isn't known, the geometry contradicts itself, or the text is missing or
    can't be understood.
    """
    if model.preset is not None:
        return load_preset(model.preset)
    if model.geometry is not None:
        return from_spec(model.geometry)
    if model.config_map_ref is None:
        raise ValueError("none of preset, geometry and configMapRef is given; give exactly one")
    if config_json is None:
        raise ValueError(
            f"the ConfigMap {model.config_map_ref.name} has no key {model.config_map_ref.key}; create it"
        )
    return parse_config(config_json, f"{model.config_map_ref.name}/{model.config_map_ref.key}")


def from_spec(spec: GeometrySpec, name: str = "geometry") -> Geometry:
    """The geometry that a user wrote out. Raises ValueError with the field to correct."""
    dense = Ffn(spec.hidden, spec.ffn)
    sparse = dense
    if spec.experts:
        sparse = Ffn(
            spec.hidden,
            spec.expert_ffn or spec.ffn,
            experts=spec.experts,
            per_token=_need(spec.experts_per_token, "expertsPerToken"),
            shared=spec.shared_experts or 0,
        )
    common, other = _attentions(spec)
    every = spec.global_every or 1
    first_dense = spec.dense_layers or 0
    return Geometry(
        name=name,
        hidden=spec.hidden,
        vocabulary=spec.vocabulary,
        query_heads=spec.query_heads,
        layers=tuple(
            Layer(
                common if (index + 1) % every == 0 else other,
                dense if index < first_dense else sparse,
                2 * spec.hidden,
            )
            for index in range(spec.layers)
        ),
        tied_embeddings=spec.tied_embeddings,
        extra_parameters=spec.hidden,
    )


def _attentions(spec: GeometrySpec) -> tuple[Attention, Attention]:
    """Attention of the layers that see everything (or of all layers), and of the others in a hybrid."""
    if spec.attention is AttentionKind.HYBRID:
        whole = _latent(spec) if spec.latent_rank else _grouped(spec, None)
        return whole, _linear(spec) if spec.state_bytes is not None else _grouped(
            spec, _need(spec.window, "window")
        )
    if spec.attention is AttentionKind.MLA:
        same = _latent(spec)
    elif spec.attention is AttentionKind.LINEAR:
        same = _linear(spec)
    elif spec.attention is AttentionKind.SLIDING:
        same = _grouped(spec, _need(spec.window, "window"))
    elif spec.attention is AttentionKind.SPARSE:
        same = _grouped(spec, None, reads=spec.window)
    else:
        same = _grouped(spec, None)
    return same, same


def _grouped(spec: GeometrySpec, window: int | None, reads: int | None = None) -> Attention:
    heads, width = _need(spec.kv_heads, "kvHeads"), _need(spec.head_dim, "headDim")
    return grouped_query(spec.hidden, spec.query_heads, heads, width, window=window, reads=reads)


def _latent(spec: GeometrySpec) -> Attention:
    width = spec.head_dim or 128
    return latent(
        spec.hidden,
        spec.query_heads,
        rank=_need(spec.latent_rank, "latentRank"),
        rope=spec.rope_dim or 0,
        nope=width,
        value=width,
        query_rank=None,
    )


def _linear(spec: GeometrySpec) -> Attention:
    if spec.state_bytes is None:
        raise ValueError(f"stateBytes is needed with attention {spec.attention}; add it")
    queries = spec.query_heads * (spec.head_dim or spec.hidden // spec.query_heads)
    return recurrent(int(spec.state_bytes), 4 * spec.hidden * queries)


def _need(value: int | None, field: str) -> int:
    if value is None:
        raise ValueError(f"{field} is needed with what else is given; add it")
    return value
