"""Traffic of the last hour in bins: how bursty it is, where it goes, and which loads come again.

All of it is pure. Bins are oldest first, and every one is complete.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hawk_planner.traffic.signals import Signal, missing, not_a_number, value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hawk_planner.traffic.distribution import Distribution

_FEWEST = 4
"""Bins below which nothing is said about burstiness."""
_DISPERSION_BINS = 60
_MEDIAN_SQUARE = 0.455
"""The median of a squared standard normal variable, whose mean is 1."""
_NEIGHBOURS = 5
"""Bins on each side that a bin is compared with."""
_USUAL_BINS = 20
NOISE = 3.0
"""Standard deviations of a Poisson count that are no burst."""
_TREND_BINS = 10
_SIGNIFICANT = 3.0
"""Standard errors from which a slope is a trend."""
_STEEPEST = 2.0
"""A forecast is at most so many times the present."""


class Bin(NamedTuple):
    """The arrivals of one bin."""

    requests: float
    prompt_tokens: float = 0.0
    output_tokens: float = 0.0


def dispersion(counts: Sequence[float]) -> Signal[float]:
    """Index of dispersion of counts (1 for a Poisson process) over the newest bins, between their bursts.

    Taken from the differences of neighbouring bins, so that a slow trend isn't a burst, and no larger than
    their median says: a few bursts are loads of their own (see `bursts`), and make what lies between them no
    less even. What chance alone makes of 1 is 1.
    """
    newest = counts[-_DISPERSION_BINS:]
    if len(newest) < _FEWEST:
        return missing(f"only {len(newest)} bins of history")
    mean = sum(newest) / len(newest)
    if mean <= 0:
        return not_a_number("no arrivals in the history")
    pairs = [((b - a) ** 2, a + b) for a, b in itertools.pairwise(newest)]
    found = sum(square for square, _ in pairs) / (len(newest) - 1) / 2.0 / mean
    median = float(np.median([square / both for square, both in pairs if both > 0]))
    found = min(found, median / _MEDIAN_SQUARE)
    chance = NOISE * math.sqrt(2.0 / len(newest))
    return value(1.0 if abs(found - 1.0) <= chance else found)


def base(counts: Sequence[float]) -> float:
    """Requests a bin between bursts, at present."""
    newest = counts[-_USUAL_BINS:]
    return float(np.median(newest)) if newest else 0.0


def steadied(
    lengths: Distribution, number: float, tokens: Sequence[float], counts: Sequence[float]
) -> Distribution:
    """The lengths of `number` requests at the mean of the longer run, unless theirs clearly differs.

    How much they differ by chance is itself uncertain where they are few: one request has no deviation.
    """
    requests = sum(counts[-_USUAL_BINS:])
    if requests <= 0 or number <= 0 or lengths.mean <= 0:
        return lengths
    usual = sum(tokens[-_USUAL_BINS:]) / requests
    noise = NOISE * (lengths.deviation + usual / math.sqrt(number)) / math.sqrt(number)
    return lengths.scaled(usual / lengths.mean) if 0 < abs(usual - lengths.mean) <= noise else lengths


def bursts(counts: Sequence[float], half_life: float) -> list[tuple[float, float]]:
    """(requests above the neighbours, weight) of every bin; `half_life` in bins, the newest weighs 1.

    A bin stands out by what it has above the median of its neighbours and above noise.
    """
    if not counts:
        return []
    padded = np.pad(np.asarray(counts, dtype=float), _NEIGHBOURS, mode="reflect")
    usual = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1), axis=1)
    above = np.maximum(0.0, np.asarray(counts) - usual - NOISE * np.sqrt(usual))
    weights = 0.5 ** (np.arange(len(counts) - 1, -1, -1) / half_life)
    return list(zip(above.tolist(), weights.tolist(), strict=True))


def persistence(above: Sequence[float], ahead: float) -> float:
    """Share of what is above the usual now that should still be there `ahead` bins from now.

    `above` is what each bin had above its neighbours (see `bursts`). The answer is what became of earlier
    bursts by then, with the present one counted as lasting: without a history the
    answer is 1, and a load that is new is believed.
    """
    lag = max(1, round(ahead))
    past = above[:-lag]
    kept = sum(min(size, later) for size, later in zip(past, above[lag:], strict=False))
    present = max(above[-lag:], default=0.0)
    total = sum(past) + present
    return (kept + present) / total if total > 0 else 1.0


def growth(amounts: Sequence[float], ahead: float) -> float:
    """How many times the present amount is expected `ahead` bins from now; 1 unless it clearly rises.

    A least-squares line through the newest bins; a slope that noise could make is none.
    """
    newest = np.asarray(amounts[-_TREND_BINS:], dtype=float)
    if len(newest) < _TREND_BINS or newest.mean() <= 0:
        return 1.0
    times = np.arange(len(newest)) - (len(newest) - 1) / 2.0
    spread = float(times @ times)
    slope = float(times @ newest) / spread
    left = newest - newest.mean() - slope * times
    error = math.sqrt(float(left @ left) / (len(newest) - 2) / spread)
    present = float(newest.mean()) + slope * float(times[-1])
    if slope <= _SIGNIFICANT * error or present <= 0:
        return 1.0
    return float(min(_STEEPEST, 1.0 + slope * ahead / present))
