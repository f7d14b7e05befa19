"""A reading from a metrics store, with the reason when there is no usable number.

Missing, not a number, stale and failed have different consequences (an outage must never look like
an idle pool), so a signal carries its state and never defaults to zero. Zero is a value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class State(StrEnum):
    """The state of a signal."""

    VALUE = "Value"
    MISSING = "Missing"
    NOT_A_NUMBER = "NotANumber"
    STALE = "Stale"
    FAILED = "Failed"


@dataclass(frozen=True)
class Signal(Generic[T]):
    """A value, or the state and the detail that explain why there is none."""

    state: State
    value: T | None = None
    detail: str = ""

    @property
    def known(self) -> bool:
        """True when there is a value; zero counts."""
        return self.state is State.VALUE

    def get(self) -> T:
        """Return the value; raises ValueError with the detail when there is none."""
        if self.value is None:
            raise ValueError(f"{self.state}: {self.detail}")
        return self.value

    def otherwise(self, default: T) -> T:
        """Return the value, or `default` when there is none."""
        return default if self.value is None else self.value

    def without_value(self, detail: str = "") -> Signal[U]:
        """Carry the state of a signal without a value over to one of another type."""
        return Signal(self.state, None, detail or self.detail)


def value(number: T) -> Signal[T]:
    """A signal that holds `number`."""
    return Signal(State.VALUE, number)


def missing(detail: str) -> Signal[T]:
    """No series matched."""
    return Signal(State.MISSING, None, detail)


def not_a_number(detail: str) -> Signal[T]:
    """There is a series, but its value is NaN, infinite, or unreadable."""
    return Signal(State.NOT_A_NUMBER, None, detail)


def stale(detail: str) -> Signal[T]:
    """The newest sample is older than the window allows."""
    return Signal(State.STALE, None, detail)


def failed(detail: str) -> Signal[T]:
    """The metrics store didn't answer, or answered with an error."""
    return Signal(State.FAILED, None, detail)


def parse_sample(text: object, name: str) -> Signal[float]:
    """Read a sample as Prometheus sends it (a string); anything that isn't finite is not a number."""
    if text is None:
        return missing(f"{name}: no value")
    try:
        number = float(text) if isinstance(text, (str, int, float)) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        return not_a_number(f"{name}: {text!r} is not a finite number")
    return value(number + 0.0)  # -0.0 becomes 0.0
