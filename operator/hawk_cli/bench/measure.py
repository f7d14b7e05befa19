"""Measuring on a machine that others use too.

Absolute rates drift with what else runs; ratios within one round drift much less. So all cases run in
turn, round after round, and what is reported is the median of the rounds' ratios, with the quartiles
beside it. Processor time stands beside wall time: it tells a slow case from one that was kept waiting.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of one turn of one case: on the wall, and of this machine's processors."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with its quartiles."""

    median: float
    low: float
    high: float


@dataclass(slots=True)
class Measurements:
    """The times of every case in every round."""

    taken: dict[str, list[Taken]] = field(default_factory=dict)

    def seconds(self, case: str, *, cpu: bool = False) -> Spread:
        """Seconds of one case."""
        return spread([turn.cpu if cpu else turn.wall for turn in self.taken[case]])

    def speedup(self, case: str, over: str, *, cpu: bool = False) -> Spread:
        """How many times as fast `case` is: the other's time divided by its own, round by round."""
        pairs = zip(self.taken[case], self.taken[over], strict=True)
        return spread([(b.cpu / a.cpu) if cpu else (b.wall / a.wall) for a, b in pairs])


def spread(values: list[float]) -> Spread:
    """Median and quartiles of at least one value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Spread(median(values), low, high)


def local(action: Callable[[], object], *, settle: bool = False) -> Callable[[], Taken]:
    """A case that runs in this process.

    Args:
        action: what is measured.
        settle: run it once more before, so that it finds the caches as it leaves them itself and not as the
            case before it did: a large shared cache remembers for several cases.
    """

    def turn() -> Taken:
        if settle:
            action()
        cpu, wall = time.process_time(), time.perf_counter()
        action()
        return Taken(time.perf_counter() - wall, max(time.process_time() - cpu, 1e-9))

    return turn


def interleave_cases(
    cases: Mapping[str, Callable[[], Taken]], rounds: int, *, warm_up: int = 1
) -> Measurements:
    """Run every case once a round, each round in an order of its own; the first rounds only warm up.

    A large shared cache remembers what ran before: no case may always follow the same one.
    """
    found = Measurements({case: [] for case in cases})
    orders = random.Random(rounds)  # noqa: S311 -- the same orders each time
    for number in range(warm_up + rounds):
        for case in orders.sample(list(cases), len(cases)):
            taken = cases[case]()
            if number >= warm_up:
                found.taken[case].append(taken)
    return found
