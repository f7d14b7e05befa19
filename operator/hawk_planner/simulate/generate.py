"""Traffic from a seed: kinds of work with their lengths, and how their rate changes.

A `Stream` draws arrivals one by one from a clock that is passed in, so that a live demonstration and a
simulated trace are the same traffic.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hawk_planner.simulate.traces import Trace, TraceRequest

Rate = Callable[[float], float]
"""Requests/s at a time in seconds."""


@dataclass(frozen=True)
class TrafficKind:
    """A kind of work: mean lengths in tokens, and their spread (standard deviation of the logarithm)."""

    name: str
    prompt: float
    output: float
    prompt_spread: float = 0.5
    output_spread: float = 0.6
    longest_prompt: int = 120_000
    longest_output: int = 8_000

    def draw(self, chance: random.Random) -> tuple[int, int]:
        """Lengths of one request: prompt and output tokens, at least 1 each."""
        return (
            _lognormal(chance, self.prompt, self.prompt_spread, self.longest_prompt),
            _lognormal(chance, self.output, self.output_spread, self.longest_output),
        )


RAG = TrafficKind("rag", prompt=12_000, output=300, prompt_spread=0.35)
CHAT = TrafficKind("chat", prompt=1_000, output=300, prompt_spread=0.8)
AGENT = TrafficKind("agent", prompt=1_500, output=600, prompt_spread=0.5)
KINDS: Mapping[str, TrafficKind] = MappingProxyType({kind.name: kind for kind in (RAG, CHAT, AGENT)})


def _lognormal(chance: random.Random, mean: float, spread: float, most: int) -> int:
    return max(1, min(most, round(chance.lognormvariate(math.log(mean) - spread * spread / 2, spread))))


@dataclass(frozen=True)
class Flow:
    """One kind of work at a rate that may change."""

    kind: TrafficKind
    rate: Rate
    peak: float
    """A bound of the rate: no time has more."""


class Stream:
    """Requests of several flows in order of arrival, without end, from a seed."""

    def __init__(self, flows: tuple[Flow, ...], seed: int) -> None:
        self._flows = flows
        self._chance = random.Random(seed)  # noqa: S311 -- traffic, no secret
        self._peak = sum(flow.peak for flow in flows)

    def __iter__(self) -> Iterator[TraceRequest]:
        """Thin a Poisson stream of the peak rate down to the rates of the moment."""
        now = 0.0
        while self._peak > 0:
            now += self._chance.expovariate(self._peak)
            mark = self._chance.random() * self._peak
            for flow in self._flows:
                rate = min(flow.rate(now), flow.peak)
                if mark < rate:
                    yield TraceRequest(now, *flow.kind.draw(self._chance))
                    break
                mark -= rate

    def trace(self, name: str, seconds: float) -> Trace:
        """The first `seconds` of the stream."""
        found = []
        for request in self:
            if request.arrival >= seconds:
                break
            found.append(request)
        return Trace(name, tuple(found))


def steady(kind: TrafficKind, rate: float) -> tuple[Flow, ...]:
    """One kind at one rate."""
    return (Flow(kind, lambda _: rate, rate),)


def diurnal(kind: TrafficKind, mean: float, period: float, depth: float = 0.6) -> tuple[Flow, ...]:
    """A rate that swings round its mean by `depth` (0 to 1) of it once a `period` of seconds."""
    return (
        Flow(kind, lambda t: mean * (1 + depth * math.sin(2 * math.pi * t / period)), mean * (1 + depth)),
    )


def burst(kind: TrafficKind, low: float, high: float, every: float, length: float) -> tuple[Flow, ...]:
    """A low rate, with `length` seconds of a high one in each `every` seconds."""
    return (Flow(kind, lambda t: high if t % every < length else low, high),)


def shift(
    first: TrafficKind, second: TrafficKind, rates: tuple[float, float], at: float, over: float
) -> tuple[Flow, ...]:
    """From one kind of work to another, beginning `at` and taking `over` seconds."""

    def part(t: float) -> float:
        return min(1.0, max(0.0, (t - at) / over)) if over > 0 else float(t >= at)

    return (
        Flow(first, lambda t: rates[0] * (1 - part(t)), rates[0]),
        Flow(second, lambda t: rates[1] * part(t), rates[1]),
    )


def to_and_fro(
    first: TrafficKind, second: TrafficKind, rates: tuple[float, float], period: float
) -> tuple[Flow, ...]:
    """Between two kinds of work, smoothly, once a `period` of seconds."""

    def part(t: float) -> float:
        return 0.5 - 0.5 * math.cos(2 * math.pi * t / period)

    return (
        Flow(first, lambda t: rates[0] * (1 - part(t)), rates[0]),
        Flow(second, lambda t: rates[1] * part(t), rates[1]),
    )


SCENARIOS: Mapping[str, tuple[Flow, ...]] = MappingProxyType(
    {
        "rag": steady(RAG, 4.0),
        "chat": steady(CHAT, 20.0),
        "agent": steady(AGENT, 24.0),
        "diurnal": diurnal(CHAT, 40.0, 3600.0),
        "burst": burst(CHAT, 5.0, 60.0, 600.0, 60.0),
        "shift": shift(RAG, AGENT, (4.0, 24.0), 1200.0, 600.0),
        "swing": to_and_fro(RAG, AGENT, (5.0, 30.0), 2400.0),
    }
)
"""Traffic by name, for `hawk simulate --trace NAME`."""


def scenario(name: str, seed: int, seconds: float = 3600.0) -> Trace:
    """A named scenario from a seed; raises KeyError."""
    return Stream(SCENARIOS[name], seed).trace(f"{name}:{seed}", seconds)
