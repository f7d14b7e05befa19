"""Durations such as "250ms", "15s", "5m" as float seconds.

The notation is Go's without a sign: numbers with a unit (h, m, s, ms, us, ns), largest first, as many as
needed ("1h30m"). A bare number is refused: nobody could tell its unit.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema

_NANOSECONDS: Final = {
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
_PART: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(h|ms|m|s|us|ns)")
_PATTERN_PART: Final = r"[0-9]{1,9}(\.[0-9]{1,9})?"
PATTERN: Final = f"^({_PATTERN_PART}(h|ms|m|s|us|ns)){{1,6}}$"
MAX_LENGTH: Final = 64
MAX_SECONDS: Final = 366 * 24 * 3600.0
"""One year: anything longer is a mistake, and would wait for ever in practice."""

_HELP: Final = 'write a number with a unit, such as "250ms", "15s" or "5m"'


def parse_duration(text: str) -> float:
    """Seconds. ValueError when `text` isn't a duration or is longer than a year."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not a duration; {_HELP}, in quotes")  # noqa: TRY004 -- pydantic wants ValueError
    if not text or len(text) > MAX_LENGTH:
        raise ValueError(f"{text!r} is not a duration; {_HELP}")
    nanoseconds, end = 0, 0
    while end < len(text):
        match = _PART.match(text, end)
        if match is None:
            raise ValueError(f"{text!r} is not a duration; {_HELP}")
        whole, fraction, unit = match.groups()
        nanoseconds += int(whole) * _NANOSECONDS[unit]
        nanoseconds += int((fraction or "0").ljust(9, "0")) * _NANOSECONDS[unit] // 1_000_000_000
        end = match.end()
    seconds = nanoseconds / 1e9
    if seconds > MAX_SECONDS:
        raise ValueError(f"{text!r} is longer than a year; {_HELP}")
    return seconds


def format_duration(seconds: float) -> str:
    """An exact spelling to the nanosecond: 0.25 is 250ms, 90 is 90s, 300 is 5m, 1.5 is 1.5s."""
    nanoseconds = round(seconds * 1e9)
    if nanoseconds < 0 or seconds > MAX_SECONDS:
        raise ValueError(f"{seconds} s is outside 0 to one year")
    if nanoseconds == 0:
        return "0s"
    for unit in ("h", "m"):
        if nanoseconds % _NANOSECONDS[unit] == 0:
            return f"{nanoseconds // _NANOSECONDS[unit]}{unit}"
    unit = next(unit for unit in ("s", "ms", "us", "ns") if nanoseconds >= _NANOSECONDS[unit])
    size = _NANOSECONDS[unit]
    whole, rest = divmod(nanoseconds, size)
    fraction = str(rest).zfill(len(str(size)) - 1).rstrip("0") if rest else ""
    return f"{whole}.{fraction}{unit}" if fraction else f"{whole}{unit}"


def _validate(value: object, info: ValidationInfo) -> float:
    wire = isinstance(info.context, dict) and info.context.get("wire", False)
    if isinstance(value, int | float) and not isinstance(value, bool) and not wire:
        return parse_duration(format_duration(value))
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError(f"{value!r} is not a duration; {_HELP}, in quotes")


Duration = Annotated[
    float,
    BeforeValidator(_validate),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "maxLength": MAX_LENGTH, "pattern": PATTERN}),
]
"""A non-negative duration: float seconds in Python, a string in the API.

Python code may also give seconds as a number. Validation with the context `{"wire": True}` refuses that,
as the API server does.
"""
