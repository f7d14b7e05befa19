"""Attention here, FFN there: the paper's figures, send probabilities, and the three capacity cases."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_planner.payoff.checks import InputError
from hawk_planner.payoff.exchange import (
    Capacity,
    CapacityCase,
    Exchange,
    destinations_per_token,
    judge_capacity,
    price_exchange,
    send_probability,
    tokens_per_expert,
)

from .pools import FEW


def step(batch: int = 128, link: float = 25e9, **changes: float) -> Exchange:
    return Exchange(hidden_size=4096, layers=32, batch=batch, link_bytes_per_second=link, **changes)


def test_bytes_of_a_step() -> None:
    times = price_exchange(step())
    assert times.bytes_per_token == 524288
    assert times.transfer_bytes == 64 * 2**20


@pytest.mark.parametrize(
    ("batch", "gbps", "milliseconds"),
    [(128, 200, 2.684), (1, 200, 0.02097), (128, 100, 5.369), (128, 400, 1.342)],
)
def test_time_of_a_step(batch: int, gbps: float, milliseconds: float) -> None:
    times = price_exchange(step(batch, gbps / 8 * 1e9))
    assert times.transfer_seconds * 1e3 == pytest.approx(milliseconds, rel=3e-4)


@pytest.mark.parametrize(("gbps", "hidden"), [(200, 0.25494), (100, 0.62747), (400, 0.0)])
def test_share_to_hide_for_two_milliseconds_of_ffn(gbps: float, hidden: float) -> None:
    times = price_exchange(step(link=gbps / 8 * 1e9, ffn_saving_seconds=2e-3))
    assert times.break_even_hidden == pytest.approx(hidden, abs=5e-6)


def test_a_slower_ffn_never_breaks_even() -> None:
    times = price_exchange(step(ffn_saving_seconds=-1e-3, hidden=1.0))
    assert times.break_even_hidden is None
    assert times.break_even_link_bytes_per_second is None
    assert times.delta_seconds == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("experts", "chosen", "ranks", "probability"),
    [(128, 8, 8, 0.66742), (256, 8, 32, 0.22709), (64, 4, 4, 0.69376)],
)
def test_send_probability_as_published(experts: int, chosen: int, ranks: int, probability: float) -> None:
    assert send_probability(experts, chosen, ranks) == pytest.approx(probability, abs=5e-6)


@FEW
@given(st.sampled_from([(4, 2), (6, 3), (8, 2), (8, 4), (9, 3)]), st.data())
def test_send_probability_counted_out(shape: tuple[int, int], data: st.DataObject) -> None:
    """Every choice of experts, one by one: how many touch the first rank."""
    experts, ranks = shape
    chosen = data.draw(st.integers(1, experts))
    first = set(range(experts // ranks))
    choices = list(combinations(range(experts), chosen))
    touched = sum(bool(first & set(choice)) for choice in choices)
    ranks_of = [len({expert // (experts // ranks) for expert in choice}) for choice in choices]

    assert send_probability(experts, chosen, ranks) == pytest.approx(touched / len(choices))
    assert destinations_per_token(experts, chosen, ranks) == pytest.approx(sum(ranks_of) / len(choices))


@pytest.mark.parametrize(
    ("experts", "chosen", "ranks", "field"),
    [
        (8, 2, 3, "FFN ranks"),
        (8, 9, 2, "experts per token"),
        (0, 1, 1, "experts"),
        (8, 0, 2, "experts per token"),
    ],
)
def test_experts_that_cant_be_spread_are_refused(experts: int, chosen: int, ranks: int, field: str) -> None:
    with pytest.raises(InputError) as caught:
        send_probability(experts, chosen, ranks)
    assert caught.value.field == field


def test_four_requests_of_two_experts_in_eight_are_one_token_an_expert() -> None:
    assert tokens_per_expert(4, 8, 2) == 1


MIXTRAL_FFN = 84 * 2**30
GIB = 2**30


def capacity(**changes: float) -> Capacity:
    base: dict[str, float] = {
        "freed_bytes": MIXTRAL_FFN,
        "request_bytes": 2 * GIB,
        "batch": 4,
        "waiting_requests": 100,
        "experts": 8,
        "experts_per_token": 2,
        "tokens_per_expert_limit": 295,
    }
    return judge_capacity(**{**base, **changes})  # type: ignore[arg-type]


def test_freed_space_that_fills_experts() -> None:
    verdict = capacity()
    assert verdict.case is CapacityCase.FILLS_EXPERTS
    assert verdict.freed_requests == 42
    assert verdict.tokens_per_expert_before == 1
    assert verdict.tokens_per_expert_after == 11.5


def test_a_dense_model_frees_room_for_a_few() -> None:
    verdict = capacity(freed_bytes=11_274_289_152, experts=1, experts_per_token=1)
    assert verdict.freed_requests == 5.25


def test_longer_contexts_let_two_thirds_in() -> None:
    assert capacity(request_bytes=3 * GIB).freed_requests == pytest.approx(42 * 2 / 3)


def test_freed_space_nobody_waits_for_is_pure_cost() -> None:
    verdict = capacity(waiting_requests=0)
    assert verdict.case is CapacityCase.NOTHING_WAITS
    assert verdict.tokens_per_expert_after == verdict.tokens_per_expert_before


def test_freed_space_before_a_full_ffn_only_queues() -> None:
    assert capacity(batch=1200).case is CapacityCase.FFN_FULL


def test_space_for_less_than_one_request_admits_nobody() -> None:
    assert capacity(request_bytes=100 * GIB).case is CapacityCase.NOTHING_WAITS


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"link": 0.0}, "link bandwidth"),
        ({"hidden": 2.0}, "hidden"),
        ({"batch": 0}, "batch"),
        ({"element_bytes": 0.0}, "element bytes"),
        ({"destinations": 0.0}, "destinations"),
    ],
)
def test_an_impossible_step_is_named(changes: dict[str, float], field: str) -> None:
    with pytest.raises(InputError) as caught:
        price_exchange(step(**changes))  # type: ignore[arg-type]
    assert caught.value.field == field


@FEW
@given(st.integers(1, 4096), st.floats(1e8, 1e12), st.floats(0, 1))
def test_directions_of_an_exchange(batch: int, link: float, hidden: float) -> None:
    """Twice the batch is twice the bytes; twice the link half the time; all hidden, nothing exposed."""
    times = price_exchange(step(batch, link, hidden=hidden))
    assert price_exchange(step(2 * batch, link)).transfer_bytes == 2 * times.transfer_bytes
    assert price_exchange(step(batch, 2 * link)).transfer_seconds == times.transfer_seconds / 2
    assert price_exchange(step(batch, link, hidden=1.0)).exposed_seconds == 0
    assert times.exposed_seconds <= times.transfer_seconds


@FEW
@given(st.integers(1, 512), st.floats(1e9, 1e12), st.floats(1e-5, 1e-2), st.floats(0, 0.99))
def test_break_evens_of_an_exchange_break_even(batch: int, link: float, saving: float, hidden: float) -> None:
    times = price_exchange(step(batch, link, ffn_saving_seconds=saving, hidden=hidden))
    at_link = times.break_even_link_bytes_per_second
    assert at_link is not None
    tie = price_exchange(step(batch, at_link, ffn_saving_seconds=saving, hidden=hidden))
    assert tie.delta_seconds == pytest.approx(0, abs=1e-12 + 1e-9 * saving)
    if times.break_even_hidden:
        hides = price_exchange(step(batch, link, ffn_saving_seconds=saving, hidden=times.break_even_hidden))
        assert hides.delta_seconds == pytest.approx(0, abs=1e-9 * times.transfer_seconds)


@FEW
@given(st.integers(1, 8), st.integers(1, 8))
def test_more_ranks_never_lower_what_a_token_sends(chosen: int, doublings: int) -> None:
    ranks = [2**power for power in range(min(doublings, 6) + 1)]
    sent = [destinations_per_token(64, chosen, count) for count in ranks]
    assert sent == sorted(sent)
    assert all(value <= chosen + 1e-9 for value in sent)
