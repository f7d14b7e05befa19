from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api import ratio


@given(st.integers(1, 9999), st.integers(1, 9999))
def test_a_ratio_is_a_fraction(prefill: int, decode: int) -> None:
    value = ratio.parse_ratio(f"{prefill}:{decode}")

    assert value == Fraction(prefill, decode)
    assert ratio.parse_ratio(ratio.format_ratio(value)) == value


@pytest.mark.parametrize(
    "text", ["", "1", "1:0", "0:1", "-1:2", "1:2:3", "1/2", "1 : 2", "01:2", "1.5:2", "10000:1", 62]
)
def test_anything_else_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(ValueError, match='"1:2"'):
        ratio.parse_ratio(text)  # type: ignore[arg-type]


def test_an_empty_side_is_shown_as_it_is() -> None:
    assert [ratio.ratio_of(2, 4), ratio.ratio_of(0, 3), ratio.ratio_of(3, 0), ratio.ratio_of(0, 0)] == [
        "1:2",
        "0:3",
        "3:0",
        "0:0",
    ]
