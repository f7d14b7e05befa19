"""Decisions under load: offload a decode, move state, place a prefix, try a split."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_planner.payoff.bottleneck import Observed, suggest_splits
from hawk_planner.payoff.candidate import ServingMode
from hawk_planner.payoff.checks import InputError
from hawk_planner.payoff.decisions import (
    DecodeLoad,
    Path,
    PrefixChoice,
    decide_offload,
    mean_residual_tokens,
    path_problem,
    place_prefix,
)

from .pools import FEW

GOOD = Path(True, True, True, True, 25e9)
BUSY, FREE = DecodeLoad(step_seconds=30e-3), DecodeLoad(step_seconds=20e-3)


def test_a_long_decode_moves_to_the_faster_step_and_a_short_one_stays() -> None:
    long = decide_offload(BUSY, FREE, remaining_tokens=500, exposed_transfer_seconds=0.5)
    short = decide_offload(BUSY, FREE, remaining_tokens=20, exposed_transfer_seconds=0.5)
    assert (long.move, short.move) == (True, False)
    assert long.stay_seconds == pytest.approx(15)
    assert long.move_seconds == pytest.approx(10.5)
    assert long.break_even_tokens == pytest.approx(50)


def test_fewer_requests_are_not_less_load() -> None:
    """A device with a queue and no others can still be the later one."""
    there = replace(FREE, queue_seconds=10.0)
    assert not decide_offload(BUSY, there, remaining_tokens=500, exposed_transfer_seconds=0.1).move


def test_protecting_others_can_move_a_decode_that_alone_would_stay() -> None:
    here = DecodeLoad(step_seconds=20e-3, others=30, slowdown_seconds=0.2e-3)
    there = DecodeLoad(step_seconds=22e-3)
    alone = decide_offload(here, there, remaining_tokens=300, exposed_transfer_seconds=0.1)
    together = decide_offload(
        here, there, remaining_tokens=300, exposed_transfer_seconds=0.1, weight_of_others=1.0
    )
    assert (alone.move, together.move) == (False, True)
    assert together.relief_seconds == pytest.approx(1.8)


steps = st.floats(1e-3, 0.2)


@FEW
@given(steps, steps, st.floats(0, 5), st.floats(0, 5), st.floats(0, 5), st.floats(1, 5000))
def test_the_sooner_completion_is_taken_and_break_even_breaks_even(
    here: float, there: float, queue_here: float, queue_there: float, exposed: float, tokens: float
) -> None:
    loads = DecodeLoad(here, queue_here), DecodeLoad(there, queue_there)
    found = decide_offload(*loads, remaining_tokens=tokens, exposed_transfer_seconds=exposed)
    assert found.move == (found.move_seconds < found.stay_seconds)
    turn = found.break_even_tokens
    if turn is not None and turn > 1e-6:
        tie = decide_offload(*loads, remaining_tokens=turn, exposed_transfer_seconds=exposed)
        assert tie.move_seconds == pytest.approx(tie.stay_seconds)


def test_an_offload_needs_real_loads() -> None:
    with pytest.raises(InputError, match="decode step there"):
        decide_offload(BUSY, DecodeLoad(0.0), remaining_tokens=1, exposed_transfer_seconds=0)
    with pytest.raises(InputError, match="remaining tokens"):
        decide_offload(BUSY, FREE, remaining_tokens=0, exposed_transfer_seconds=0)


def test_the_estimate_of_what_remains_follows_what_was_produced() -> None:
    lengths = [10, 20, 100]
    assert mean_residual_tokens(lengths, 0) == pytest.approx(130 / 3)
    assert mean_residual_tokens(lengths, 15) == pytest.approx((5 + 85) / 2)
    assert mean_residual_tokens(lengths, 50) == 50
    assert mean_residual_tokens(lengths, 100) is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"layouts_agree": False}, "layouts differ"),
        ({"precision_agrees": False}, "precisions differ"),
        ({"sharding_agrees": False}, "shards differ"),
        ({"owner_agrees": False}, "owner or its epoch"),
        ({"bytes_per_second": None}, "never measured end to end"),
        ({"bytes_per_second": 0.0}, "never measured end to end"),
    ],
)
def test_two_devices_are_not_a_path(change: dict[str, object], why: str) -> None:
    assert path_problem(GOOD) is None
    assert why in (path_problem(replace(GOOD, **change)) or "")  # type: ignore[arg-type]


def place(path: Path = GOOD, **changes: float) -> tuple[PrefixChoice, set[PrefixChoice]]:
    base = {
        "prefix_bytes": 2 * 2**30,
        "suffix_seconds_here": 0.05,
        "suffix_seconds_there": 0.05,
        "queue_seconds_here": 0.0,
        "queue_seconds_there": 0.0,
        "recompute_seconds": 1.0,
    }
    found = place_prefix(path=path, **{**base, **changes})  # type: ignore[arg-type]
    return found.choice, set(found.seconds)


def test_a_prefix_is_used_where_it_is_unless_that_place_is_busy() -> None:
    assert place()[0] is PrefixChoice.USE
    assert place(queue_seconds_there=1.0)[0] is PrefixChoice.FETCH
    assert place(queue_seconds_there=1.0, recompute_seconds=0.01)[0] is PrefixChoice.RECOMPUTE


def test_a_slow_measured_path_loses_to_computing_again() -> None:
    """470 MB in 1.3 s, as published: 0.36 GB/s, not what the link could do."""
    slow = replace(GOOD, bytes_per_second=470e6 / 1.3)
    here = {"prefix_bytes": 470e6, "queue_seconds_there": 5.0, "recompute_seconds": 0.4}
    assert place(**here)[0] is PrefixChoice.FETCH
    assert place(slow, **here)[0] is PrefixChoice.RECOMPUTE


def test_without_a_path_nothing_is_fetched() -> None:
    choice, ways = place(replace(GOOD, bytes_per_second=None), queue_seconds_there=9.0)
    assert choice is PrefixChoice.RECOMPUTE
    assert PrefixChoice.FETCH not in ways


def test_waiting_for_a_place_hides_fetching() -> None:
    waited = place_prefix(
        prefix_bytes=25e9,
        path=GOOD,
        suffix_seconds_here=0.1,
        suffix_seconds_there=0.1,
        queue_seconds_here=0.8,
        queue_seconds_there=9.0,
        recompute_seconds=9.0,
    )
    assert waited.seconds[PrefixChoice.FETCH] == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("observed", "kind", "shows"),
    [
        (Observed(prefill_share_of_decode_gaps=0.4), ServingMode.SPLIT, "handoff included"),
        (Observed(decode_fits_other_device=True), ServingMode.SPLIT, "savings repay the exposed transfer"),
        (
            Observed(waiting_for_kv=12, tokens_per_expert=1, tokens_per_expert_limit=295),
            ServingMode.ATTENTION_FFN,
            "repay the exchanges",
        ),
        (Observed(draft_acceptance=0.9), ServingMode.TARGET_DRAFT, "tokens a round"),
        (
            Observed(decode_utilisation=0.95, other_device_utilisation=0.2),
            ServingMode.OFFLOAD,
            "completion time",
        ),
        (Observed(idle_share=0.5), ServingMode.FLEXIBLE, "real arrival rate"),
    ],
)
def test_each_bottleneck_suggests_its_split(observed: Observed, kind: ServingMode, shows: str) -> None:
    (found,) = suggest_splits(observed)
    assert found.kind is kind
    assert shows in found.must_show


def test_nothing_observed_suggests_nothing() -> None:
    assert suggest_splits(Observed()) == []
    assert (
        suggest_splits(Observed(waiting_for_kv=12, tokens_per_expert=300, tokens_per_expert_limit=295)) == []
    )
    assert suggest_splits(Observed(decode_utilisation=0.95)) == []
