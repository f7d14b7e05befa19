"""A distribution read from histogram buckets: weighted points that keep the measured mean.

Buckets of engines are coarse (1, 2, 5, 10 steps). Points sit inside their bucket and are moved
there, together, until the mean equals the measured one, so that work computed from the points is
right on average even where the shape inside a bucket is unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_ROUNDS = 80


@dataclass(frozen=True)
class Distribution:
    """Weighted points `(value, probability)` in rising order, and the buckets they came from.

    Points are in the unit of the metric (tokens, seconds); probabilities sum to 1.
    """

    points: tuple[tuple[float, float], ...]
    edges: tuple[tuple[float, float], ...]

    @property
    def mean(self) -> float:
        """The mean of the points."""
        return sum(x * p for x, p in self.points)

    @property
    def largest(self) -> float:
        """The largest point with any weight."""
        return self.points[-1][0]

    def expect(self, function: Callable[[float], float]) -> float:
        """Return the mean of `function` over the distribution."""
        return sum(function(x) * p for x, p in self.points)

    @property
    def deviation(self) -> float:
        """The standard deviation of the points."""
        mean = self.mean
        return math.sqrt(self.expect(lambda x: (x - mean) ** 2))

    def scaled(self, factor: float) -> Distribution:
        """The same shape with every value times `factor`."""
        return Distribution(
            tuple((x * factor, p) for x, p in self.points),
            tuple((low * factor, high * factor) for low, high in self.edges),
        )

    def coarser(self, share: float = 0.2, least: float = 0.004) -> tuple[tuple[float, float], ...]:
        """About two dozen points with the same mean, neighbours merged, the upper tail the finest.

        A point holds at most `share` of the weight that lies above it, but may always hold `least`.
        """
        merged: list[tuple[float, float]] = []
        above = 1.0
        for x, p in self.points:
            if merged and merged[-1][1] + p <= max(least, share * above):
                before, weight = merged[-1]
                merged[-1] = ((before * weight + x * p) / (weight + p), weight + p)
            else:
                above -= merged[-1][1] if merged else 0.0
                merged.append((x, p))
        return tuple(merged)

    def quantile(self, q: float) -> float:
        """Return the value below which a share `q` lies, linear inside a bucket.

        In a bucket without an upper edge the answer is the bucket's point.
        """
        seen = 0.0
        for (x, p), (low, high) in zip(self.points, self.edges, strict=True):
            if seen + p >= q - 1e-12:
                if not math.isfinite(high) or high <= low:
                    return x
                return low + (high - low) * max(0.0, min(1.0, (q - seen) / p))
            seen += p
        return self.largest


def of(values: Mapping[float, float]) -> Distribution:
    """Build a distribution from exact values and their weights (of any positive scale)."""
    total = sum(values.values())
    if not total > 0:
        raise ValueError("a distribution needs at least one value of positive weight")
    points = tuple((x, w / total) for x, w in sorted(values.items()) if w > 0)
    return Distribution(points, tuple((x, x) for x, _ in points))


def from_buckets(buckets: Mapping[float, float], mean: float | None = None) -> Distribution | None:
    """Build a distribution from cumulative counts by upper edge (`inf` included).

    `mean` is the measured one (sum over count). Counts that fall from one bucket to the next (series
    scraped at unlike times) are lifted to the running maximum. None when nothing was counted.
    """
    edges: list[tuple[float, float]] = []
    weights: list[float] = []
    below, low = 0.0, 0.0
    for high in sorted(buckets):
        count = max(buckets[high], below)
        if count > below:
            edges.append((low, high))
            weights.append(count - below)
        below, low = count, high
    if not weights or below <= 0:
        return None
    start = [_middle(a, b) for a, b in edges]
    share = [w / below for w in weights]
    points = start if mean is None else _fit(start, share, edges, mean)
    return Distribution(tuple(zip(points, share, strict=True)), tuple(edges))


def _middle(low: float, high: float) -> float:
    if math.isinf(high):
        return max(low * 1.5, 1.0)
    return math.sqrt(low * high) if low > 0 else high / 2


def _fit(
    start: Sequence[float], share: Sequence[float], edges: Sequence[tuple[float, float]], mean: float
) -> list[float]:
    """Scale the points inside their buckets so that the mean comes out right (bisection on the factor)."""

    def scaled(factor: float) -> list[float]:
        return [min(max(x * factor, low), high) for x, (low, high) in zip(start, edges, strict=True)]

    low, high = 1e-6, 1e9
    for _ in range(_ROUNDS):
        middle = math.sqrt(low * high)
        if sum(x * p for x, p in zip(scaled(middle), share, strict=True)) < mean:
            low = middle
        else:
            high = middle
    return scaled(math.sqrt(low * high))
