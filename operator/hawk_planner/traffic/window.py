"""The traffic of a pool over one window, every signal with its state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hawk_api.reasons import Reason
from hawk_planner.traffic.signals import Signal, State, missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_planner.traffic.bins import Bin
    from hawk_planner.traffic.distribution import Distribution

_NONE_ASKED = "not asked for"
_REASONS = {
    State.MISSING: Reason.SIGNAL_MISSING,
    State.STALE: Reason.SIGNAL_STALE,
    State.NOT_A_NUMBER: Reason.SIGNAL_NOT_A_NUMBER,
    State.FAILED: Reason.QUERY_FAILED,
}


@dataclass(frozen=True)
class SideTraffic:
    """Signals of the pods of one side (prefill or decode).

    `arrivals` requests/s · `prompt`, `output` tokens a request · `ttft`, `itl`, `prefill_time`
    seconds · `late` requests/s whose first token came after its objective, as the router counts them ·
    `running`, `waiting` requests in all · `waiting_growth` requests/s · `kv_usage` the
    fullest pod's share (0 to 1) · `usage` that share by pod.
    """

    arrivals: Signal[float] = field(default_factory=lambda: missing(_NONE_ASKED))
    prompt: Signal[Distribution] = field(default_factory=lambda: missing(_NONE_ASKED))
    output: Signal[Distribution] = field(default_factory=lambda: missing(_NONE_ASKED))
    ttft: Signal[Distribution] = field(default_factory=lambda: missing(_NONE_ASKED))
    itl: Signal[Distribution] = field(default_factory=lambda: missing(_NONE_ASKED))
    late: Signal[float] = field(default_factory=lambda: missing(_NONE_ASKED))
    prefill_time: Signal[Distribution] = field(default_factory=lambda: missing(_NONE_ASKED))
    running: Signal[float] = field(default_factory=lambda: missing(_NONE_ASKED))
    waiting: Signal[float] = field(default_factory=lambda: missing(_NONE_ASKED))
    waiting_growth: Signal[float] = field(default_factory=lambda: missing(_NONE_ASKED))
    kv_usage: Signal[float] = field(default_factory=lambda: missing(_NONE_ASKED))
    living: int | None = None
    """Pods that should report; None when they weren't listed."""
    silent: int = 0
    """Living pods without a series in the window."""
    by_pod: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Gauges by pod: {pod: {running, waiting, kv_usage}}; pods without a name are left out."""

    @property
    def unseen_factor(self) -> float:
        """How much larger the load may be if the silent pods are as busy as the others (1 or more)."""
        if not self.living or not self.silent or self.silent >= self.living:
            return 1.0
        return self.living / (self.living - self.silent)


@dataclass(frozen=True)
class Window:
    """One look at the traffic: `time` (seconds since the epoch) and `seconds` (its width)."""

    time: float
    seconds: float
    prefill: SideTraffic = field(default_factory=SideTraffic)
    decode: SideTraffic = field(default_factory=SideTraffic)
    burstiness: Signal[float] = field(default_factory=lambda: missing(_NONE_ASKED))
    """Index of dispersion of counts in bins of `burst_bin` seconds; 1 for a Poisson process."""
    burst_bin: float = 30.0
    bins: tuple[Bin, ...] = ()
    """The traffic of the last hour in such bins, oldest first; empty where it isn't known."""
    link: Signal[float] = field(default_factory=lambda: missing(_NONE_ASKED))
    """Bytes a second of one transfer's chunks over all its rails, arrival checked: the mean of all agents."""
    error: str = ""
    """Why the metrics store gave nothing at all; empty when it did."""
    answered: bool = True
    """False when there was no answer, rather than one with an error."""
    own: frozenset[str] = frozenset()
    """Signals by the user's own queries: plain numbers, latencies at the objective's percentile."""
    warnings: tuple[str, ...] = ()
    round_trips: int = 0

    @property
    def arrivals(self) -> Signal[float]:
        """Requests a second that come to the pool."""
        return self.prefill.arrivals

    def lost(self) -> str:
        """Why a decision can't rest on this window; empty when it can.

        A rate of zero is enough to decide on. With a rate, the length of prompts and outputs must be
        known as well.
        """
        if self.error:
            return self.error
        if not self.arrivals.known:
            return f"arrivals: {self.arrivals.state}: {self.arrivals.detail}"
        if self.arrivals.get() <= 0:
            return ""
        for name, signal in (("prompt tokens", self.prefill.prompt), ("output tokens", self.decode.output)):
            if not signal.known:
                return f"{name}: {signal.state}: {signal.detail}"
        return ""

    def reason(self) -> Reason:
        """The reason of the condition MetricsAvailable, which is true with METRICS_FRESH only."""
        if self.error:
            return Reason.QUERY_FAILED if self.answered else Reason.PROMETHEUS_UNREACHABLE
        if not self.lost():
            return Reason.METRICS_FRESH
        needed = (self.arrivals, self.prefill.prompt, self.decode.output)
        return _REASONS[next(signal.state for signal in needed if not signal.known)]

    def message(self) -> str:
        """The message of the condition MetricsAvailable."""
        lost = self.lost()
        if lost:
            return lost
        text = f"{self.arrivals.get():.3g} requests/s over {self.seconds:g} s"
        return "; ".join([text, *self.warnings])
