"""How many replicas of one group carry a load: prefill by queueing, decode by occupancy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from hawk_planner.sizing.queueing import Queue, dispersion_at, servers_for

if TYPE_CHECKING:
    from hawk_planner.perf.objectives import LatencyObjective
    from hawk_planner.perf.work import ModelWork
    from hawk_planner.sizing.problem import SizedGroup
    from hawk_planner.traffic import Distribution

UTILISATION_WITHOUT_OBJECTIVE = 0.8
"""How full workers may be when no latency is promised."""
DEFAULT_SHARE = 0.95
"""Share of moments in which decode has room when no ITL is promised."""
OF_THE_ATTAINABLE = 0.99
"""Share of the requests that could meet the target alone and must do so with waiting, too."""
RELAXATION = 8.0
"""Time over which clumps of arrivals add up in a queue, in multiples of the target."""
MOST_CLUMPED = 6.0
"""Dispersion at that scale beyond which only measured waits are believed."""
LINK_UTILISATION = 0.7
"""How full a link may be before transfers queue behind each other."""


@dataclass(frozen=True)
class OfferedLoad:
    """The offered load: `rate` requests/s, lengths in tokens, and burstiness in bins of `bin_s` seconds.

    `prefill_backlog` and `decode_backlog` are requests/s on top, to work off what waits already.
    """

    rate: float
    prompt: Distribution
    output: Distribution
    dispersion: float = 1.0
    bin_s: float = 30.0
    prefill_backlog: float = 0.0
    decode_backlog: float = 0.0
    levels: tuple[tuple[float, float], ...] = ()
    """(requests/s, share of the requests) that bursts of the last hour lead to expect; none where unknown."""
    prefill_growth: float = 1.0
    decode_growth: float = 1.0
    """How many times the load is expected when workers that are asked for now are ready."""
    usual: float = math.inf
    """Requests/s between bursts; where it isn't known all is usual."""
    noise: float = 0.0
    """Requests/s that chance alone makes of difference to the usual."""
    persistence: float = 1.0
    """Share of what is above the usual that should last until workers that are asked for now are ready."""

    def scaled(self, factor: float) -> OfferedLoad:
        """The same mix at another rate."""
        return OfferedLoad(
            self.rate * factor,
            self.prompt,
            self.output,
            self.dispersion,
            self.bin_s,
            self.prefill_backlog * factor,
            self.decode_backlog * factor,
            tuple((rate * factor, share) for rate, share in self.levels),
            self.prefill_growth,
            self.decode_growth,
            self.usual * factor,
            self.noise * factor,
            self.persistence,
        )

    @property
    def prefill_rate(self) -> float:
        """Requests/s that prefill has to be ready for."""
        return self._lasting * self.prefill_growth + self.prefill_backlog * self.persistence

    @property
    def _lasting(self) -> float:
        """The rate without what is noise round the usual one, and without the part of a burst that passes."""
        above = self.rate - self.usual
        if abs(above) <= self.noise:
            return self.usual
        return self.rate - max(0.0, above) * (1.0 - self.persistence)

    @property
    def decode_rate(self) -> float:
        """Requests/s that decode has to be ready for."""
        return self._lasting * self.decode_growth + self.decode_backlog * self.persistence

    def burst_rate(self, share: float) -> float:
        """Requests/s that a `share` of the requests meets at most, by the bursts that were seen."""
        seen = 0.0
        for rate, part in sorted(self.levels):
            seen += part
            if seen >= share - 1e-9:
                return rate
        return max((rate for rate, _ in self.levels), default=0.0)

    @property
    def context(self) -> float:
        """Tokens of context at a random moment of decoding (long outputs are met more often)."""
        mean = self.output.mean
        squares = self.output.expect(lambda tokens: tokens * tokens)
        return self.prompt.mean + (squares / (2.0 * mean) if mean > 0 else 0.0)

    @property
    def context_variation(self) -> float:
        """Squared coefficient of variation of the context: a few long sequences fill a batch's bytes."""
        mean = self.prompt.mean
        spread = self.prompt.expect(lambda tokens: (tokens - mean) ** 2)
        return spread / self.context**2 if self.context > 0 else 0.0


@dataclass(frozen=True)
class PrefillNeed:
    """Prefill of a load on one group's workers. `binding` names what decides."""

    service: tuple[tuple[float, float], ...]
    dispersion: float
    attainable: float
    share: float
    target: float | None
    link_replicas: float
    stretch: float = 0.0
    wait_factor: float = 1.0
    load_dispersion: float = 1.0

    @classmethod
    def of(
        cls,
        model: ModelWork,
        group: SizedGroup,
        load: OfferedLoad,
        objective: LatencyObjective | None,
        *,
        wait_factor: float = 1.0,
        link: float | None = None,
    ) -> PrefillNeed:
        """Service times by the roofline; waits as long as measurement taught (`wait_factor`)."""
        prompts = load.prompt.coarser()
        service = tuple((group.worker.prefill_seconds(model, x), p) for x, p in prompts)
        target = objective.target if objective else None
        stretch = objective.stretch if objective else 0.0
        attainable = sum(p for s, p in service if objective is None or s <= objective.limit(s))
        share = min(objective.share, OF_THE_ATTAINABLE * attainable) if objective else 0.0
        scale = target if target is not None else load.bin_s
        kv = load.prompt.expect(model.kv_bytes)
        return cls(
            service=service,
            dispersion=min(MOST_CLUMPED, dispersion_at(load.dispersion, load.bin_s, RELAXATION * scale)),
            attainable=attainable,
            share=share,
            target=target,
            link_replicas=kv / (link * LINK_UTILISATION) if link else 0.0,
            stretch=stretch,
            wait_factor=wait_factor,
            load_dispersion=max(1.0, load.dispersion),
        )

    @property
    def mean_service(self) -> float:
        """Mean service time in seconds."""
        return sum(s * p for s, p in self.service)

    def replicas(self, rate: float, most: int = 100_000) -> int:
        """Fewest replicas for `rate` requests/s."""
        if rate <= 0:
            return 0
        by_link = math.ceil(rate * self.link_replicas - 1e-9)
        if self.target is None or self.attainable <= 0:
            by_work = math.ceil(rate * self.mean_service / UTILISATION_WITHOUT_OBJECTIVE - 1e-9)
        else:
            by_work = servers_for(self.queue(rate, 1), self.target, self.share, most=most)
        return max(1, min(most, max(by_link, by_work)))

    @property
    def unit(self) -> float:
        """Requests/s that one replica could do without any waiting."""
        return 1.0 / self.mean_service if self.mean_service > 0 else math.inf

    def carries(self, replicas: int) -> float:
        """Largest rate that `replicas` carry within the objective."""
        low, high = 0.0, replicas * self.unit
        for _ in range(30 if replicas else 0):
            middle = (low + high) / 2.0
            if self._enough(middle, replicas):
                low = middle
            else:
                high = middle
        return low

    def _enough(self, rate: float, replicas: int) -> bool:
        if rate * self.link_replicas > replicas:
            return False
        if self.target is None or self.attainable <= 0:
            return rate * self.mean_service <= UTILISATION_WITHOUT_OBJECTIVE * replicas
        return self.queue(rate, replicas).attained(self.target) >= self.share

    def queue(self, rate: float, replicas: int) -> Queue:
        """The queue that so many replicas make."""
        return Queue(replicas, rate, self.service, self.dispersion, self.stretch, self.wait_factor)

    def link_binds(self, rate: float) -> bool:
        """True if the link, and not the work, decides."""
        return rate * self.link_replicas > 1 and math.ceil(rate * self.link_replicas) >= self.replicas(rate)


@dataclass(frozen=True)
class DecodeNeed:
    """Decode of a load on one group's workers: `batch` sequences a replica, and what limits it."""

    batch: int
    latency_batch: int
    memory_batch: int
    engine_batch: int
    step_s: float
    tokens: float
    margin: float
    context: float
    feasible: bool

    @classmethod
    def of(
        cls,
        model: ModelWork,
        group: SizedGroup,
        load: OfferedLoad,
        objective: LatencyObjective | None,
        *,
        step_factor: float = 1.0,
    ) -> DecodeNeed:
        """The batch that the objective, the memory and the engine allow, and its step time.

        Steps take `step_factor` times what the roofline says, as measurement taught.
        """
        context = load.context
        longest = load.prompt.mean + load.output.mean
        memory = group.worker.memory_batch(model, longest)
        if objective is None:
            latency, margin = group.worker.most_sequences, NormalDist().inv_cdf(DEFAULT_SHARE)
        else:
            latency = group.worker.latency_batch(model, context, objective.target / step_factor)
            margin = NormalDist().inv_cdf(objective.share)
        batch = max(1, min(latency, memory))
        step = step_factor * group.worker.step_seconds(model, batch, context)
        residence = load.output.mean * step
        spread = dispersion_at(load.dispersion, load.bin_s, residence) * (1.0 + load.context_variation)
        return cls(
            batch=batch,
            latency_batch=latency,
            memory_batch=memory,
            engine_batch=group.worker.most_sequences,
            step_s=step,
            tokens=load.output.mean,
            margin=max(0.0, margin) * math.sqrt(spread),
            context=context,
            feasible=latency >= 1 and memory >= 1,
        )

    def sequences(self, rate: float) -> tuple[float, float]:
        """Sequences in flight by Little's law: their mean, and the number that the objective's share sees."""
        mean = rate * self.tokens * self.step_s
        return mean, mean + self.margin * math.sqrt(mean)

    def replicas(self, rate: float, most: int = 100_000) -> int:
        """Fewest replicas for `rate` requests/s; 0 when no output tokens are asked for."""
        if rate <= 0 or self.tokens <= 0:
            return 0
        return max(1, min(most, math.ceil(self.sequences(rate)[1] / self.batch - 1e-9)))

    @property
    def unit(self) -> float:
        """Requests/s that one full replica does."""
        return self.batch / (self.tokens * self.step_s) if self.tokens > 0 else math.inf

    def carries(self, replicas: int) -> float:
        """Largest rate that `replicas` carry within the objective."""
        if self.tokens <= 0:
            return math.inf if replicas else 0.0
        root = (-self.margin + math.sqrt(self.margin**2 + 4.0 * replicas * self.batch)) / 2.0
        return root * root / (self.tokens * self.step_s)

    @property
    def limit(self) -> str:
        """The limit that keeps the batch from being larger."""
        if not self.memory_batch:
            return "not even one sequence fits the memory beside the weights"
        if not self.latency_batch:
            return "ITL: one sequence alone is slower than the target"
        if self.engine_batch <= min(self.latency_batch, self.memory_batch):
            return f"the engine's batch of {self.batch}, KV memory would hold {self.memory_batch}"
        if self.latency_batch <= self.memory_batch:
            return f"ITL: batch {self.batch}, KV memory would hold {self.memory_batch}"
        return f"KV memory: batch {self.batch}, ITL would allow {self.latency_batch}"
