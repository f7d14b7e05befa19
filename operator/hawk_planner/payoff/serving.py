"""How replicas behave under steady traffic: a decode pool, and replicas that also prefill.

Batches follow from Little's law: as many sequences as arrive while one is decoded.
Around that mean they vary as a Poisson count does, and the ITL objective is held at its percentile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_planner.perf.objectives import LatencyObjective
    from hawk_planner.perf.rates import Efficiency
    from hawk_planner.perf.work import ModelWork

    from .scenario import Replica

MOST_CHORDS = 60
BALANCED = 1e-9
"""Relative difference at which a batch counts as found."""

__all__ = ["Decoding", "Limit", "Mixed", "decode_steadily", "fits", "mix_steadily", "most_sequences"]


class Limit(StrEnum):
    """The limit that stops a pool from carrying more."""

    NONE = ""
    WEIGHTS = "weights don't fit"
    MEMORY = "KV memory"
    SLOTS = "batch slots"
    ITL = "memory bandwidth (ITL)"
    COMPUTE = "prefill compute (TTFT)"
    LINK = "link"
    FFN = "FFN devices"
    ATTENTION = "attention devices"
    DECODE = "decode devices"
    DRAFT = "drafting devices"


@dataclass(frozen=True)
class Decoding:
    """A replica that decodes at a given arrival rate."""

    batch: float
    itl_seconds: float
    """At the objective's percentile; infinite when the replica can't keep up."""
    limit: Limit
    """The limit that is broken, NONE when all hold."""
    step_seconds: float = inf
    """Mean time of a step."""


def fits(work: ModelWork, replica: Replica, efficiency: Efficiency) -> bool:
    """Return whether the weights fit."""
    return work.weight_bytes < replica.room(efficiency)


def most_sequences(room: float, weight_bytes: float, state_bytes: float, slots: int) -> tuple[int, Limit]:
    """Return how many sequences of `state_bytes` fit beside the weights, and what bounds them."""
    if room <= weight_bytes:
        return 0, Limit.WEIGHTS
    by_memory = int((room - weight_bytes) / state_bytes) if state_bytes else slots
    return (by_memory, Limit.MEMORY) if by_memory < slots else (slots, Limit.SLOTS)


def _spread(mean: float, percentile: float) -> float:
    """Return the count that a Poisson count of `mean` stays below with `percentile`."""
    return mean + max(0.0, NormalDist().inv_cdf(percentile)) * sqrt(mean)


def decode_steadily(
    seconds: Callable[[float], float],
    tokens_per_second: float,
    *,
    most: int,
    bound: Limit,
    target: LatencyObjective | None,
    held: float = 0.0,
) -> Decoding:
    """Return how a replica decodes `tokens_per_second` when a step of a batch takes `seconds(batch)`.

    `most` sequences fit, because of `bound`; `held` of them are taken by requests still in transfer.
    """
    room = most - held
    if most < 1 or room <= 0:
        return Decoding(0, inf, bound)
    if tokens_per_second * seconds(room) >= room:
        return Decoding(room, inf, Limit.ITL if target and seconds(room) > target.target else bound)
    batch = _balance(seconds, tokens_per_second, room)
    percentile = target.share if target else 0.5
    crowd = max(1.0, _spread(batch, percentile))
    itl = seconds(min(crowd, room))
    limit = Limit.NONE
    if target and itl > target.target:
        limit = Limit.ITL
    elif crowd > room:
        limit = bound
    return Decoding(batch, itl, limit, seconds(batch))


def _balance(seconds: Callable[[float], float], rate: float, room: float) -> float:
    """Return the batch whose steps emit `rate` tokens a second; at `room` they emit more.

    A step's time is nearly linear in the batch, so the chord (with the Illinois rule, which keeps one end
    from sticking) meets the line in a few steps where halving would take thirty.
    """
    low, below = 0.0, -rate * seconds(0.0)
    high, above = room, room - rate * seconds(room)
    last = 0.0
    for _ in range(MOST_CHORDS):
        middle = (low * above - high * below) / (above - below)
        value = middle - rate * seconds(middle)
        if abs(value) <= BALANCED * middle:
            return middle
        if value < 0:
            low, below = middle, value
            above /= 2 if last < 0 else 1
        else:
            high, above = middle, value
            below /= 2 if last > 0 else 1
        last = value
    return high


@dataclass(frozen=True)
class Mixed:
    """A replica that prefills in chunks between the tokens of its decodes."""

    decoding: Decoding
    prefill_seconds: float
    """One prompt from its first chunk to its last, decodes in the same steps."""
    busy: float
    """Share of the time in steps that carry a chunk; 1 or more can't be served."""


def mix_steadily(
    carrying: Callable[[float], float],
    plain: Callable[[float], float],
    pieces: int,
    *,
    arrivals: float,
    tokens_per_second: float,
    most: int,
    bound: Limit,
    itl: LatencyObjective | None,
) -> Mixed:
    """Return how a replica serves `arrivals` prompts a second in `pieces` chunks each, and decodes beside.

    `carrying` are the seconds of a step with a chunk in which decodes ride along, `plain` of one without.
    """
    chunks = arrivals * pieces

    def seconds(batch: float) -> float:
        """Mean time of a step: those with a chunk and those without."""
        share = chunks * carrying(batch)
        return inf if share >= 1 else 1 / (chunks + (1 - share) / plain(batch))

    found = decode_steadily(seconds, tokens_per_second, most=most, bound=bound, target=None)
    busy = chunks * carrying(found.batch)
    if busy >= 1:
        found = Decoding(found.batch, inf, Limit.COMPUTE)
    elif found.limit is Limit.NONE and itl:
        crowd = max(1.0, _spread(found.batch, itl.share))
        # The share of steps, not of time, that carry a chunk is what a percentile of gaps sees.
        carries = chunks * found.step_seconds > 1 - itl.share
        gap = carrying(min(crowd, most)) if carries else plain(min(crowd, most))
        limit = Limit.ITL if gap > itl.target else bound if crowd > most else Limit.NONE
        found = Decoding(found.batch, gap, limit, found.step_seconds)
    return Mixed(found, pieces * carrying(found.batch), busy)
