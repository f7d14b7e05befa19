"""Rests grow with failures, never beyond the longest, and chance only takes off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api.backoff import Backoff

SHARES = st.floats(0, 1)


def test_rests_double_up_to_the_longest():
    rule = Backoff(0.5, 5.0, jitter=0)

    assert [rule.rest(failures) for failures in range(1, 7)] == [0.5, 1, 2, 4, 5, 5]


def test_chance_takes_off_no_more_than_its_share():
    assert Backoff(1, 8, jitter=0.25, draw=lambda: 0.0).rest(3) == 4
    assert Backoff(1, 8, jitter=0.25, draw=lambda: 1.0).rest(3) == 3


@given(st.floats(1e-3, 10), st.floats(10, 1e4), SHARES, SHARES, st.integers(1, 10**9))
def test_every_rest_is_within_its_bounds(first, longest, jitter, chance, failures):
    rule = Backoff(first, longest, jitter, lambda: chance)
    rest, whole = rule.rest(failures), Backoff(first, longest, jitter=0).rest(failures)

    assert (1 - jitter) * whole - 1e-9 <= rest <= whole <= longest
    assert whole == Backoff(first, longest, jitter=0).rest(failures + 1) or whole < longest


def test_those_who_fail_together_return_apart():
    rule = Backoff(1, 60)

    assert len({rule.rest(4) for _ in range(100)}) > 90


@pytest.mark.parametrize(
    ("values", "words"), [((0, 1), "above 0"), ((2, 1), "longest"), ((1, 2, 1.5), "jitter")]
)
def test_a_rule_that_can_not_work_is_refused(values, words):
    with pytest.raises(ValueError, match=words):
        Backoff(*values)


def test_without_a_failure_there_is_nothing_to_rest_for():
    with pytest.raises(ValueError, match="count from 1"):
        Backoff(1, 2).rest(0)
