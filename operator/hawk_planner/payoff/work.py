"""FLOPs and bytes of a model's prefill and decode steps, from its geometry.

A prompt token goes through every layer; only the last one through the output head.
A decode step reads each weight once whatever the batch, except experts: only those that some token chose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from hawk_planner.perf.experts import expert_groups

from . import checks
from .roofline import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_api.models import Geometry, WeightBytes
    from hawk_api.v1alpha1 import DataType, Precision
    from hawk_planner.perf.experts import ExpertGroup

    from .roofline import Machine

T = TypeVar("T")

__all__ = ["DecodeStep", "ModelCosts"]


@dataclass(frozen=True)
class DecodeStep:
    """One decode step at a given context, as a function of the batch."""

    weight_bytes: float
    """Weights read whatever the batch."""
    experts: tuple[ExpertGroup, ...]
    sequence_bytes: float
    """State read for one sequence."""
    sequence_flops: float
    """Arithmetic for one token of one sequence."""
    tokens: float = 1.0
    """Tokens of a sequence that one step looks at: more than 1 in a verification of drafts."""

    def timer(
        self, machine: Machine, overhead: float, beside: Work | None = None
    ) -> Callable[[float], float]:
        """Return seconds of a step as a function of the batch, its constants computed once.

        Linear layers take the longer of their arithmetic and of reading their weights;
        attention over what is retained follows, bound by reading it. The two don't overlap.
        `beside` is work of the same step whose bytes already hold the weights: a chunk of a prompt.
        """
        flops = machine.flops * machine.compute_share
        rate = machine.bytes_per_second * machine.memory_share
        arithmetic, reading = self.tokens * self.sequence_flops / flops, self.sequence_bytes / rate
        if beside is not None:
            base, fixed = beside.flops / flops, beside.nbytes / rate
            return lambda batch: max(base + batch * arithmetic, fixed) + batch * reading + overhead
        fixed = self.weight_bytes / rate
        if not self.experts:
            return lambda batch: max(batch * arithmetic, fixed) + batch * reading + overhead
        groups = [(group.nbytes / rate, group.missed) for group in self.experts]

        def seconds(batch: float) -> float:
            tokens = max(1.0, batch * self.tokens)
            routed: float = sum(each * (1 - missed**tokens) for each, missed in groups)
            return max(batch * arithmetic, fixed + routed) + batch * reading + overhead

        return seconds


@dataclass(frozen=True)
class ModelCosts:
    """A model in given number formats."""

    geometry: Geometry
    kv_dtype: DataType
    precision: Precision | None = None
    """Of all weights; as they were published where None."""
    _known: dict[tuple[str, int], Any] = field(default_factory=dict, compare=False, repr=False)
    """Answers by token count: a plan asks for few and often, and a geometry is slow to hash."""

    @cached_property
    def weight_bytes(self) -> float:
        """Bytes of all weights."""
        return float(self.geometry.weights_bytes(self.precision))

    @cached_property
    def element_bytes(self) -> float:
        """Bytes of one element of what isn't feed-forward."""
        return (self.precision or self.geometry.precision).bytes

    @cached_property
    def parts(self) -> WeightBytes:
        """Bytes of the weights by part."""
        return self.geometry.weight_parts(self.precision)

    @cached_property
    def ffn_bytes(self) -> float:
        """Bytes of the feed-forward networks, all experts."""
        return self.parts.experts + self.parts.ffn

    @cached_property
    def lookup(self) -> int:
        """Parameters that are looked up and not multiplied."""
        return 0 if self.geometry.tied_embeddings else self.geometry.weights.embedding

    @cached_property
    def groups(self) -> tuple[ExpertGroup, ...]:
        """Routed experts."""
        return expert_groups(self.geometry, self.precision)

    def state_bytes(self, tokens: int) -> float:
        """Return what one sequence of `tokens` retains."""
        return float(sum(self.layer_bytes(checks.whole("tokens", tokens))))

    def layer_bytes(self, tokens: int) -> tuple[int, ...]:
        """Return what each layer retains of it."""
        return self._once("layers", tokens, lambda: self.geometry.kv_bytes_by_layer(tokens, self.kv_dtype))

    def prefill(self, tokens: int) -> Work:
        """Return the work of one prompt in one pass."""
        return self._once("prefill", tokens, lambda: _prefill(self, tokens))

    def decode(self, context: int) -> DecodeStep:
        """Return one decode step at `context` retained tokens."""
        return self._once("decode", context, lambda: _decode(self, context))

    def _once(self, name: str, tokens: int, compute: Callable[[], T]) -> T:
        found: T | None = self._known.get((name, tokens))
        if found is None:
            found = self._known[name, tokens] = compute()
        return found

    def attention_part(self, context: int) -> DecodeStep:
        """Return what of a decode step isn't feed-forward: attention, state, head."""
        whole, ffn = self.decode(context), self.ffn_part()
        return DecodeStep(
            weight_bytes=whole.weight_bytes - ffn.weight_bytes,
            experts=(),
            sequence_bytes=whole.sequence_bytes,
            sequence_flops=whole.sequence_flops - ffn.sequence_flops,
        )

    def ffn_part(self) -> DecodeStep:
        """Return the feed-forward part of a decode step: no state."""
        return DecodeStep(
            weight_bytes=self.ffn_bytes - sum(group.nbytes for group in self.groups),
            experts=self.groups,
            sequence_bytes=0.0,
            sequence_flops=float(self.geometry.ffn_flops_per_token()),
        )


def _prefill(model: ModelCosts, tokens: int) -> Work:
    geometry = model.geometry
    weights = geometry.weights
    body = 2.0 * (weights.active - model.lookup - weights.head) * tokens
    attention = geometry.prefill_flops(tokens) - geometry.flops_per_token() * tokens
    unused = sum(group.nbytes - group.touched(tokens) for group in model.groups)
    return Work(
        flops=body + 2.0 * weights.head + attention,
        nbytes=model.weight_bytes - unused + model.state_bytes(tokens),
    )


def _decode(model: ModelCosts, context: int) -> DecodeStep:
    geometry = model.geometry
    routed = sum(group.nbytes for group in model.groups)
    return DecodeStep(
        weight_bytes=model.weight_bytes - (model.parts.embedding if model.lookup else 0.0) - routed,
        experts=model.groups,
        sequence_bytes=float(geometry.kv_read_bytes(context, model.kv_dtype)),
        sequence_flops=2.0 * (geometry.weights.active - model.lookup) + geometry.attention_flops(context),
    )
