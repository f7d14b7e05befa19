"""Workers in simulated time.

A decode worker advances from one change of its batch to the next: between two changes a step's time is
linear in the tokens of context, which grow by the batch at every step, so the steps that fit a span of
time (and the reverse) come from a quadratic. A request costs a few events, however long its output.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_planner.perf.work import ModelWork
    from hawk_planner.simulate.traces import TraceRequest
    from hawk_planner.sizing import SizedGroup


DEFAULT_CHUNK_S = 0.05
"""Step of a batch beside a prompt where no ITL is promised."""
_LEAST_SHARE = 0.1
"""Of a step's compute, what a prompt gets beside any batch."""


class Job:
    """One request on its way. Times in seconds of simulated time.

    `deadline` is when its first token is due, `services` the time of its prefill by group, `service` that
    of the fastest dedicated one.
    """

    __slots__ = (
        "context",
        "deadline",
        "first",
        "index",
        "left",
        "prompt",
        "queued",
        "request",
        "service",
        "services",
        "started",
    )

    def __init__(self, request: TraceRequest, index: int = 0) -> None:
        self.request = request
        self.index = index
        self.prompt = request.prompt
        self.left = max(0, request.output - 1)
        self.context = request.prompt + 1
        self.first = math.nan
        self.started = math.nan
        self.deadline = math.inf
        self.service = 0.0
        self.services: Mapping[str, float] = {}
        self.queued = False


class PrefillWorker:
    """Prefills one prompt after another, and sends each KV over its own link."""

    __slots__ = ("busy_until", "draining", "group", "job", "link_free", "number", "since", "work_s")

    def __init__(self, number: int, group: str, since: float) -> None:
        self.number = number
        self.group = group
        self.since = since
        self.job: Job | None = None
        self.busy_until = 0.0
        self.link_free = 0.0
        self.draining = False
        self.work_s = 0.0

    @property
    def load(self) -> int:
        """Requests that it works on."""
        return int(self.job is not None)

    def fits(self, job: Job) -> bool:
        """Always: KV goes where it is decoded."""
        del job
        return True


@dataclass(frozen=True)
class StepCost:
    """Time of one decode step, as `perf.steps` has it, with the lines that it follows between two changes.

    `base` seconds, `exchange` a sequence, the linear layers (the larger of `arithmetic` a sequence and of
    reading `weights` and the experts that the sequences choose), and attention (the larger of two lines in
    sequences and tokens of context: `read` and `compute`).
    """

    base: float
    exchange: float
    arithmetic: float
    weights: float
    read: tuple[float, float]
    compute: tuple[float, float]
    experts: tuple[tuple[float, float], ...]
    """Seconds to read all experts of a kind, and the chance that a token chooses a given one of them not."""
    most_sequences: int
    memory_bytes: float
    kv_token: float
    kv_sequence: float

    @classmethod
    def of(cls, group: SizedGroup, model: ModelWork) -> StepCost:
        """The lines of one worker; windows of attention count as what each sequence reads at most."""
        model = model.on(group.worker.devices)
        rates, work = group.worker.rates, model.decode(0.0)
        read, fixed = _lines(model.kv_read)
        pairs, fixed_pairs = _lines(model.decode_attention)
        kept, fixed_kept = _lines(model.kv)
        return cls(
            base=rates.overhead_s + work.exchanges * rates.exchange_s,
            exchange=work.exchange_bytes * rates.wire_s,
            arithmetic=work.linear_flops / rates.flops,
            weights=work.weight_bytes / rates.bytes_per_second,
            read=(
                (fixed + model.state_bytes) / rates.bytes_per_second,
                read / rates.bytes_per_second,
            ),
            compute=(fixed_pairs / rates.attention_flops, pairs / rates.attention_flops),
            experts=tuple((group.nbytes / rates.bytes_per_second, group.missed) for group in model.experts),
            most_sequences=group.worker.most_sequences,
            memory_bytes=group.worker.room - model.weight_bytes,
            kv_token=kept,
            kv_sequence=fixed_kept + model.state_bytes,
        )

    def line(self, sequences: int, tokens: float) -> tuple[float, float]:
        """Time of a step at `tokens` of context, and what each further token adds."""
        weights = self.weights
        for whole, missed in self.experts:
            weights += whole * (1 - missed**sequences)
        attention, slope = self._attention(sequences, tokens)
        linear = max(sequences * self.arithmetic, weights)
        return self.base + sequences * self.exchange + linear + attention, slope

    def _attention(self, sequences: int, tokens: float) -> tuple[float, float]:
        a, b = self.read
        c, d = self.compute
        reading, computing = a * sequences + b * tokens, c * sequences + d * tokens
        return (reading, b) if reading >= computing else (computing, d)

    def compute_left(self, sequences: int, tokens: float, step_s: float) -> float:
        """Share of a step of `step_s` that a batch leaves to a prompt's chunk.

        The chunk's linear layers run while the weights are read; the rest of the step is the batch's own.
        """
        attention, _ = self._attention(sequences, tokens)
        own = self.base + sequences * (self.arithmetic + self.exchange) + attention
        return max(_LEAST_SHARE, 1.0 - own / step_s)

    def kv_bytes(self, tokens: int) -> float:
        """Bytes that a sequence of so many tokens holds."""
        return self.kv_sequence + self.kv_token * tokens


def _lines(parts: tuple[tuple[float, float], ...]) -> tuple[float, float]:
    """The memory that grows with each token without end, and that of a sequence's full windows."""
    growing = sum(cost for cost, limit in parts if math.isinf(limit))
    return growing, sum(cost * limit for cost, limit in parts if not math.isinf(limit))


class DecodeWorker:
    """Decodes a batch; sequences join and leave between steps.

    A worker of role Both also prefills, one prompt at a time, in chunks that keep the steps of its batch
    at `chunk_s`: the prompt takes what the batch leaves of the compute.
    """

    __slots__ = (
        "busy_until",
        "chunk_s",
        "cost",
        "draining",
        "ends",
        "free_bytes",
        "group",
        "job",
        "number",
        "since",
        "steps",
        "time",
        "tokens",
        "version",
        "work_s",
    )

    def __init__(
        self, number: int, group: str, cost: StepCost, since: float, *, chunk_s: float = DEFAULT_CHUNK_S
    ) -> None:
        self.number = number
        self.group = group
        self.cost = cost
        self.since = since
        self.time = since
        self.steps = 0.0
        self.tokens = 0.0
        self.free_bytes = cost.memory_bytes
        self.ends: list[tuple[float, int, Job]] = []
        self.version = 0
        self.draining = False
        self.work_s = 0.0
        self.chunk_s = chunk_s
        self.job: Job | None = None
        self.busy_until = 0.0

    @property
    def load(self) -> int:
        """Sequences in the batch, and the prompt beside it."""
        return len(self.ends) + (self.job is not None)

    def step_with(self, context: int) -> float:
        """Seconds of a step with one sequence more, by the tokens at the last change."""
        return self.cost.line(len(self.ends) + 1, self.tokens + context)[0]

    def fits(self, job: Job) -> bool:
        """True if there is a place and memory for all that the sequence will hold."""
        need = self.cost.kv_bytes(job.request.prompt + job.request.output)
        return len(self.ends) < self.cost.most_sequences and need <= self.free_bytes

    def advance(self, now: float) -> None:
        """Let the batch decode until `now`."""
        span = now - self.time
        self.time = now
        sequences = len(self.ends)
        if span <= 0 or not (sequences or self.job):
            return
        self.work_s += span
        first, slope = self._line(sequences)
        grow = slope * sequences
        if grow * span < 1e-9 * first * first:
            steps = span / first
        else:  # first·k + grow·k²/2 = span
            steps = (math.sqrt(first * first + 2.0 * grow * span) - first) / grow
        self.steps += steps
        self.tokens += sequences * steps

    def _line(self, sequences: int) -> tuple[float, float]:
        first, slope = self.cost.line(sequences, self.tokens)
        return (first, slope) if self.job is None else (max(first, self.chunk_s), 0.0)

    def join(self, job: Job, order: int, *, held: bool = False) -> None:
        """Take a sequence in (after `advance`); `held`: its memory was taken with its prompt."""
        heapq.heappush(self.ends, (self.steps + job.left, order, job))
        self.tokens += job.context
        if not held:
            self.free_bytes -= self.cost.kv_bytes(job.request.prompt + job.request.output)
        self.version += 1

    def prefill(self, job: Job, seconds: float) -> None:
        """Begin a prompt (after `advance`) that alone takes `seconds`; sets `busy_until`."""
        share = self.cost.compute_left(len(self.ends), self.tokens, self.chunk_s) if self.ends else 1.0
        self.job, self.busy_until = job, self.time + seconds / share
        self.free_bytes -= self.cost.kv_bytes(job.request.prompt + job.request.output)
        self.version += 1

    def prefilled(self, order: int) -> None:
        """End the prompt (after `advance`); its sequence decodes here unless it has ended."""
        job, self.job = self.job, None
        self.version += 1
        if job is None:
            return
        if job.left:
            self.join(job, order, held=True)
        else:
            self.free_bytes += self.cost.kv_bytes(job.request.prompt + job.request.output)

    def next_end(self) -> float:
        """When the first sequence ends if nothing joins; infinite when there is none."""
        if not self.ends:
            return math.inf
        steps = max(0.0, self.ends[0][0] - self.steps)
        sequences = len(self.ends)
        first, slope = self._line(sequences)
        return self.time + steps * first + slope * sequences * steps * steps / 2.0

    def leave(self) -> list[Job]:
        """Take out the sequences that have ended (after `advance`)."""
        gone = []
        while self.ends and self.ends[0][0] <= self.steps + 1e-6:
            _, _, job = heapq.heappop(self.ends)
            self.tokens -= job.request.prompt + 1 + job.left
            self.free_bytes += self.cost.kv_bytes(job.request.prompt + job.request.output)
            gone.append(job)
        if gone:
            self.version += 1
        if not self.ends:
            self.tokens = 0.0
        return gone
