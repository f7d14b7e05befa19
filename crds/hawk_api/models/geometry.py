"""A whole model: retained state as a function of tokens, weights, and work a token."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hawk_api.models.formats import BFLOAT16, LayerFormats, WeightBytes, WeightFormat, plain
from hawk_api.models.layers import total
from hawk_api.v1alpha1.enums import AttentionKind, DataType, Precision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hawk_api.models.layers import Attention, Layer


@dataclass(frozen=True, slots=True)
class Weights:
    """Parameter counts. `resident` is what memory holds, `active` what one token goes through."""

    ffn_resident: int
    """Feed-forward networks, all experts; routers excluded."""
    ffn_active: int
    """Feed-forward weights that one token goes through; routers excluded."""
    other: int
    """Attention, norms, routers, embeddings, output head."""
    embedding: int
    """The part of `other` that one token only looks up."""
    head: int
    """The part of `other` that is the output head; the embedding once more where they are tied."""

    @property
    def total(self) -> int:
        """Every parameter."""
        return self.ffn_resident + self.other

    @property
    def active(self) -> int:
        """Parameters that one token goes through, embeddings counted whole."""
        return self.ffn_active + self.other


@dataclass(frozen=True)
class Geometry:
    """The shape of a decoder-only transformer; `layers` in their order."""

    name: str
    hidden: int
    vocabulary: int
    query_heads: int
    layers: tuple[Layer, ...]
    tied_embeddings: bool = False
    extra_parameters: int = 0
    """Parameters outside layers and embeddings: the final norm, learned positions."""
    format: WeightFormat = BFLOAT16
    """Of embeddings, norms and routers, as they were published."""
    layer_formats: tuple[LayerFormats, ...] = ()
    """Formats of each layer's weights; 16 bits where empty."""

    @property
    def layer_count(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @cached_property
    def _kinds(self) -> Counter[Attention]:
        """Layers by their attention: few kinds stand for many layers."""
        return Counter(layer.attention for layer in self.layers)

    @cached_property
    def attention(self) -> AttentionKind:
        """The layers' kind, Hybrid where there are several."""
        kinds = {layer.attention.kind for layer in self.layers}
        return kinds.pop() if len(kinds) == 1 else AttentionKind.HYBRID

    @cached_property
    def kv_heads(self) -> int:
        """Most key/value heads of any layer: 1 with a latent, 0 where no layer has keys."""
        return max(layer.attention.kv_heads for layer in self.layers)

    @cached_property
    def head_dims(self) -> frozenset[int]:
        """Elements of one head's key (or of the latent), over the layers that keep keys."""
        return frozenset(layer.attention.head_dim for layer in self.layers if layer.attention.head_dim)

    def kv_bytes(self, tokens: int, dtype: DataType | str = DataType.FLOAT16) -> int:
        """Bytes retained for one sequence of `tokens` tokens."""
        size = DataType(dtype).bytes
        return sum(
            layers * attention.retained_bytes(_count(tokens), size)
            for attention, layers in self._kinds.items()
        )

    def kv_bytes_by_layer(self, tokens: int, dtype: DataType | str = DataType.FLOAT16) -> tuple[int, ...]:
        """Bytes retained by each layer for one sequence of `tokens` tokens."""
        size = DataType(dtype).bytes
        return tuple(layer.attention.retained_bytes(_count(tokens), size) for layer in self.layers)

    def kv_read_bytes(self, tokens: int, dtype: DataType | str = DataType.FLOAT16) -> int:
        """Bytes of retained state that one decode step reads for one sequence."""
        size = DataType(dtype).bytes
        return sum(
            layers * attention.read_bytes(_count(tokens), size) for attention, layers in self._kinds.items()
        )

    def kv_bytes_per_token(self, dtype: DataType | str = DataType.FLOAT16) -> int:
        """Bytes that each further token adds once every window is full: what growing layers keep."""
        size = DataType(dtype).bytes
        return sum(
            layers * cost
            for attention, layers in self._kinds.items()
            for cost, end in attention.kept(size)
            if end is None
        )

    def kv_bytes_fixed(self, dtype: DataType | str = DataType.FLOAT16) -> int:
        """Bytes of full windows and states: what doesn't grow with the context."""
        size = DataType(dtype).bytes
        windows = sum(
            layers * cost * end
            for attention, layers in self._kinds.items()
            for cost, end in attention.kept(size)
            if end is not None
        )
        return windows + self.state_bytes

    @cached_property
    def state_bytes(self) -> int:
        """Bytes of state of one sequence that isn't KV: convolutions' tails, recurrent matrices."""
        return sum(layers * attention.state_bytes for attention, layers in self._kinds.items())

    @cached_property
    def weights(self) -> Weights:
        """Parameter counts."""
        blocks = sum(
            layer.attention.parameters + layer.ffn.router + layer.norm_parameters for layer in self.layers
        )
        table = self.vocabulary * self.hidden
        embeddings = table if self.tied_embeddings else 2 * table
        return Weights(
            ffn_resident=sum(layer.ffn.resident for layer in self.layers),
            ffn_active=sum(layer.ffn.active for layer in self.layers),
            other=blocks + embeddings + self.extra_parameters,
            embedding=table,
            head=table,
        )

    def weight_parts(self, precision: Precision | None = None) -> WeightBytes:
        """Bytes of the weights by part, all in `precision`, or as they were published."""
        one = plain(precision) if precision else None
        rest = sum(layer.ffn.router + layer.norm_parameters for layer in self.layers) + self.extra_parameters
        table = self.weights.embedding
        experts = ffn = attention = 0.0
        for layer, formats in self.stored_layers:
            experts += layer.ffn.routed * (one or formats.experts).bytes
            ffn += (layer.ffn.resident - layer.ffn.routed) * (one or formats.ffn).bytes
            attention += layer.attention.parameters * (one or formats.attention).bytes
        return WeightBytes(
            experts=experts,
            ffn=ffn,
            attention=attention,
            embedding=table * (one or self.format).bytes,
            head=0.0 if self.tied_embeddings else table * (one or self.format).bytes,
            rest=rest * (one or self.format).bytes,
        )

    @property
    def stored_layers(self) -> Iterable[tuple[Layer, LayerFormats]]:
        """Each layer with the formats of its weights."""
        return zip(self.layers, self.layer_formats or (LayerFormats(),) * len(self.layers), strict=True)

    def weights_bytes(self, precision: Precision | None = None) -> int:
        """Bytes of all weights in `precision`, or as they were published."""
        return round(self.weight_parts(precision).total)

    @cached_property
    def precision(self) -> Precision:
        """Number format of most weights that aren't feed-forward networks."""
        return _commonest(
            (layer.attention.parameters, stored.attention) for layer, stored in self.stored_layers
        )

    @cached_property
    def ffn_precision(self) -> Precision:
        """Number format of most weights of the feed-forward networks."""
        return _commonest(
            part
            for layer, stored in self.stored_layers
            for part in (
                (layer.ffn.routed, stored.experts),
                (layer.ffn.resident - layer.ffn.routed, stored.ffn),
            )
        )

    def flops_per_token(self) -> int:
        """Two operations a parameter that a token goes through; attention over the context not counted."""
        return 2 * self.weights.active

    def ffn_flops_per_token(self) -> int:
        """The part of it that the feed-forward networks do."""
        return 2 * self.weights.ffn_active

    def attention_flops(self, context: int) -> int:
        """Operations of one decoded token's attention over `context` retained tokens, all layers."""
        tokens = _count(context)
        return sum(
            layers * total(attention.work(decode=True), tokens) for attention, layers in self._kinds.items()
        )

    def prefill_flops(self, tokens: int, *, attention: bool = True) -> int:
        """Operations to prefill `tokens` tokens, each attending to those before it and itself."""
        work = self.flops_per_token() * _count(tokens)
        if attention:
            work += sum(
                layers * cost * _pairs(tokens, tokens if end is None else end)
                for kind, layers in self._kinds.items()
                for cost, end in kind.work(decode=False)
            )
        return work


def _commonest(parts: Iterable[tuple[int, WeightFormat]]) -> Precision:
    counts: Counter[Precision] = Counter()
    for parameters, found in parts:
        counts[found.precision] += parameters
    return counts.most_common(1)[0][0]


def _count(tokens: int) -> int:
    if tokens < 0:
        raise ValueError(f"tokens: {tokens} is negative; give a whole number from 0 up")
    return tokens


def _pairs(tokens: int, limit: int) -> int:
    """Sum over i = 1..tokens of min(i, limit)."""
    short = min(tokens, limit)
    return short * (short + 1) // 2 + (tokens - short) * limit
