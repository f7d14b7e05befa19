"""A running pool's traffic, and what the layouts leave of a link."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hawk_api.models import load_preset
from hawk_api.v1alpha1 import DataType, DecisionRecord, GroupSpec, HawkPoolStatus, KvLayout
from hawk_planner.payoff.checks import MissingInputError
from hawk_planner.payoff.live import given_by_status
from hawk_planner.payoff.paths import WHOLE, LayoutPath, layout_path

from .pools import CLASSES, pool, question

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MEASURED = {"requestRate": "12.5", "promptTokensMean": "2048.4", "outputTokensMean": "255.6"}


def status(*inputs: dict[str, str]) -> HawkPoolStatus:
    return HawkPoolStatus(
        decisions=tuple(
            DecisionRecord(time=NOW, reason="Demand", prefill=1, decode=1, inputs=i) for i in inputs
        )
    )


def test_the_newest_decision_with_traffic_is_read() -> None:
    given = given_by_status(status({"requestRate": "0"}, MEASURED | {"dispersion": "2.5"}, {}))
    assert (given.requests_per_second, given.prompt_tokens, given.output_tokens) == (12.5, 2048, 256)
    assert (given.dispersion, given.link_bytes_per_second) == (2.5, None)
    assert given.source == "measured by the pool, decision of 2026-01-02 03:04:05 UTC"


def test_a_measured_link_is_read_too() -> None:
    """A transfer over two rails is twice as fast as one of them."""
    found = given_by_status(status(MEASURED | {"transferBytesPerSecond": "4.2e10"}), rails=2)
    assert found.link_bytes_per_second == 2.1e10


@pytest.mark.parametrize("inputs", [{}, {"requestRate": "unbounded"}, {**MEASURED, "requestRate": "nan"}])
def test_without_traffic_the_plan_is_refused_and_says_what_is_missing(inputs: dict[str, str]) -> None:
    with pytest.raises(MissingInputError, match=r"status\.decisions: none of the 1 kept decisions"):
        given_by_status(status(inputs))


def groups(left: KvLayout | None, right: KvLayout | None) -> tuple[GroupSpec, GroupSpec]:
    first, second = pool().groups
    return first.model_copy(update={"kv_layout": left}), second.model_copy(update={"kv_layout": right})


def path(left: KvLayout | None, right: KvLayout | None, link: float = 50e9) -> LayoutPath:
    return layout_path(
        *groups(left, right),
        CLASSES,
        load_preset("llama-3.1-8b"),
        dtype=DataType.FLOAT16,
        tokens=2050,
        link_bytes_per_second=link,
    )


ROWS = KvLayout(preset="row-major")
TILES = KvLayout(preset="tiles-16x16")


def test_equal_layouts_leave_the_whole_link() -> None:
    assert path(None, None) == WHOLE
    assert path(TILES, TILES) == WHOLE


def test_tiles_cost_descriptors_that_a_fast_link_feels_and_a_slow_one_does_not() -> None:
    """The bytes a second that the cheapest strategy moves are the lesser of link and descriptors."""
    fast, faster, slow = path(ROWS, TILES), path(ROWS, TILES, 100e9), path(ROWS, TILES, 1e9)
    assert 0 < faster.share < fast.share < 1
    assert fast.share * 50e9 == pytest.approx(faster.share * 100e9, rel=0.05)
    assert slow.share == pytest.approx(1.0)
    assert "limited by" in fast.how


def test_layouts_that_cant_be_translated_are_named() -> None:
    odd = KvLayout(notation="h s d", sizes={"h": 4})
    with pytest.raises(MissingInputError, match=r"kvLayout: first to second: "):
        path(ROWS, odd)


def test_a_measured_link_has_the_layouts_in_it_and_a_given_one_has_not() -> None:
    spec = pool()
    tiled = spec.model_copy(
        update={"groups": (spec.groups[0], spec.groups[1].model_copy(update={"kv_layout": TILES}))}
    )
    given = question(tiled, link_bytes_per_second=50e9)
    assert given.scenario.path_share < 1
    assumed = question(tiled, path_share=0.5)
    assert assumed.scenario.path_share == 0.5
    listed = {one.name: one for one in given.assumptions}
    assert listed["path_share"].value == given.scenario.path_share
