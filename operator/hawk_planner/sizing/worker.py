"""One replica as sizing sees it: how long it takes, and how many sequences it holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hawk_planner.perf.rates import ASSUMED, Rates, rates_of
from hawk_planner.perf.steps import prompt_seconds, step_timer

if TYPE_CHECKING:
    from hawk_planner.perf.collectives import Interconnect
    from hawk_planner.perf.work import ModelWork


@dataclass(frozen=True)
class Worker:
    """One replica: its devices' peak rates added up. `None` is unknown, and never zero."""

    flops: float | None
    """FLOP/s at the precision of the weights."""
    bandwidth: float | None
    memory: float | None
    devices: int = 1
    attention_flops: float | None = None
    """FLOP/s in 16 bits, where they differ from `flops`."""
    interconnect: Interconnect | None = None
    """How its devices reach each other."""
    most_sequences: int = ASSUMED.most_sequences
    """Sequences that the engine decodes at once."""

    @cached_property
    def rates(self) -> Rates:
        """The rates that are reached; raises ValueError where one isn't known."""
        return rates_of(
            self._known("flops"),
            self._known("bandwidth"),
            attention_flops=self.attention_flops,
            devices=self.devices,
            interconnect=self.interconnect,
        )

    @property
    def room(self) -> float:
        """Bytes for weights and KV; raises ValueError where the memory isn't known."""
        return self._known("memory") * ASSUMED.usable_memory

    def lacking(self) -> tuple[str, ...]:
        """Names of the figures that aren't known."""
        known = {"flops": self.flops, "bandwidth": self.bandwidth, "memory": self.memory}
        return tuple(name for name, figure in known.items() if figure is None)

    def prefill_seconds(self, model: ModelWork, tokens: float) -> float:
        """Time to prefill one prompt alone."""
        return prompt_seconds(model.on(self.devices).prompt(tokens), self.rates)

    def step_seconds(self, model: ModelWork, batch: float, context: float) -> float:
        """Time of one decode step of `batch` sequences of `context` tokens each."""
        return step_timer(model.on(self.devices).decode(context), self.rates)(batch)

    def busy_seconds(self, model: ModelWork, batch: float, context: float) -> float:
        """The part of a decode step's time in which no prompt beside it can compute.

        A prompt's linear layers run while the step's weights are read; the rest is the batch's own.
        """
        work, rates = model.on(self.devices).decode(context), self.rates
        reading = work.state_bytes / rates.bytes_per_second
        each = work.linear_flops / rates.flops + max(work.attention_flops / rates.attention_flops, reading)
        fixed = rates.overhead_s + work.exchanges * rates.exchange_s
        return fixed + batch * (each + work.exchange_bytes * rates.wire_s)

    def memory_batch(self, model: ModelWork, context: float) -> int:
        """Sequences of `context` tokens whose KV fits beside the weights; 0 when the weights don't fit."""
        room = self.room - model.weight_bytes
        if room <= 0:
            return 0
        return int(room / max(model.on(self.devices).kv_bytes(context), 1.0))

    def latency_batch(self, model: ModelWork, context: float, target: float) -> int:
        """Largest batch of the engine whose step stays within `target` seconds; 0 when not even one does."""
        seconds = step_timer(model.on(self.devices).decode(context), self.rates)
        if seconds(1) > target:
            return 0
        low, high = 1, self.most_sequences + 1
        while high - low > 1:
            middle = (low + high) // 2
            if seconds(middle) <= target:
                low = middle
            else:
                high = middle
        return low

    def _known(self, name: str) -> float:
        figure: float | None = getattr(self, name)
        if figure is None:
            raise ValueError(f"the accelerator class doesn't give {name}; add it to the class")
        return figure
