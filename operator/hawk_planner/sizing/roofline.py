"""How long a worker takes: compute and memory-bandwidth limits of its devices, whichever binds.

All quantities are in base units (bytes, FLOP, seconds). Efficiencies are assumptions with a name, so
that a decision can print them and a measurement can correct them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import DataType
from hawk_planner.perf.experts import ExpertGroup, expert_groups

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hawk_api.models.geometry import Geometry
    from hawk_api.models.layers import Span
    from hawk_api.v1alpha1.enums import Precision

PREFILL_MFU = 0.60
"""Share of peak FLOP/s that prefill reaches; 60 to 75% is commonly published for long prompts."""
DECODE_MBU = 0.70
"""Share of peak memory bandwidth that a decode step reaches."""
USABLE_MEMORY = 0.90
"""Share of device memory that weights and KV may fill; the rest holds activations and the runtime."""
STEP_OVERHEAD_S = 0.001
"""Scheduling and launch time of one decode step."""
TENSOR_EFFICIENCY = 0.95
"""The share of the rates that is left at each doubling of the devices that share a layer."""
MAX_BATCH = 256
"""Sequences that an engine decodes at once, unless something binds earlier."""


Parts = tuple[tuple[float, float], ...]
"""The cost of a token, and up to which token (a window; infinite without one), by kind of layer."""


@dataclass(frozen=True)
class ModelWork:
    """The work of a model: `active_parameters` multiply each token, `weight_bytes` are all resident.

    `attention` holds FLOP for one (query, key) pair of a prefill, `decode_attention` of a decode step; `kv`
    the bytes retained a token, `kv_read` the bytes that a decode step reads a token; each with its limit in
    tokens. `state_bytes` come with each sequence. `head_parameters` multiply only a token whose successor is
    wanted: the last one of a prompt, each decoded one. `lookup_bytes` of the weights are an embedding table,
    of which a step reads a row; of `experts` it reads those that some token chose.
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

    @classmethod
    def of(cls, geometry: Geometry, kv_dtype: DataType | str, weights: Precision | None = None) -> ModelWork:
        """Add up a model's layers; `weights` is their number format, the published one where absent."""
        size = DataType(kv_dtype).bytes
        each = [layer.attention for layer in geometry.layers]
        counted = geometry.weights
        lookup = 0 if geometry.tied_embeddings else counted.embedding
        return cls(
            weight_bytes=geometry.weights_bytes(weights),
            active_parameters=counted.active - lookup - counted.head,
            attention=_parts(layer.work(decode=False) for layer in each),
            decode_attention=_parts(layer.work(decode=True) for layer in each),
            kv=_parts(layer.kept(size) for layer in each),
            kv_read=_parts(layer.read(size) for layer in each),
            state_bytes=geometry.state_bytes,
            head_parameters=counted.head,
            lookup_bytes=geometry.weight_parts(weights).embedding if lookup else 0.0,
            experts=expert_groups(geometry, weights),
        )

    @property
    def fixed_step_bytes(self) -> float:
        """Bytes of weights that every decode step reads: all but a looked-up embedding and routed experts."""
        return self.weight_bytes - self.lookup_bytes - sum(group.nbytes for group in self.experts)

    def step_bytes(self, tokens: float) -> float:
        """Bytes of weights that a step of `tokens` tokens reads."""
        return self.fixed_step_bytes + sum(group.touched(tokens) for group in self.experts)

    def prefill_flops(self, tokens: float) -> float:
        """FLOP to prefill a prompt (causal attention: half the pairs)."""
        return 2.0 * (self.active_parameters * tokens + self.head_parameters) + sum(
            flops * (tokens * tokens / 2.0 if tokens <= limit else limit * (tokens - limit / 2.0))
            for flops, limit in self.attention
        )

    def token_flops(self, context: float) -> float:
        """FLOP of one decoded token at a context."""
        pairs = sum(flops * min(context, limit) for flops, limit in self.decode_attention)
        return 2.0 * (self.active_parameters + self.head_parameters) + pairs

    def kv_bytes(self, tokens: float) -> float:
        """Bytes that one sequence of `tokens` retains."""
        return self.state_bytes + sum(size * min(tokens, limit) for size, limit in self.kv)

    def kv_read_bytes(self, tokens: float) -> float:
        """Bytes of them that a decode step reads."""
        return self.state_bytes + sum(size * min(tokens, limit) for size, limit in self.kv_read)


def _parts(layers: Iterable[tuple[Span, ...]]) -> Parts:
    found: dict[float, float] = {}
    for cost, end in chain.from_iterable(layers):
        limit = math.inf if end is None else end
        found[limit] = found.get(limit, 0.0) + cost
    return tuple((cost, limit) for limit, cost in sorted(found.items()))


@dataclass(frozen=True)
class Worker:
    """One replica: its devices' rates added up. `None` is unknown, and never zero."""

    flops: float | None
    bandwidth: float | None
    memory: float | None
    devices: int = 1

    @property
    def _sharing(self) -> float:
        return float(TENSOR_EFFICIENCY ** math.log2(max(1, self.devices)))

    def lacking(self) -> tuple[str, ...]:
        """Names of the figures that aren't known."""
        known = {"flops": self.flops, "bandwidth": self.bandwidth, "memory": self.memory}
        return tuple(name for name, figure in known.items() if figure is None)

    def prefill_seconds(self, model: ModelWork, tokens: float) -> float:
        """Time to prefill one prompt alone."""
        compute = model.prefill_flops(tokens) / (self._known("flops") * PREFILL_MFU * self._sharing)
        weights = model.step_bytes(tokens) / (self._known("bandwidth") * DECODE_MBU * self._sharing)
        return STEP_OVERHEAD_S + max(compute, weights)

    def step_seconds(self, model: ModelWork, batch: float, context: float) -> float:
        """Time of one decode step of `batch` sequences of `context` tokens each."""
        read = model.step_bytes(batch) + batch * model.kv_read_bytes(context)
        memory = read / (self._known("bandwidth") * DECODE_MBU * self._sharing)
        flops = batch * model.token_flops(context)
        compute = flops / (self._known("flops") * PREFILL_MFU * self._sharing)
        return STEP_OVERHEAD_S + max(memory, compute)

    def compute_seconds(self, model: ModelWork, batch: float, context: float) -> float:
        """The part of a decode step's time that keeps the compute units from other work; reading doesn't."""
        flops = batch * model.token_flops(context)
        return STEP_OVERHEAD_S + flops / (self._known("flops") * PREFILL_MFU * self._sharing)

    def memory_batch(self, model: ModelWork, context: float) -> int:
        """Sequences of `context` tokens whose KV fits beside the weights; 0 when the weights don't fit."""
        room = self._known("memory") * USABLE_MEMORY - model.weight_bytes
        if room <= 0:
            return 0
        return int(min(room / max(model.kv_bytes(context), 1.0), MAX_BATCH))

    def latency_batch(self, model: ModelWork, context: float, target: float) -> int:
        """Largest batch whose step stays within `target` seconds; 0 when not even one sequence does."""
        if self.step_seconds(model, 1, context) > target:
            return 0
        low, high = 1, MAX_BATCH + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.step_seconds(model, middle, context) <= target:
                low = middle
            else:
                high = middle
        return low

    def _known(self, name: str) -> float:
        figure: float | None = getattr(self, name)
        if figure is None:
            raise ValueError(f"the accelerator class doesn't give {name}; add it to the class")
        return figure
