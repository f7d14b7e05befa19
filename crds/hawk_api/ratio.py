"""Prefill-to-decode ratios such as "1:2" as exact fractions."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

PATTERN: Final = "^[1-9][0-9]{0,3}:[1-9][0-9]{0,3}$"
_FORM: Final = re.compile(PATTERN)


def parse_ratio(text: str) -> Fraction:
    """Prefill over decode: "1:2" is Fraction(1, 2). ValueError unless both are 1 to 9999."""
    if not isinstance(text, str) or _FORM.fullmatch(text) is None:
        raise ValueError(f'{text!r} is not a ratio; write prefill:decode in quotes, such as "1:2"')
    prefill, decode = text.split(":")
    return Fraction(int(prefill), int(decode))


def format_ratio(ratio: Fraction) -> str:
    """Prefill:decode in lowest terms."""
    return f"{ratio.numerator}:{ratio.denominator}"


def ratio_of(prefill: int, decode: int) -> str:
    """The ratio of two replica counts for people: lowest terms, and "0:3" where a side is empty."""
    if prefill > 0 and decode > 0:
        return format_ratio(Fraction(prefill, decode))
    return f"{prefill}:{decode}"


def _validate(value: object) -> Fraction:
    if isinstance(value, Fraction) and value > 0:
        return value
    return parse_ratio(value)  # type: ignore[arg-type]  # parse refuses what is no string


Ratio = Annotated[
    Fraction,
    BeforeValidator(_validate),
    PlainSerializer(format_ratio, return_type=str),
    WithJsonSchema({"type": "string", "maxLength": 9, "pattern": PATTERN}),
]
"""Fraction prefill/decode in Python, "2:3" in the API."""
