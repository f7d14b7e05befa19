import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_api.names import CHILD_LIMIT, LABEL_LIMIT, child_name, is_subdomain, label_value

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")

subdomains = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,100}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,2}", fullmatch=True
)
groups = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@given(st.lists(st.one_of(subdomains, groups, st.text(min_size=1)), min_size=1, max_size=4))
def test_a_child_name_is_a_short_label(parts: list[str]) -> None:
    name = child_name(*parts)

    assert len(name) <= CHILD_LIMIT
    assert LABEL.fullmatch(name)
    assert name == child_name(*parts)


@given(subdomains, groups, st.integers(10, CHILD_LIMIT))
def test_a_smaller_limit_is_kept(pool: str, group: str, limit: int) -> None:
    name = child_name(pool, group, limit=limit)

    assert len(name) <= limit
    assert LABEL.fullmatch(name)


@settings(max_examples=40)
@given(st.lists(st.tuples(subdomains, groups), min_size=2, max_size=20, unique=True))
def test_no_two_pairs_meet_in_one_child(pairs: list[tuple[str, str]]) -> None:
    assert len({child_name(*pair) for pair in pairs}) == len(pairs)


def test_pairs_that_read_alike_are_told_apart() -> None:
    assert child_name("a-b", "c") != child_name("a", "b-c")
    assert child_name("a.b", "c") != child_name("a-b", "c")


def test_long_names_with_one_beginning_are_told_apart() -> None:
    assert child_name("x" * 120, "g" * 40) != child_name("x" * 121, "g" * 40)
    assert child_name("x" * 120, "g" * 40) != child_name("x" * 120, "g" * 41)


def test_names_that_fit_stay_readable() -> None:
    assert child_name("llama", "prefill") == "llama-prefill"
    assert child_name("my-pool", "decode") == "my-pool-decode"


@given(st.one_of(subdomains, st.text()))
def test_a_label_value_is_valid(text: str) -> None:
    value = label_value(text)

    assert len(value) <= LABEL_LIMIT
    assert LABEL_VALUE.fullmatch(value)


@given(st.from_regex(LABEL_VALUE, fullmatch=True).filter(lambda text: len(text) <= LABEL_LIMIT))
def test_a_valid_label_value_stays(text: str) -> None:
    assert label_value(text) == text


@pytest.mark.parametrize("name", ["llama", "a.b", "x" * 253, "0"])
def test_object_names(name: str) -> None:
    assert is_subdomain(name)


@pytest.mark.parametrize("name", ["", "x" * 254, "Llama", "a_b", "-a", "a-", "a..b", "ä", "a\n"])
def test_no_object_names(name: str) -> None:
    assert not is_subdomain(name)
