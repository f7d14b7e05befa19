"""Range checks of the planner's inputs, and the error that they raise.

A number that can't be right is refused where it enters, by name:
a planner that silently replaced a zero bandwidth or an unknown price
would print a verdict nobody asked for.
"""

from __future__ import annotations

from decimal import Decimal

__all__ = ["InputError", "MissingInputError", "at_least", "gbps", "positive", "share", "whole", "within"]

MOST = 1e24
"""Beyond every rate, size, count and price there is; products of such numbers stay finite."""
LEAST = 1 / MOST


class InputError(ValueError):
    """An input that no figure can be computed from: the field, what is wrong, and what to do."""

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        super().__init__(f"{field}: {problem}; {remedy}")
        self.field = field
        self.problem = problem
        self.remedy = remedy


class MissingInputError(InputError):
    """An input that is not known, as against one that is wrong: the verdict is Unknown, not False."""


def within(field: str, value: float, least: float, most: float) -> float:
    """Return `value` when it is a number from `least` to `most`."""
    if not least <= value <= most:
        raise InputError(
            field, f"{_shown(value)} is out of range", f"give a number from {least:g} to {most:g}"
        )
    return value


def positive(field: str, value: float) -> float:
    """Return `value` when it is above 0 and at most MOST."""
    if not value > 0:
        raise InputError(field, f"{_shown(value)} is not above 0", "give a positive number")
    return within(field, value, LEAST, MOST)


def at_least(field: str, value: float, least: float = 0.0) -> float:
    """Return `value` when it is not below `least` and at most MOST."""
    if not value >= least:
        raise InputError(field, f"{_shown(value)} is below {least:g}", f"give a number of {least:g} or more")
    return within(field, value, least, MOST)


def share(field: str, value: float) -> float:
    """Return `value` when it is a share, 0 to 1."""
    if not 0 <= value <= 1:
        raise InputError(field, f"{_shown(value)} is not a share", "give a number from 0 to 1 (0.5 is half)")
    return value


def whole(field: str, value: float, least: int = 1) -> int:
    """Return `value` as an int when it is a whole number, not below `least` and at most MOST."""
    if not least <= value <= MOST or value != int(value):
        raise InputError(field, f"{_shown(value)} is not a whole number of {least} or more", "give a count")
    return int(value)


def gbps(field: str, value: float) -> float:
    """Return bytes a second for a link given in Gb/s (10^9 bits a second): 200 Gb/s is 25 GB/s."""
    return positive(field, value) * 1e9 / 8


def _shown(value: float) -> str:
    """Six digits; an int may be too large for a float."""
    return f"{value:g}" if abs(value) <= MOST or isinstance(value, float) else f"{Decimal(value):.3e}"
