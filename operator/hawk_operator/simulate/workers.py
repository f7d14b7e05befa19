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

from hawk_operator.sizing.roofline import (
    DECODE_MBU,
    MAX_BATCH,
    PREFILL_MFU,
    STEP_OVERHEAD_S,
    TENSOR_EFFICIENCY,
    USABLE_MEMORY,
)

if TYPE_CHECKING:
    from hawk_operator.simulate.traces import Request
    from hawk_operator.sizing import Group, ModelWork


class Job:
    """One request on its way. Times in seconds of simulated time; `target` is its TTFT objective."""

    __slots__ = ("context", "first", "left", "prompt", "request", "started", "target", "tries")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.prompt = request.prompt
        self.left = max(0, request.output - 1)
        self.context = request.prompt + 1
        self.first = math.nan
        self.started = math.nan
        self.target = math.inf
        self.tries = 0


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


@dataclass(frozen=True)
class StepCost:
    """Time of one decode step: `base` + the larger of two lines in sequences and tokens of context."""

    base: float
    read: tuple[float, float, float]
    compute: tuple[float, float, float]
    memory_bytes: float
    kv_token: float
    kv_sequence: float

    @classmethod
    def of(cls, group: Group, model: ModelWork) -> StepCost:
        """The lines of one worker; windows of attention count as what each sequence reads at most."""
        worker = group.worker
        sharing = TENSOR_EFFICIENCY ** math.log2(max(1, worker.devices))
        bandwidth = (worker.bandwidth or math.nan) * DECODE_MBU * sharing
        flops = (worker.flops or math.nan) * PREFILL_MFU * sharing
        read, fixed = _lines(model.kv_read)
        pairs, fixed_pairs = _lines(model.attention)
        kept, fixed_kept = _lines(model.kv)
        return cls(
            base=STEP_OVERHEAD_S,
            read=(
                model.step_bytes / bandwidth,
                (fixed + model.state_bytes) / bandwidth,
                read / bandwidth,
            ),
            compute=(0.0, (model.token_flops(0.0) + fixed_pairs) / flops, pairs / flops),
            memory_bytes=(worker.memory or math.nan) * USABLE_MEMORY - model.weight_bytes,
            kv_token=kept,
            kv_sequence=fixed_kept + model.state_bytes,
        )

    def line(self, sequences: int, tokens: float) -> tuple[float, float]:
        """Time of a step at `tokens` of context, and what each further token adds."""
        a, b, c = self.read
        d, e, f = self.compute
        reading, computing = a + b * sequences + c * tokens, d + e * sequences + f * tokens
        return (self.base + reading, c) if reading >= computing else (self.base + computing, f)

    def kv_bytes(self, tokens: int) -> float:
        """Bytes that a sequence of so many tokens holds."""
        return self.kv_sequence + self.kv_token * tokens


def _lines(parts: tuple[tuple[float, float], ...]) -> tuple[float, float]:
    """What grows with each token without end, and what full windows cost a sequence."""
    growing = sum(cost for cost, limit in parts if math.isinf(limit))
    return growing, sum(cost * limit for cost, limit in parts if not math.isinf(limit))


class DecodeWorker:
    """Decodes a batch; sequences join and leave between steps."""

    __slots__ = (
        "cost",
        "draining",
        "ends",
        "free_bytes",
        "group",
        "number",
        "since",
        "steps",
        "time",
        "tokens",
        "version",
        "work_s",
    )

    def __init__(self, number: int, group: str, cost: StepCost, since: float) -> None:
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

    @property
    def load(self) -> int:
        """Sequences in the batch."""
        return len(self.ends)

    def fits(self, job: Job) -> bool:
        """Whether there is a place and memory for all that the sequence will hold."""
        need = self.cost.kv_bytes(job.request.prompt + job.request.output)
        return len(self.ends) < MAX_BATCH and need <= self.free_bytes

    def advance(self, now: float) -> None:
        """Let the batch decode until `now`."""
        span = now - self.time
        self.time = now
        sequences = len(self.ends)
        if span <= 0 or not sequences:
            return
        self.work_s += span
        first, slope = self.cost.line(sequences, self.tokens)
        grow = slope * sequences
        if grow * span < 1e-9 * first * first:
            steps = span / first
        else:  # first·k + grow·k²/2 = span
            steps = (math.sqrt(first * first + 2.0 * grow * span) - first) / grow
        self.steps += steps
        self.tokens += sequences * steps

    def join(self, job: Job, order: int) -> None:
        """Take a sequence in (after `advance`)."""
        heapq.heappush(self.ends, (self.steps + job.left, order, job))
        self.tokens += job.context
        self.free_bytes -= self.cost.kv_bytes(job.request.prompt + job.request.output)
        self.version += 1

    def next_end(self) -> float:
        """When the first sequence ends if nothing joins; infinite when there is none."""
        if not self.ends:
            return math.inf
        steps = max(0.0, self.ends[0][0] - self.steps)
        sequences = len(self.ends)
        first, slope = self.cost.line(sequences, self.tokens)
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
