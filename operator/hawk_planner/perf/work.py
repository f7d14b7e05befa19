"""The work of a model: bytes and FLOPs of a prompt and of a decode step, added up from its geometry. Pure.

A prompt's tokens go through every layer, only its last one through the output head. A decode step reads each
weight once whatever the batch, except experts: only those that some token chose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import DataType
from hawk_planner.perf.collectives import EACH_LAYER
from hawk_planner.perf.experts import ExpertGroup, expert_groups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hawk_api.models.geometry import Geometry
    from hawk_api.models.layers import Span
    from hawk_api.v1alpha1.enums import Precision

__all__ = ["DecodeWork", "ModelWork", "Parts", "PromptWork"]

_ACTIVATION_BYTES = 2
"""Of one element that is exchanged: 16 bits, whatever the weights are."""
Parts = tuple[tuple[float, float], ...]
"""The cost of a token, and up to which token (a window; infinite without one), by kind of layer."""


@dataclass(frozen=True)
class PromptWork:
    """A prompt in one pass, or a chunk of one."""

    linear_flops: float
    """Tokens times the weights that they are multiplied by."""
    weight_bytes: float
    attention_flops: float
    """Pairs of a token and an earlier one."""
    state_bytes: float
    """Written for the tokens to come."""
    exchange_bytes: float = 0.0
    """Activations that devices which share the layers add up."""
    exchanges: float = 0.0
    """Times that they do."""

    @property
    def flops(self) -> float:
        """All of its arithmetic."""
        return self.linear_flops + self.attention_flops

    @property
    def nbytes(self) -> float:
        """All that it reads and writes."""
        return self.weight_bytes + self.state_bytes


@dataclass(frozen=True)
class DecodeWork:
    """A decode step at one context: what it costs whatever the batch, and for each sequence."""

    weight_bytes: float
    """Weights read whatever the batch."""
    experts: tuple[ExpertGroup, ...]
    linear_flops: float
    """Of one token."""
    attention_flops: float
    """Of one token over the context."""
    state_bytes: float
    """Read for one sequence."""
    exchange_bytes: float = 0.0
    """Activations of one token that devices which share the layers add up."""
    exchanges: float = 0.0
    """Times that they do in a step."""
    tokens: float = 1.0
    """Tokens of a sequence that one step looks at: more than 1 where it verifies drafts."""

    @property
    def flops(self) -> float:
        """All arithmetic of one token."""
        return self.linear_flops + self.attention_flops


@dataclass(frozen=True)
class ModelWork:
    """A model in given number formats.

    `active_parameters` multiply each token, `weight_bytes` are all resident. `attention` holds FLOPs for one
    (query, key) pair of a prefill, `decode_attention` of a decode step; `kv` the bytes retained a token,
    `kv_read` the bytes that a decode step reads a token; each with its limit in tokens. `state_bytes` come
    with each sequence. `head_parameters` multiply only a token whose successor is wanted: the last one of a
    prompt, each decoded one. `lookup_bytes` of the weights are an embedding table, of which a step reads a
    row; of `experts` it reads those that some token chose.
    """

    weight_bytes: float
    active_parameters: float
    attention: Parts
    decode_attention: Parts
    kv: Parts
    kv_read: Parts
    state_bytes: float = 0.0
    head_parameters: float = 0.0
    lookup_bytes: float = 0.0
    experts: tuple[ExpertGroup, ...] = ()
    ffn_parameters: float = 0.0
    """Of `active_parameters`, those of the feed-forward networks."""
    ffn_bytes: float = 0.0
    """Of `weight_bytes`, those of the feed-forward networks, all experts included."""
    name: str = ""
    hidden: int = 0
    """Elements of the vector that goes from layer to layer."""
    element_bytes: float = 2.0
    """Of one of its elements."""
    layers: tuple[tuple[Parts, float], ...] = ()
    """Retained by each layer: `kv` and `state_bytes` of it alone."""
    by_heads: tuple[tuple[int, Parts, Parts], ...] = ()
    """`kv` and `kv_read` of the layers that have so many heads of keys and values; a latent counts as one."""

    @classmethod
    def of(cls, geometry: Geometry, kv_dtype: DataType | str, weights: Precision | None = None) -> ModelWork:
        """Add up a model's layers; `weights` is their number format, the published one where absent."""
        size = DataType(kv_dtype).bytes
        each = [layer.attention for layer in geometry.layers]
        counted, parts = geometry.weights, geometry.weight_parts(weights)
        lookup = 0 if geometry.tied_embeddings else counted.embedding
        return cls(
            weight_bytes=float(geometry.weights_bytes(weights)),
            active_parameters=counted.active - lookup - counted.head,
            attention=_parts(layer.work(decode=False) for layer in each),
            decode_attention=_parts(layer.work(decode=True) for layer in each),
            kv=_parts(layer.kept(size) for layer in each),
            kv_read=_parts(layer.read(size) for layer in each),
            state_bytes=geometry.state_bytes,
            head_parameters=counted.head,
            lookup_bytes=parts.embedding if lookup else 0.0,
            experts=expert_groups(geometry, weights),
            ffn_parameters=counted.ffn_active,
            ffn_bytes=parts.experts + parts.ffn,
            name=geometry.name,
            hidden=geometry.hidden,
            element_bytes=(weights or geometry.precision).bytes,
            layers=tuple((_parts([layer.kept(size)]), float(layer.state_bytes)) for layer in each),
            by_heads=tuple(
                (
                    heads,
                    _parts(layer.kept(size) for layer in each if layer.kv_heads == heads),
                    _parts(layer.read(size) for layer in each if layer.kv_heads == heads),
                )
                for heads in sorted({layer.kv_heads for layer in each if layer.kv_heads})
            ),
        )

    def on(self, devices: int) -> ModelWork:
        """The model as `devices` hold it that share its layers.

        Tensor parallelism splits keys and values by heads. Where there are fewer heads than devices, each
        head is kept and read by several; a latent, by all of them.
        """
        if all(devices <= heads for heads, _, _ in self.by_heads):
            return self
        if devices not in self._on:
            copies = [(max(1, math.ceil(devices / heads)), kv, read) for heads, kv, read in self.by_heads]
            self._on[devices] = replace(
                self,
                kv=_parts(_times(count, kv) for count, kv, _ in copies),
                kv_read=_parts(_times(count, read) for count, _, read in copies),
                by_heads=(),
            )
        return self._on[devices]

    @cached_property
    def _on(self) -> dict[int, ModelWork]:
        """Models that `on` made before."""
        return {}

    @property
    def _exchange_bytes(self) -> float:
        """Of one token, over all layers."""
        return float(EACH_LAYER * len(self.layers) * self.hidden * _ACTIVATION_BYTES)

    @property
    def fixed_step_bytes(self) -> float:
        """Bytes of weights that every step reads: all but a looked-up embedding and routed experts."""
        return self.weight_bytes - self.lookup_bytes - sum(group.nbytes for group in self.experts)

    def step_bytes(self, tokens: float) -> float:
        """Bytes of weights that a step of `tokens` tokens reads."""
        return self.fixed_step_bytes + sum(group.touched(tokens) for group in self.experts)

    def prompt(self, tokens: float) -> PromptWork:
        """The work of a prompt in one pass, each token attending to those before it and itself."""
        return PromptWork(
            linear_flops=2.0 * (self.active_parameters * tokens + self.head_parameters),
            weight_bytes=self.step_bytes(tokens),
            attention_flops=sum(flops * _pairs(tokens, limit) for flops, limit in self.attention),
            state_bytes=self.kv_bytes(tokens),
            exchange_bytes=tokens * self._exchange_bytes,
            exchanges=EACH_LAYER * len(self.layers),
        )

    def decode(self, context: float) -> DecodeWork:
        """The work of a decode step at a context of so many tokens."""
        return DecodeWork(
            weight_bytes=self.fixed_step_bytes,
            experts=self.experts,
            linear_flops=2.0 * (self.active_parameters + self.head_parameters),
            attention_flops=_spent(self.decode_attention, context),
            state_bytes=self.kv_read_bytes(context),
            exchange_bytes=self._exchange_bytes,
            exchanges=EACH_LAYER * len(self.layers),
        )

    def attention_part(self, context: float) -> DecodeWork:
        """The part of a decode step that isn't feed-forward: attention, state, head."""
        whole, ffn = self.decode(context), self.ffn_part()
        return DecodeWork(
            weight_bytes=whole.weight_bytes - ffn.weight_bytes,
            experts=(),
            linear_flops=whole.linear_flops - ffn.linear_flops,
            attention_flops=whole.attention_flops,
            state_bytes=whole.state_bytes,
            exchange_bytes=whole.exchange_bytes / 2.0,
            exchanges=whole.exchanges / 2.0,
        )

    def ffn_part(self) -> DecodeWork:
        """The feed-forward part of a decode step: no state."""
        return DecodeWork(
            weight_bytes=self.ffn_bytes - sum(group.nbytes for group in self.experts),
            experts=self.experts,
            linear_flops=2.0 * self.ffn_parameters,
            attention_flops=0.0,
            state_bytes=0.0,
            exchange_bytes=self._exchange_bytes / 2.0,
            exchanges=EACH_LAYER * len(self.layers) / 2.0,
        )

    def kv_bytes(self, tokens: float) -> float:
        """Bytes that one sequence of `tokens` retains."""
        return self.state_bytes + _spent(self.kv, tokens)

    def kv_read_bytes(self, tokens: float) -> float:
        """Bytes of them that a decode step reads."""
        return self.state_bytes + _spent(self.kv_read, tokens)

    def layer_bytes(self, tokens: float) -> tuple[float, ...]:
        """Bytes that each layer retains of one sequence of `tokens`."""
        return tuple(state + _spent(kv, tokens) for kv, state in self.layers)


def _spent(parts: Parts, tokens: float) -> float:
    return sum(cost * min(tokens, limit) for cost, limit in parts)


def _pairs(tokens: float, limit: float) -> float:
    """The sum over i = 1..tokens of min(i, limit)."""
    short = min(tokens, limit)
    beyond = (tokens - short) * limit if tokens > short else 0.0
    return short * (short + 1.0) / 2.0 + beyond


def _times(count: int, parts: Parts) -> tuple[Span, ...]:
    return tuple((cost * count, None if math.isinf(end) else end) for cost, end in parts)  # type: ignore[misc]


def _parts(layers: Iterable[tuple[Span, ...]]) -> Parts:
    found: dict[float, float] = {}
    for cost, end in chain.from_iterable(layers):
        limit = math.inf if end is None else end
        found[limit] = found.get(limit, 0.0) + cost
    return tuple((cost, limit) for limit, cost in sorted(found.items()))
