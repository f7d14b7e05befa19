"""The formats in which a checkpoint stores its matrices.

Quantization is published by names of modules: some formats for some names, the base format for the rest.
Embeddings, norms, routers and the output head keep the base format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING

from hawk_api.models.formats import BFLOAT16, LayerFormats, WeightFormat
from hawk_api.v1alpha1.enums import AttentionKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hawk_api.models.layers import Layer

_WRAPPERS = re.compile(r"^(?:(?:model|language_model|backbone|transformer)\.)+")
"""The part before a layer's name differs between wrappers; names are compared without it."""
_MIXED_EXPERTS = re.compile(r"\bmixer(?=\.(?:experts|shared_experts)\b)")
_MIXED = re.compile(r"\b(?:linear_attn|mixer)\b")
"""Names that hybrids have for parts of a layer, which stand in the place of attention or of the network."""
_STATE = ("in_proj", "in_proj_qkv", "in_proj_z", "out_proj")
_LATENT = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
_GROUPED = ("q_proj", "k_proj", "v_proj", "o_proj")
_MATRICES = {AttentionKind.MLA: _LATENT, AttentionKind.LINEAR: _STATE}
_FFN = ("gate_proj", "up_proj", "down_proj")
"""Matrices of each part of a layer, by the names that checkpoints have for them."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """Formats by module name. A name that is ignored or matches nothing has the base format."""

    default: WeightFormat | None = None
    """Format of every matrix of a layer that isn't ignored; None where only named ones are quantized."""
    patterns: tuple[tuple[re.Pattern[str], WeightFormat], ...] = ()
    ignored: tuple[re.Pattern[str], ...] = ()

    def format_of(self, name: str) -> WeightFormat | None:
        """Return the format of a matrix such as "layers.3.self_attn.q_proj"; None for the base format."""
        if any(pattern.match(name) for pattern in self.ignored):
            return None
        return next((found for pattern, found in self.patterns if pattern.match(name)), self.default)


def name_patterns(names: Iterable[object]) -> tuple[re.Pattern[str], ...]:
    """Return patterns for names, globs or regular expressions (`re:`) of modules and all that is inside them.

    A name without a layer, such as `gate` or `self_attn`, matches at any depth. Text that is no expression
    matches nothing.
    """
    found = []
    for name in names:
        if isinstance(name, str) and name:
            try:
                found.append(re.compile(_expression(name)))
            except re.error:
                continue
    return tuple(found)


def _expression(name: str) -> str:
    if name.startswith("re:"):
        # Written for whole names; here they are compared without what stands before `layers`.
        return rf".*?(?:{name.removeprefix('re:').removeprefix('^').replace('model.', '', 1)})"
    bare = _MIXED.sub("self_attn", _MIXED_EXPERTS.sub("mlp", _WRAPPERS.sub("", name)))
    if "*" in bare:
        return translate(bare).removesuffix(r"\Z").removesuffix(r"\z") + r"(?:\..*)?$"
    anywhere = "" if bare.startswith("layers.") else r"(?:.*\.)?"
    return rf"{anywhere}{re.escape(bare)}(?:\..*)?$"


def layer_formats(layers: Iterable[Layer], quantization: Quantization) -> tuple[LayerFormats, ...]:
    """Return the formats of each layer's parts.

    A part of which one matrix keeps the base format counts as kept whole: weights are overstated then, and
    never understated.
    """

    def part(prefix: str, matrices: tuple[str, ...]) -> WeightFormat:
        found = [quantization.format_of(f"{prefix}.{matrix}") for matrix in matrices]
        return BFLOAT16 if None in found else found[0] or BFLOAT16

    formats = []
    for index, layer in enumerate(layers):
        name = f"layers.{index}"
        formats.append(
            LayerFormats(
                attention=part(f"{name}.self_attn", _MATRICES.get(layer.attention.kind, _GROUPED)),
                ffn=part(f"{name}.mlp.shared_experts" if layer.ffn.experts else f"{name}.mlp", _FFN),
                experts=part(f"{name}.mlp.experts.0", _FFN),
            )
        )
    return tuple(formats)
