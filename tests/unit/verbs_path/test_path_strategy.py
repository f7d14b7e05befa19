"""The cheapest way is taken, named with its reasons; what can't be is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.errors import TransportError
from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.plans import Costs, Limits
from hawk_agent.transports.verbs.strategy import Way, decide

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

    decision = decide(TRANSLATED, costs, Limits(max_sge=32), rails=rails)

    assert decision.seconds == min(seconds for _, seconds in decision.prices)
    assert (decision.way, decision.seconds) in decision.prices
    assert {way for way, _ in decision.prices} == set(Way) - {Way.CONTIGUOUS}


@pytest.mark.parametrize(
    ("costs", "way"),
    [
        (Costs(1e6, 1e9, request_seconds=1e-7, sge_seconds=1e-9), Way.GATHER),
        (Costs(1e12, 1e9, request_seconds=1e-5, sge_seconds=1e-5), Way.TILE_FIRST),
    ],
)
def test_a_card_good_at_lists_gathers_and_one_that_is_not_gets_tiles(costs: Costs, way: Way) -> None:
    assert decide(TRANSLATED, costs, Limits(max_sge=32)).way is way


def test_layouts_that_agree_are_sent_as_they_are() -> None:
    decision = decide(compile_nest(ROWS, ROWS), Costs(), Limits())

    assert decision.way is Way.CONTIGUOUS
    assert decision.warning == ""


def test_each_way_can_be_asked_for_and_says_what_it_costs() -> None:
    for way in set(Way) - {Way.CONTIGUOUS}:
        decision = decide(TRANSLATED, Costs(), Limits(max_sge=1), forced=way)
        assert decision.way is way
        assert decision.why.startswith("asked for")
        assert "pieces, limited by" in decision.why


def test_contiguous_is_refused_where_the_layouts_differ() -> None:
    with pytest.raises(TransportError, match="contiguous isn't possible"):
        decide(TRANSLATED, Costs(), Limits(), forced=Way.CONTIGUOUS)


@pytest.mark.parametrize(
    ("way", "warned"), [(Way.GATHER, True), (Way.SCATTER, True), (Way.TILE_FIRST, False)]
)
def test_pieces_of_few_features_are_warned_of_where_a_card_handles_them(way: Way, warned: bool) -> None:
    decision = decide(compile_nest(ROWS, TRANSPOSED), Costs(), Limits(), forced=way)

    assert ("1 feature dimension, fewer than 4" in decision.warning) is warned


def test_rails_share_what_cards_do_but_not_what_the_processor_does() -> None:
    costs = Costs(translate_bytes_per_s=1e9, link_bytes_per_s=1e12, request_seconds=1e-6, sge_seconds=1e-6)
    one, four = (dict(decide(TRANSLATED, costs, Limits(), rails=n).prices) for n in (1, 4))

    assert four[Way.GATHER] == pytest.approx(one[Way.GATHER] / 4)
    assert four[Way.TILE_FIRST] == one[Way.TILE_FIRST]
