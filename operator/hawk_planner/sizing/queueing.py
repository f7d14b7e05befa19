"""Waiting times of a queue with several servers, general arrivals and general service.

The tail is exponential, as in the M/M/m queue, with the mean wait of Allen and Cunneen: the Markov one
times (Ca² + Cs²) / 2. Ca² is the index of dispersion of arrivals at the time scale of the objective.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


NEVER = 1e-300
"""Probability below which nobody waits, so that a thousand servers for a small load take few steps.

This small, because a burst raises it to a power close to 0.
"""


_HALVINGS = 16
"""Steps of a bisection for a latency: to a hundred-thousandth of where it begins."""


def erlang_c(servers: int, load: float) -> float:
    """Probability that an arrival waits in M/M/m at `load` erlangs; 1 when the load is too much."""
    if load <= 0:
        return 0.0
    if load >= servers:
        return 1.0
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = load * blocked / (k + load * blocked)
        if blocked < NEVER:
            return 0.0
    use = load / servers
    return blocked / (1.0 - use * (1.0 - blocked))


def dispersion_at(dispersion: float, width: float, scale: float) -> float:
    """Index of dispersion at `scale` seconds, from the one measured in bins of `width` seconds.

    For a Poisson process whose rate changes slowly the excess over 1 grows in proportion to the bin.
    """
    if dispersion <= 1.0:
        return max(dispersion, 0.0)
    return 1.0 + (dispersion - 1.0) * min(1.0, scale / width)


@dataclass(frozen=True)
class Queue:
    """`servers` alike servers; `service` holds (seconds, probability) points, `rate` arrivals a second."""

    servers: int
    rate: float
    service: Sequence[tuple[float, float]]
    dispersion: float = 1.0
    stretch: float = 0.0
    """A request may also take so many times its own service, where that is longer than the target."""
    wait_factor: float = 1.0
    """How much longer waits are than the formula says, as learned from measured ones."""

    @property
    def mean_service(self) -> float:
        """Mean service time in seconds."""
        return sum(s * p for s, p in self.service)

    @property
    def utilisation(self) -> float:
        """Load over servers; above 1 the queue grows without end."""
        return self.rate * self.mean_service / self.servers if self.servers else math.inf

    def attained(self, target: float) -> float:
        """Share of requests whose wait and service end within `target` seconds."""
        if self.rate <= 0:
            return self.attainable(target)
        if self.utilisation >= 1.0:
            return 0.0
        return self._within(target, self._busy(), self._mean_wait())

    def _within(self, target: float, busy: float, mean: float) -> float:
        """The same where a share `busy` waits, `mean` seconds on average."""
        share = 0.0
        for seconds, probability in self.service:
            slack = max(target, self.stretch * seconds) - seconds
            if slack >= 0:
                share += probability * (1.0 - busy * math.exp(-slack / mean) if mean > 0 else 1.0)
        return share

    def attainable(self, target: float) -> float:
        """Share of requests whose service alone ends within `target` seconds."""
        return sum(p for s, p in self.service if s <= max(target, self.stretch * s))

    def latency(self, percentile: float) -> float:
        """Wait plus service below which a share `percentile` stays; infinite when overloaded."""
        if self.stretch:
            return replace(self, stretch=0.0).latency(percentile)
        if self.utilisation >= 1.0 and self.rate > 0:
            return math.inf
        busy, mean = (self._busy(), self._mean_wait()) if self.rate > 0 else (0.0, 0.0)
        low, high = 0.0, max(s for s, _ in self.service) + 1e-9
        while self._within(high, busy, mean) < percentile and high < 1e9:
            low, high = high, high * 2.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            if self._within(middle, busy, mean) < percentile:
                low = middle
            else:
                high = middle
        return high

    def _busy(self) -> float:
        """Probability of a wait; in a burst the requests find servers busy with each other."""
        markov = erlang_c(self.servers, self.rate * self.mean_service)
        return float(markov ** min(1.0, 2.0 / (1.0 + self.dispersion * self.wait_factor)))

    def _mean_wait(self) -> float:
        """Mean wait of those who wait."""
        mean = self.mean_service
        second = sum(s * s * p for s, p in self.service)
        service_variation = max(0.0, second / (mean * mean) - 1.0) if mean > 0 else 0.0
        variation = (max(self.dispersion, 0.0) + service_variation) / 2.0
        return self.wait_factor * mean * variation / (self.servers * (1.0 - self.utilisation))

    @property
    def mean_wait(self) -> float:
        """Mean wait of all; infinite when overloaded."""
        return self._busy() * self._mean_wait() if self.utilisation < 1.0 else math.inf


def servers_for(queue: Queue, target: float, share: float, *, most: int = 100_000) -> int:
    """Fewest servers that bring `share` of a queue's requests through within `target`; at most `most`.

    `share` must be attainable by service alone (see `Queue.attainable`), else the answer is `most`.
    """
    if queue.rate <= 0:
        return 0

    def enough(servers: int) -> bool:
        return replace(queue, servers=servers).attained(target) >= share

    low = int(queue.rate * queue.mean_service)
    step = 1
    while low + step < most and not enough(low + step):
        low, step = low + step, step * 2
    high = min(low + step, most)
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return max(high, 1)
