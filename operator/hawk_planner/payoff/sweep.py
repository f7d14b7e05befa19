"""Sweeps: one report a combination of values."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from .checks import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["parse_sweeps", "sweep_inputs"]

MOST_POINTS = 10_000
Inputs = TypeVar("Inputs")
HELP = "write NAME=V1,V2,... or NAME=FROM:TO:COUNT (equal ratios; equal steps where FROM is 0)"


def parse_sweeps(texts: Iterable[str], inputs: object, aliases: dict[str, str]) -> dict[str, list[float]]:
    """Return the values by field of `inputs`; a name is a field's or an alias of one."""
    known = {field.name for field in fields(inputs)}  # type: ignore[arg-type]
    found: dict[str, list[float]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        field = aliases.get(name, name.replace("-", "_"))
        if field not in known:
            names = ", ".join(sorted({*aliases, *known}))
            raise InputError("--sweep", f"{name} is none of {names}", HELP)
        found[field] = _values(text, values)
    return found


def _values(text: str, values: str) -> list[float]:
    try:
        if ":" not in values:
            return [float(value) for value in values.split(",")]
        low, high, count = values.split(":")
        ends, points = (float(low), float(high)), int(count)
    except ValueError:
        raise InputError("--sweep", f"{text} has no list of numbers", HELP) from None
    if points < 2:
        raise InputError("--sweep", f"{text} has fewer than two points", HELP)
    _limit(points)
    return _range(*ends, points)


def _limit(points: int) -> None:
    if points > MOST_POINTS:
        raise InputError("--sweep", f"{points} combinations", f"keep to {MOST_POINTS}")


def _range(low: float, high: float, count: int) -> list[float]:
    if low > 0 and high > 0:
        return [low * (high / low) ** (step / (count - 1)) for step in range(count)]
    return [low + (high - low) * step / (count - 1) for step in range(count)]


def sweep_inputs(
    inputs: Inputs, values: dict[str, list[float]], report: Callable[[Inputs], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return a report for each combination; whole-number fields are rounded."""
    points = 1
    for each in values.values():
        points *= len(each)
    _limit(points)
    rows = []
    for combination in product(*values.values()):
        changes = {
            name: round(value) if isinstance(getattr(inputs, name), int) else value
            for name, value in zip(values, combination, strict=True)
        }
        rows.append(report(replace(inputs, **changes)))  # type: ignore[type-var]
    return rows
