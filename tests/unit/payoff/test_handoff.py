"""Prefill here, decode there: the paper's figures, and what must hold for any numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_planner.payoff.checks import InputError
from hawk_planner.payoff.handoff import Handoff, link_load, price_handoff

from .pools import FEW

MISTRAL_16K = 131072 * 16384
LINK = 25e9


def at(**changes: object) -> Handoff:
    base: dict[str, object] = {
        "state_bytes": MISTRAL_16K,
        "output_tokens": 128,
        "link_bytes_per_second": LINK,
    }
    return Handoff(**{**base, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("tokens", "milliseconds"), [(4096, 21.475), (16384, 85.899), (24576, 128.849)])
def test_transfer_of_mistral_over_200_gbps(tokens: int, milliseconds: float) -> None:
    times = price_handoff(at(state_bytes=131072 * tokens))
    assert times.transfer_seconds * 1e3 == pytest.approx(milliseconds, abs=5e-4)


@pytest.mark.parametrize(("output", "saving_ms"), [(128, 0.671), (512, 0.168)])
def test_saving_needed_a_token_with_nothing_hidden(output: int, saving_ms: float) -> None:
    needed = price_handoff(at(output_tokens=output)).break_even_saving_seconds_per_token
    assert needed is not None
    assert needed * 1e3 == pytest.approx(saving_ms, abs=5e-4)


@pytest.mark.parametrize(("hidden", "delta_ms"), [(0.0, 21.9), (0.5, -21.1)])
def test_half_a_millisecond_a_token_is_later_exposed_and_sooner_half_hidden(
    hidden: float, delta_ms: float
) -> None:
    times = price_handoff(at(saving_seconds_per_token=0.5e-3, hidden=hidden))
    assert times.saved_seconds == pytest.approx(64e-3)
    assert times.delta_seconds * 1e3 == pytest.approx(delta_ms, abs=0.06)


def test_share_to_hide_for_a_tie() -> None:
    times = price_handoff(at(saving_seconds_per_token=0.5e-3))
    assert times.break_even_hidden == pytest.approx(0.25494, abs=5e-6)


def test_equal_speed_ties_at_best_and_a_slower_receiver_never_wins() -> None:
    equal = price_handoff(at(hidden=1.0))
    slower = price_handoff(at(hidden=1.0, saving_seconds_per_token=-0.25e-3))

    assert (equal.delta_seconds, equal.break_even_hidden) == (0, 1)
    assert slower.delta_seconds == pytest.approx(32e-3)
    assert slower.break_even_hidden is None
    assert slower.break_even_link_bytes_per_second is None
    assert slower.break_even_output_tokens is None


def test_first_token_from_prefill_leaves_one_step_fewer_to_repay_in() -> None:
    there, here = price_handoff(at()), price_handoff(at(emitter="prefill"))
    assert (there.steps, here.steps) == (128, 127)
    alone = price_handoff(at(emitter="prefill", output_tokens=1, saving_seconds_per_token=1.0))
    assert (alone.steps, alone.saved_seconds) == (0, 0)
    assert alone.break_even_saving_seconds_per_token is None


def test_ten_requests_a_second_nearly_fill_the_link() -> None:
    load = link_load(MISTRAL_16K, 10, LINK)
    assert load.bytes_per_second / 1e9 == pytest.approx(21.47, abs=5e-3)
    assert load.utilisation == pytest.approx(0.859, abs=5e-4)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"link_bytes_per_second": 0.0}, "link bandwidth"),
        ({"link_bytes_per_second": float("nan")}, "link bandwidth"),
        ({"hidden": 1.01}, "hidden"),
        ({"hidden": -0.01}, "hidden"),
        ({"output_tokens": 0}, "output tokens"),
        ({"state_bytes": 0}, "state bytes"),
        ({"saving_seconds_per_token": float("inf")}, "saving per token"),
    ],
)
def test_an_impossible_input_is_named(changes: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        price_handoff(at(**changes))
    assert caught.value.field == field


def test_load_needs_a_link() -> None:
    with pytest.raises(InputError, match="link bandwidth"):
        link_load(1, 1, 0)


sizes = st.integers(1, 10**12)
outputs = st.integers(1, 10**5)
links = st.floats(1e6, 1e13)
shares = st.floats(0, 1)
savings = st.one_of(st.just(0.0), st.floats(1e-9, 1e-2), st.floats(-1e-2, -1e-9))
handoffs = st.builds(
    Handoff,
    state_bytes=sizes,
    output_tokens=outputs,
    link_bytes_per_second=links,
    saving_seconds_per_token=savings,
    hidden=shares,
    emitter=st.sampled_from(["decode", "prefill"]),
)


@FEW
@given(handoffs)
def test_exact_arithmetic_gives_the_same(handoff: Handoff) -> None:
    """A recomputation in fractions, from the words and not from the code."""
    crossing = Fraction(handoff.state_bytes) / Fraction(handoff.link_bytes_per_second)
    visible = crossing - crossing * Fraction(handoff.hidden)
    repaid = Fraction(handoff.saving_seconds_per_token) * (
        handoff.output_tokens - (handoff.emitter == "prefill")
    )
    times = price_handoff(handoff)
    assert times.transfer_seconds == pytest.approx(float(crossing), rel=1e-12)
    assert times.delta_seconds == pytest.approx(float(visible - repaid), rel=1e-9, abs=1e-9 * float(crossing))


@FEW
@given(handoffs)
def test_break_evens_break_even(handoff: Handoff) -> None:
    """Put back where it came from, every break-even makes the split a tie."""
    times = price_handoff(handoff)
    tie = pytest.approx(0, abs=1e-9 * times.transfer_seconds)

    def with_(**changes: object) -> float:
        return price_handoff(Handoff(**{**vars(handoff), **changes})).delta_seconds

    if times.break_even_hidden:
        assert with_(hidden=times.break_even_hidden) == tie
    if times.break_even_link_bytes_per_second:
        link = times.break_even_link_bytes_per_second
        assert with_(link_bytes_per_second=link) == pytest.approx(0, abs=1e-9 * times.saved_seconds)
    if times.break_even_saving_exposed_seconds_per_token is not None:
        assert with_(saving_seconds_per_token=times.break_even_saving_exposed_seconds_per_token) == tie


@FEW
@given(handoffs, st.integers(1, 10**4))
def test_directions(handoff: Handoff, more: int) -> None:
    """Twice the link halves the transfer; hiding all exposes nothing; longer outputs need no more saving."""
    times = price_handoff(handoff)
    twice = price_handoff(
        Handoff(**{**vars(handoff), "link_bytes_per_second": 2 * handoff.link_bytes_per_second})
    )
    hidden = price_handoff(Handoff(**{**vars(handoff), "hidden": 1.0}))
    longer = price_handoff(Handoff(**{**vars(handoff), "output_tokens": handoff.output_tokens + more}))

    assert twice.transfer_seconds == times.transfer_seconds / 2
    assert hidden.exposed_seconds == 0
    needed, needed_longer = (
        times.break_even_saving_seconds_per_token,
        longer.break_even_saving_seconds_per_token,
    )
    assert needed_longer is not None
    assert needed is None or needed_longer < needed
    assert times.exposed_seconds <= times.transfer_seconds


@FEW
@given(handoffs, st.sampled_from([2.0**-10, 0.5, 4.0, 1024.0]))
def test_units_scale(handoff: Handoff, factor: float) -> None:
    """Bytes and bytes a second in another unit change no time."""
    scaled = Handoff(
        **{
            **vars(handoff),
            "state_bytes": handoff.state_bytes * factor,
            "link_bytes_per_second": handoff.link_bytes_per_second * factor,
        }
    )
    assert price_handoff(scaled).delta_seconds == price_handoff(handoff).delta_seconds


@FEW
@given(sizes, st.floats(0, 1e4), links, shares)
def test_overlap_removes_no_bytes(nbytes: int, rate: float, link: float, hidden: float) -> None:
    """The link's load knows nothing of what is hidden."""
    load = link_load(nbytes, rate, link)
    times = price_handoff(Handoff(nbytes, 1, link, hidden=hidden))
    assert load.utilisation == pytest.approx(rate * times.transfer_seconds)
