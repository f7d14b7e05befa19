"""Draft here, verify there: message bytes, rounds, and the adaptive length."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_planner.payoff.checks import InputError
from hawk_planner.payoff.drafting import (
    Round,
    acceptance_from_mean,
    accepted_tokens,
    best_draft_length,
    message_bytes,
    price_round,
)

from .pools import FEW

ROUND = Round(
    draft_tokens=4,
    acceptance=0.8,
    draft_seconds_per_token=0.5e-3,
    verify_seconds=15e-3,
    target_seconds_per_token=14e-3,
    message_seconds=0.1e-3,
    synchronisation_seconds=0.2e-3,
)


def test_messages_of_eight_candidates() -> None:
    sent = message_bytes(8, 4096, feature_vectors=8)
    assert (sent.proposal_bytes, sent.response_bytes, sent.feature_bytes) == (32, 8, 64 * 1024)
    assert message_bytes(8, 4096, feature_vectors=1).feature_bytes == 8 * 1024
    assert sent.feature_bytes / 25e9 * 1e6 == pytest.approx(2.62, abs=5e-3)


def test_measured_acceptance_chooses_long_drafts_for_refactoring_and_short_ones_for_prose() -> None:
    """3.95 of 4 accepted asks for the longest draft, 1.24 of 4 for a short one."""
    refactoring = replace(ROUND, acceptance=acceptance_from_mean(3.95, 4))
    prose = replace(ROUND, acceptance=acceptance_from_mean(1.24, 4))
    costs = {"longest": 8, "verify_seconds_per_draft": 0.3e-3}
    assert best_draft_length(refactoring, **costs) == 8  # type: ignore[arg-type]
    assert 1 <= best_draft_length(prose, **costs) <= 4  # type: ignore[arg-type]


def test_a_drafter_slower_than_its_target_is_not_used() -> None:
    assert best_draft_length(replace(ROUND, draft_seconds_per_token=20e-3)) == 0


def test_drafting_under_verification_costs_no_time() -> None:
    shown, covered = price_round(ROUND), price_round(replace(ROUND, draft_overlap=1.0))
    assert shown.round_seconds - covered.round_seconds == pytest.approx(2e-3)


@FEW
@given(st.floats(0, 1), st.integers(1, 12))
def test_accepted_tokens_are_the_sum_over_outcomes(acceptance: float, length: int) -> None:
    """Each outcome with its chance: i accepted then a refusal, or all accepted."""
    outcomes = [i * acceptance**i * (1 - acceptance) for i in range(length)] + [length * acceptance**length]
    assert accepted_tokens(acceptance, length) == pytest.approx(sum(outcomes), abs=1e-12)


@FEW
@given(st.floats(0.01, 0.99), st.integers(1, 12))
def test_acceptance_comes_back_from_its_mean(acceptance: float, length: int) -> None:
    assert acceptance_from_mean(accepted_tokens(acceptance, length), length) == pytest.approx(acceptance)


@FEW
@given(st.floats(0, 1), st.integers(1, 8), st.floats(1e-4, 2e-2))
def test_break_even_acceptance_breaks_even(acceptance: float, length: int, draft: float) -> None:
    round_ = replace(ROUND, acceptance=acceptance, draft_tokens=length, draft_seconds_per_token=draft)
    least = price_round(round_).break_even_acceptance
    if least is None:
        assert price_round(replace(round_, acceptance=1.0)).speedup < 1
    else:
        assert price_round(replace(round_, acceptance=least)).speedup == pytest.approx(1)


@FEW
@given(st.floats(0, 1), st.floats(0, 3e-2), st.integers(1, 10))
def test_best_length_beats_every_other(acceptance: float, draft: float, longest: int) -> None:
    round_ = replace(ROUND, acceptance=acceptance, draft_seconds_per_token=draft)
    best = best_draft_length(round_, longest=longest)
    times = {0: ROUND.target_seconds_per_token} | {
        length: price_round(replace(round_, draft_tokens=length)).seconds_per_token
        for length in range(1, longest + 1)
    }
    assert times[best] == pytest.approx(min(times.values()))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"draft_tokens": 0}, "draft tokens"),
        ({"acceptance": 1.5}, "acceptance"),
        ({"verify_seconds": 0.0}, "verification time"),
        ({"target_seconds_per_token": 0.0}, "target time per token"),
        ({"draft_overlap": -0.1}, "draft overlap"),
    ],
)
def test_an_impossible_round_is_named(changes: dict[str, float], field: str) -> None:
    with pytest.raises(InputError) as caught:
        price_round(replace(ROUND, **changes))  # type: ignore[arg-type]
    assert caught.value.field == field


def test_more_accepted_than_drafted_is_refused() -> None:
    with pytest.raises(InputError, match="accepted tokens"):
        acceptance_from_mean(4.5, 4)
