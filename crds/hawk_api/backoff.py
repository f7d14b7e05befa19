"""Delays after consecutive failures: exponential, up to a maximum, with jitter.

The caller counts the failures and does the resting, so nothing here knows a clock.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Backoff:
    """A rule for rests, in seconds, that is shared by all who follow it."""

    first: float
    """The rest after the first failure, above 0."""

    longest: float
    """No rest is longer, whatever the number of failures; at least `first`."""

    jitter: float = 0.5
    """The share of a rest, 0 to 1, that chance may take off: who failed together doesn't return together."""

    draw: Callable[[], float] = random.random
    """A number from 0 to 1, evenly distributed."""

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.longest:
            raise ValueError(f"first {self.first} s must be above 0 and at most longest, {self.longest} s")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter {self.jitter} is outside 0 to 1")

    def rest(self, failures: int) -> float:
        """Seconds to rest after `failures` failures in a row, 1 or more."""
        if failures < 1:
            raise ValueError(f"{failures} failures: nothing to rest for; count from 1")
        whole = min(self.longest, self.first * 2.0 ** min(failures - 1, 64))
        return whole * (1.0 - self.jitter * self.draw()) if self.jitter else whole
