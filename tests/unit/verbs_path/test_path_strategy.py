"""The cheapest way is taken, named with its reasons; what can't be is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.errors import TransportError
from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.plans import Costs, RequestLimits
from hawk_agent.transports.verbs.strategy import VerbsStrategy, decide_strategy

GEOMETRY = {"l": 4, "c": 2, "h": 4, "s": 256, "d": 64}
ROWS = Layout.parse("l c h s d", GEOMETRY)
TILES = Layout.parse("l c h s1 d1 s0 d0", GEOMETRY | {"s0": 16, "d0": 16})
TRANSPOSED = Layout.parse("l c h d s", GEOMETRY)
TRANSLATED = compile_nest(ROWS, TILES)

rates = st.floats(1e6, 1e12)
prices = st.floats(0, 1e-3)


@given(rates, rates, prices, prices, st.integers(1, 8))
def test_the_least_predicted_time_is_taken(
    copy: float, link: float, request: float, sge: float, rails: int
) -> None:
    costs = Costs(copy, link, request, sge)

    decision = decide_strategy(TRANSLATED, costs, RequestLimits(max_sge=32), rails=rails)

    assert decision.seconds == min(seconds for _, seconds in decision.prices)
    assert (decision.way, decision.seconds) in decision.prices
    assert {way for way, _ in decision.prices} == set(VerbsStrategy) - {VerbsStrategy.CONTIGUOUS}


@pytest.mark.parametrize(
    ("costs", "way"),
    [
        (Costs(1e6, 1e9, request_seconds=1e-7, sge_seconds=1e-9), VerbsStrategy.GATHER),
        (Costs(1e12, 1e9, request_seconds=1e-5, sge_seconds=1e-5), VerbsStrategy.TILE_FIRST),
    ],
)
def test_a_card_good_at_lists_gathers_and_one_that_is_not_gets_tiles(
    costs: Costs, way: VerbsStrategy
) -> None:
    assert decide_strategy(TRANSLATED, costs, RequestLimits(max_sge=32)).way is way


def test_layouts_that_agree_are_sent_as_they_are() -> None:
    decision = decide_strategy(compile_nest(ROWS, ROWS), Costs(), RequestLimits())

    assert decision.way is VerbsStrategy.CONTIGUOUS
    assert decision.warning == ""


def test_each_way_can_be_asked_for_and_says_what_it_costs() -> None:
    for way in set(VerbsStrategy) - {VerbsStrategy.CONTIGUOUS}:
        decision = decide_strategy(TRANSLATED, Costs(), RequestLimits(max_sge=1), forced=way)
        assert decision.way is way
        assert decision.why.startswith("asked for")
        assert "pieces, limited by" in decision.why


def test_contiguous_is_refused_where_the_layouts_differ() -> None:
    with pytest.raises(TransportError, match="contiguous isn't possible"):
        decide_strategy(TRANSLATED, Costs(), RequestLimits(), forced=VerbsStrategy.CONTIGUOUS)


@pytest.mark.parametrize(
    ("way", "warned"),
    [(VerbsStrategy.GATHER, True), (VerbsStrategy.SCATTER, True), (VerbsStrategy.TILE_FIRST, False)],
)
def test_pieces_of_few_features_are_warned_of_where_a_card_handles_them(
    way: VerbsStrategy, warned: bool
) -> None:
    decision = decide_strategy(compile_nest(ROWS, TRANSPOSED), Costs(), RequestLimits(), forced=way)

    assert ("1 feature dimension, fewer than 4" in decision.warning) is warned


def test_rails_share_what_cards_do_but_not_what_the_processor_does() -> None:
    costs = Costs(translate_bytes_per_s=1e9, link_bytes_per_s=1e12, request_seconds=1e-6, sge_seconds=1e-6)
    one, four = (dict(decide_strategy(TRANSLATED, costs, RequestLimits(), rails=n).prices) for n in (1, 4))

    assert four[VerbsStrategy.GATHER] == pytest.approx(one[VerbsStrategy.GATHER] / 4)
    assert four[VerbsStrategy.TILE_FIRST] == one[VerbsStrategy.TILE_FIRST]
