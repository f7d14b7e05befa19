"""Kubernetes quantities as exact decimals.

`parse("8Gi") == Decimal(8589934592)`, `parse("1500m") == Decimal("1.5")`. What Kubernetes accepts is
accepted, within its own limits (magnitude below 2**63, no finer than a nano); nothing is rounded.
"""

from __future__ import annotations

import re
from decimal import Decimal, localcontext
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_NUMBER: Final = r"([+-]?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20}))"
_SUFFIX: Final = r"(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?|[eE][+-]?[0-9]{1,2})"
_FORM: Final = re.compile(_NUMBER + _SUFFIX)
_LIMIT: Final = Decimal(2**63)
_NANO: Final = Decimal("1e-9")

MAX_LENGTH: Final = 48
PATTERN: Final = "^[0-9]{1,20}(\\.[0-9]{1,20})?(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?|[eE][+-]?[0-9]{1,2})$"
"""A quantity as the API accepts it: never negative."""

_HELP: Final = 'write a number with an optional suffix such as "8Gi", "8G", "1500m" or "0.5"'


def parse_quantity(value: str | int | Decimal) -> Decimal:
    """The exact value; ValueError says what is wrong. Floats and booleans are refused, never rounded."""
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise ValueError(f"{value!r} is not a quantity; {_HELP}")  # noqa: TRY004 -- pydantic wants ValueError
    with localcontext(prec=100):
        number: Decimal = _from_text(value) if isinstance(value, str) else Decimal(value)
        if not number.is_finite() or abs(number) >= _LIMIT:
            raise ValueError(f"{value!r} is outside the range of a quantity (below 2**63)")
        if number % _NANO:
            raise ValueError(f"{value!r} is finer than a nano (1e-9), the smallest step of a quantity")
        return number


def _from_text(text: str) -> Decimal:
    match = _FORM.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise ValueError(f"{text!r} is not a quantity; {_HELP}")
    number, suffix = match.groups()
    if suffix in _BINARY:
        return Decimal(number) * Decimal(1 << _BINARY[suffix])
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return Decimal(number).scaleb(exponent)


def parse_devices(value: str | int | Decimal) -> int:
    """A whole number of devices, at least one: half an accelerator can't be asked for."""
    number = parse_quantity(value)
    if number < 1 or number != number.to_integral_value():
        raise ValueError(f"{value!r} is not a whole number of devices; give 1, 2, 4, ...")
    return int(number)


def format_quantity(value: Decimal | int) -> str:
    """The shortest exact spelling, decimal suffixes before binary ones: 80G, 8Gi, 1500m."""
    number = Decimal(value)
    with localcontext(prec=100):
        if number == 0:
            return "0"
        if number != number.to_integral_value():
            return _format_fraction(number)
        whole = int(number)
    spellings = [str(whole)]
    spellings += [f"{whole // 10**p}{s}" for s, p in _DECIMAL.items() if p > 0 and whole % 10**p == 0]
    spellings += [f"{whole >> p}{s}" for s, p in _BINARY.items() if whole % 2**p == 0]
    return min(spellings, key=len)


def _format_fraction(number: Decimal) -> str:
    for suffix in ("m", "u", "n"):
        scaled = number.scaleb(-_DECIMAL[suffix])
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{suffix}"
    raise ValueError(f"{number} is finer than a nano (1e-9), the smallest step of a quantity")


def _validate(value: object) -> Decimal:
    if isinstance(value, str | int | Decimal) and not isinstance(value, bool):
        number = parse_quantity(value)
        if number < 0:
            raise ValueError(f"{value!r} is negative; {_HELP}")
        return number
    raise ValueError(f"{value!r} is not a quantity; {_HELP}, in quotes")


Quantity = Annotated[
    Decimal,
    BeforeValidator(_validate),
    PlainSerializer(format_quantity, return_type=str),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": MAX_LENGTH, "pattern": PATTERN}),
]
"""A non-negative quantity: a Decimal in Python, a string or an integer in the API."""


def _validate_positive(value: Decimal) -> Decimal:
    if value == 0:
        raise ValueError("can't be 0; leave it out where it isn't known")
    return value


PositiveQuantity = Annotated[Quantity, AfterValidator(_validate_positive)]
"""A quantity above zero, for facts that are left out where they aren't known."""
