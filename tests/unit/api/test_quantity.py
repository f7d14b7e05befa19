from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from hawk_api import quantity
from hawk_api.quantity import Quantity

EXACT = {
    "8Gi": 8 * 1024**3,
    "8G": 8 * 10**9,
    "1500m": Fraction(3, 2),
    "0.5": Fraction(1, 2),
    "1e3": 1000,
    "1E3": 1000,
    "5e-1": Fraction(1, 2),
    "2k": 2000,
    "1E": 10**18,
    "7Ei": 7 * 2**60,
    "989T": 989 * 10**12,
    "100u": Fraction(1, 10_000),
    "1n": Fraction(1, 10**9),
    ".5": Fraction(1, 2),
    "5.": 5,
    "+5": 5,
    "-1": -1,
    "0": 0,
    4: 4,
    "4": 4,
}
REFUSED = [
    "",
    " ",
    "1g",
    "many",
    "1 Gi",
    "Gi",
    "1KiB",
    "0x10",
    "1e",
    "1e999",
    "--1",
    "1_000",
    "٣",
    "1.2.3",
    "8gi",
    "nan",
]


@pytest.mark.parametrize(("text", "value"), EXACT.items())
def test_what_kubernetes_accepts_is_read_exactly(text: str | int, value: int | Fraction) -> None:
    assert Fraction(quantity.parse_quantity(text)) == value


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        quantity.parse_quantity(text)


@pytest.mark.parametrize("value", [0.5, True, None, [], {"a": 1}, b"1"])
def test_no_other_type_is_read(value: object) -> None:
    with pytest.raises(ValueError, match="quantity"):
        quantity.parse_quantity(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["9223372036854775808", "10E", "8Ei", "1e19"])
def test_what_kubernetes_cannot_hold_is_out_of_range(text: str) -> None:
    with pytest.raises(ValueError, match="range"):
        quantity.parse_quantity(text)


@pytest.mark.parametrize("text", ["0.1n", "1e-10", "0.0000000001"])
def test_nothing_is_rounded_to_a_nano(text: str) -> None:
    with pytest.raises(ValueError, match="nano"):
        quantity.parse_quantity(text)


@given(st.integers(0, 2**63 - 1), st.sampled_from([0, 3, 6, 9]))
def test_formatting_loses_nothing(number: int, places: int) -> None:
    value = Decimal(number).scaleb(-places) if number < 10**18 else Decimal(number)

    assert quantity.parse_quantity(quantity.format_quantity(value)) == value


@given(
    st.integers(0, 10**6),
    st.sampled_from(
        [("Ki", 1024), ("Mi", 1024**2), ("Gi", 1024**3), ("k", 10**3), ("M", 10**6), ("G", 10**9), ("", 1)]
    ),
)
def test_a_suffix_multiplies(number: int, suffix: tuple[str, int]) -> None:
    assert quantity.parse_quantity(f"{number}{suffix[0]}") == number * suffix[1]


@pytest.mark.parametrize("value", [1, 8, "8", "2k", "1e1", "2000m"])
def test_whole_devices_are_counted(value: str | int) -> None:
    assert quantity.parse_devices(value) == quantity.parse_quantity(value)


@pytest.mark.parametrize("value", ["500m", "0", "-1", "many", "0.5", 0, "1500m", "1g", ""])
def test_a_part_of_a_device_is_never_rounded_up(value: str | int) -> None:
    with pytest.raises(ValueError, match=r"whole number|quantity"):
        quantity.parse_devices(value)


@pytest.mark.parametrize("value", ["-1", "-500m", 0.5, True, None])
def test_a_field_takes_no_negative_and_no_float(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Quantity).validate_python(value)
