"""The simulated pool as a metrics store would show it: a `Window`, and the gauges that the baselines'
rules read."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

from hawk_planner.traffic import Distribution, SideTraffic, Window, distribution, signals
from hawk_planner.traffic.bins import Bin, dispersion
from hawk_planner.traffic.distribution import from_buckets

EDGES = tuple(float(m * 10**e) for e in range(6) for m in (1, 2, 5))
"""Upper edges of the buckets that engines count lengths in."""
WINDOW_S = 60.0
BIN_S = 30.0
BINS = 120
"""An hour."""


class _Lengths:
    """Bucket counts of the lengths of the last minute."""

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES) + 1)
        self.total = 0
        self.number = 0

    def move(self, tokens: int, by: int) -> None:
        self.counts[bisect_left(EDGES, tokens)] += by
        self.total += tokens * by
        self.number += by

    def read(self) -> signals.Signal[Distribution]:
        """The lengths as a metrics store would give them."""
        found, below = {}, 0
        for edge, count in zip((*EDGES, float("inf")), self.counts, strict=True):
            below += count
            found[edge] = float(below)
        made = from_buckets(found, self.total / self.number if self.number else None)
        if made is None:
            return signals.not_a_number("nothing was counted in the window")
        return signals.value(made)


@dataclass(frozen=True)
class Gauges:
    """One look at the pool: requests waiting for and being in prefill and decode, and use since the last."""

    time: float
    prefill_waiting: int
    prefill_running: int
    decode_waiting: int
    decode_running: int
    prefill_use: float
    """Share of the ready prefill workers' time that was spent on work since the last look."""
    kv_usage: float
    """Share of the decode workers' KV memory that is taken."""


class Meter:
    """Counts what leaves prefill; lengths and rates over the last minute."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, int, int, float, bool]] = deque()
        self._late = 0
        self._ttft_sum = 0.0
        self._prompts, self._outputs = _Lengths(), _Lengths()
        self._bins: deque[Bin] = deque(maxlen=BINS)
        self._bin_end = BIN_S
        self._in_bin = [0, 0, 0]
        self._waiting: deque[tuple[float, int]] = deque()

    def count(self, now: float, prompt: int, output: int, ttft: float, *, late: bool = False) -> None:
        """A request leaves prefill, `ttft` seconds after it came."""
        self._roll(now)
        self._in_bin[0] += 1
        self._in_bin[1] += prompt
        self._in_bin[2] += output
        self._recent.append((now, prompt, output, ttft, late))
        self._late += late
        self._ttft_sum += ttft
        self._prompts.move(prompt, 1)
        self._outputs.move(output, 1)

    def _roll(self, now: float) -> None:
        while now >= self._bin_end:
            self._bins.append(Bin(*self._in_bin))
            self._in_bin = [0, 0, 0]
            self._bin_end += BIN_S

    def window(self, gauges: Gauges) -> Window:
        """The window that ends now."""
        now = gauges.time
        self._roll(now)
        while self._recent and self._recent[0][0] <= now - WINDOW_S:
            _, prompt, output, ttft, late = self._recent.popleft()
            self._late -= late
            self._ttft_sum -= ttft
            self._prompts.move(prompt, -1)
            self._outputs.move(output, -1)
        self._waiting.append((now, gauges.prefill_waiting))
        while self._waiting[0][0] < now - WINDOW_S:
            self._waiting.popleft()
        rate = len(self._recent) / min(WINDOW_S, max(now, 1.0))
        prompts, outputs = self._prompts.read(), self._outputs.read()
        return Window(
            now,
            WINDOW_S,
            prefill=SideTraffic(
                arrivals=signals.value(rate),
                prompt=prompts,
                ttft=self._ttft(),
                late=signals.value(self._late / min(WINDOW_S, max(now, 1.0))),
                running=signals.value(float(gauges.prefill_running)),
                waiting=signals.value(float(gauges.prefill_waiting)),
                waiting_growth=signals.value(self._growth()),
            ),
            decode=SideTraffic(
                arrivals=signals.value(rate),
                output=outputs,
                running=signals.value(float(gauges.decode_running)),
                waiting=signals.value(float(gauges.decode_waiting)),
                kv_usage=signals.value(gauges.kv_usage),
            ),
            burstiness=dispersion([one.requests for one in self._bins]),
            burst_bin=BIN_S,
            bins=tuple(self._bins),
        )

    def _ttft(self) -> signals.Signal[Distribution]:
        """The mean is what the decision learns from; the shape isn't needed."""
        if not self._recent:
            return signals.not_a_number("nothing was counted in the window")
        return signals.value(distribution.of({max(0.0, self._ttft_sum) / len(self._recent): 1.0}))

    def _growth(self) -> float:
        (t0, w0), (t1, w1) = self._waiting[0], self._waiting[-1]
        return (w1 - w0) / (t1 - t0) if t1 > t0 else 0.0
