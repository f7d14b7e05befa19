import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hawk_api import duration
from hawk_api.duration import Duration

SPELLINGS = {
    "250ms": 0.25,
    "15s": 15.0,
    "5m": 300.0,
    "1h30m": 5400.0,
    "1.5h": 5400.0,
    "0s": 0.0,
    "10us": 1e-5,
    "7ns": 7e-9,
    "1m0.5s": 60.5,
}


@pytest.mark.parametrize(("text", "seconds"), SPELLINGS.items())
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert duration.parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "5 s", "-5s", "s", "5min", "1d", "5m5", "0x5s", "٣s", "9999999999s", "1e3s", "."]
)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="250ms"):
        duration.parse_duration(text)


def test_more_than_a_year_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="longer than a year"):
        duration.parse_duration("8785h")


@given(st.integers(0, 366 * 24 * 3600 * 1000))
def test_milliseconds_round_trip(milliseconds: int) -> None:
    assert duration.parse_duration(duration.format_duration(milliseconds / 1000)) == milliseconds / 1000


@given(st.floats(0, 10_000, allow_nan=False))
def test_any_float_keeps_its_nanoseconds(seconds: float) -> None:
    assert math.isclose(duration.parse_duration(duration.format_duration(seconds)), seconds, abs_tol=1e-9)


@pytest.mark.parametrize("seconds", [-1.0, math.inf, 1e9])
def test_what_has_no_spelling_is_refused(seconds: float) -> None:
    with pytest.raises((ValueError, OverflowError)):
        duration.format_duration(seconds)


@pytest.mark.parametrize("value", [15, 15.0, True, None, []])
def test_the_wire_takes_strings_only(value: object) -> None:
    with pytest.raises(ValidationError, match="quotes"):
        TypeAdapter(Duration).validate_python(value, context={"wire": True})


def test_python_code_may_give_seconds() -> None:
    assert TypeAdapter(Duration).validate_python(15) == 15.0
