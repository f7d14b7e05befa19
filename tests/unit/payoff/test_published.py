"""The published tables beside ours: what agrees, what differs, what can't be derived."""

from __future__ import annotations

import pytest

from hawk_planner.payoff.published import Agreement, Comparison, comparisons

ROWS = {row.figure: row for row in comparisons()}


def test_every_figure_is_listed_once() -> None:
    assert len(ROWS) == len(comparisons())


@pytest.mark.parametrize(
    ("figure", "low", "high", "tolerance"),
    [
        ("KV cache", 10.737, 10.737, 1e-3),
        ("transfer of a 16-layer chunk", 42.95, 42.95, 5e-3),
        ("TTFT, 8 H100", 780, 975, 1),
        ("TTFT, 2 H100 + 6 NPU", 3119, 3899, 1),
        ("ITL, 2 H100 + 6 NPU", 20.97, 20.97, 0.01),
        ("energy, 8 H100", 13.59, 13.59, 5e-3),
        ("energy, 2 H100 + 6 NPU", 4.58, 4.58, 5e-3),
        ("relative cost of ownership", 0.3025, 0.3187, 5e-4),
        ("price of bandwidth, H100", 9552, 9552, 1),
        ("price of bandwidth, NPU", 3611, 3611, 1),
        ("its ratio", 2.645, 2.645, 1e-3),
        ("prefill intensity at 2,048 tokens", 2044, 2044, 8),
        ("decode MFU, H100", 0.813, 0.813, 1e-3),
        ("decode MFU, NPU", 2.4, 2.4, 1e-3),
        ("bytes read and written by it", 21.475, 21.475, 1e-3),
        ("added TTFT", 7.88, 7.88, 5e-3),
        ("added tokens a second", 33.0, 33.0, 0.05),
    ],
)
def test_derived_value(figure: str, low: float, high: float, tolerance: float) -> None:
    derived = ROWS[figure].derived
    assert derived is not None
    assert derived == (pytest.approx(low, abs=tolerance), pytest.approx(high, abs=tolerance))


@pytest.mark.parametrize(
    ("standing", "figures"),
    [
        (
            Agreement.DIFFERS,
            {
                "transfer of a 16-layer chunk",
                "compute of a 16-layer chunk",
                "TTFT, 8 H100",
                "TTFT, 2 H100 + 6 NPU",
                "ITL, 2 H100 + 6 NPU",
                "energy, 2 H100 + 6 NPU",
                "relative cost of ownership",
                "prefill intensity at 2,048 tokens",
                "decode intensity, batch 1",
                "decode MFU, H100",
                "decode MFU, NPU",
                "TTFT, split without translation",
                "resident when prefill ends",
                "exposed transfer, 16-layer chunks",
            },
        ),
        (
            Agreement.AGREES,
            {
                "KV cache",
                "added TTFT",
                "added tokens a second",
                "bytes read and written by it",
                "power, 8 H100",
                "power, 2 H100 + 6 NPU",
                "energy, 8 H100",
                "price of bandwidth, H100",
                "price of bandwidth, NPU",
                "its ratio",
                "transfer on one 400G port",
                "added ITL",
                "added TTFT, without translation",
                "saved energy, as a factor",
                "saved cost, as a factor",
                "saved cost",
            },
        ),
    ],
)
def test_standing(standing: Agreement, figures: set[str]) -> None:
    assert {name for name, row in ROWS.items() if row.standing is standing} == figures


def test_what_the_inputs_cant_give_is_published_only() -> None:
    only = {name for name, row in ROWS.items() if row.standing is Agreement.PUBLISHED_ONLY}
    assert "transfer of Qwen3-8B's KV, 32,768 tokens" in only
    assert all(ROWS[name].how for name in only)


def test_published_energy_is_its_own_baseline_over_a_factor() -> None:
    """10.78 is 13.59 / 1.26, not watts over tokens a second."""
    row = ROWS["energy, 2 H100 + 6 NPU"]
    assert row.published[0] == pytest.approx(13.59 / 1.26, rel=1e-3)
    assert row.derived == (pytest.approx(2510 / 548), pytest.approx(2510 / 548))


def test_exposed_and_resident_are_those_of_one_port() -> None:
    assert ROWS["exposed transfer, 16-layer chunks"].derived == (pytest.approx(141.95, abs=0.01),) * 2
    assert ROWS["resident when prefill ends"].derived == (pytest.approx(20),) * 2
    assert ROWS["TTFT, split without translation"].derived == (pytest.approx(1385.5, abs=0.1),) * 2


def test_a_range_agrees_where_it_overlaps() -> None:
    row = Comparison("p", "f", "u", (10, 20), (20.3, 30), "h")
    assert row.standing is Agreement.AGREES
    assert Comparison("p", "f", "u", (10, 20), (20.5, 30), "h").standing is Agreement.DIFFERS
