"""Chunks on rails: the golden rows of Llama-3.3-70B at 32,768 tokens, and a reference that ticks."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_planner.payoff.checks import InputError
from hawk_planner.payoff.pipeline import Timeline, chunk_timeline

from .pools import FEW

LAYER = 2 * 8 * 128 * 2 * 32768
LINK = 50e9


def llama(rails: int, chunk_layers: int) -> Timeline:
    return chunk_timeline(
        [LAYER] * 80,
        chunk_layers=chunk_layers,
        compute_seconds_per_chunk=18.2e-3 * chunk_layers / 16,
        rail_bytes_per_second=LINK,
        rails=rails,
    )


def test_sizes_of_chunk_and_cache() -> None:
    timeline = llama(1, 16)
    assert sum(chunk.nbytes for chunk in timeline.chunks) == 10_737_418_240
    assert timeline.transfer_seconds * 1e3 == pytest.approx(214.75, abs=5e-3)
    assert timeline.chunks[0].nbytes / 1e9 == pytest.approx(2.147, abs=5e-4)
    assert timeline.chunks[0].nbytes / LINK * 1e3 == pytest.approx(42.95, abs=5e-3)
    assert timeline.chunks[0].nbytes / 14.1e-3 / LINK == pytest.approx(3.05, abs=5e-3)


@pytest.mark.parametrize(
    ("rails", "chunk_layers", "exposed_ms"),
    [
        (1, 16, 141.95),
        (2, 16, 34.57),
        (3, 16, 14.32),
        (4, 16, 10.74),
        (8, 16, 5.37),
        (1, 1, 124.89),
        (2, 1, 17.51),
        (4, 1, 0.67),
    ],
)
def test_exposed_time(rails: int, chunk_layers: int, exposed_ms: float) -> None:
    assert llama(rails, chunk_layers).exposed_seconds * 1e3 == pytest.approx(exposed_ms, abs=6e-3)


def test_under_18_ms_holds_from_three_rails_or_from_two_with_single_layers() -> None:
    held = {(r, c) for r in (1, 2, 3, 4) for c in (1, 16) if llama(r, c).exposed_seconds < 18e-3}
    assert held == {(3, 16), (4, 16), (2, 1), (3, 1), (4, 1)}


def test_resident_when_prefill_ends() -> None:
    assert llama(1, 16).resident_share == pytest.approx(0.2)
    assert llama(1, 16).sent_share == pytest.approx(0.339, abs=5e-4)
    assert llama(4, 16).resident_share == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"chunk_layers": 0}, "chunk layers"),
        ({"chunk_layers": 81}, "chunk layers"),
        ({"rails": 0}, "rails"),
        ({"rail_bytes_per_second": 0.0}, "link bandwidth"),
        ({"compute_seconds_per_chunk": 0.0}, "compute time per chunk"),
        ({"layer_bytes": [0.0]}, "state bytes"),
        ({"layer_bytes": []}, "layers"),
    ],
)
def test_an_impossible_pipeline_is_named(changes: dict[str, object], field: str) -> None:
    base: dict[str, object] = {
        "layer_bytes": [LAYER] * 80,
        "chunk_layers": 1,
        "compute_seconds_per_chunk": 1e-3,
        "rail_bytes_per_second": LINK,
    }
    with pytest.raises(InputError) as caught:
        chunk_timeline(**{**base, **changes})  # type: ignore[arg-type]
    assert caught.value.field == field


layers = st.lists(st.integers(1, 1000), min_size=1, max_size=24)


@FEW
@given(layers, st.integers(1, 24), st.integers(1, 50), st.integers(1, 40), st.integers(1, 4))
def test_a_reference_that_ticks_agrees(
    sizes: list[int], chunk: int, compute: int, rate: int, rails: int
) -> None:
    """Every byte is moved one after the other in exact time: a queue of bytes, no formula."""
    chunk = min(chunk, len(sizes))
    timeline = chunk_timeline(
        sizes,
        chunk_layers=chunk,
        compute_seconds_per_chunk=float(compute),
        rail_bytes_per_second=float(rate),
        rails=rails,
    )
    end = Fraction(compute * len(sizes), chunk)
    now = Fraction(0)
    whole, total = 0, sum(sizes)
    for first in range(0, len(sizes), chunk):
        group = sizes[first : first + chunk]
        now = max(now, Fraction(compute * (first + len(group)), chunk))
        for _ in range(sum(group)):
            now += Fraction(1, rate * rails)
        whole += sum(group) if now <= end else 0
    assert timeline.exposed_seconds == pytest.approx(float(now - end), rel=1e-9, abs=1e-9)
    assert timeline.resident_share == pytest.approx(whole / total)


@FEW
@given(layers, st.integers(1, 24), st.floats(0.01, 50), st.floats(1, 1e3), st.integers(1, 8))
def test_directions_of_a_pipeline(
    sizes: list[int], chunk: int, compute: float, rate: float, rails: int
) -> None:
    chunk = min(chunk, len(sizes))

    def run(**changes: float) -> Timeline:
        base = {
            "chunk_layers": chunk,
            "compute_seconds_per_chunk": compute,
            "rail_bytes_per_second": rate,
            "rails": rails,
        }
        return chunk_timeline(sizes, **{**base, **changes})  # type: ignore[arg-type]

    once, twice, slower = (
        run(),
        run(rail_bytes_per_second=2 * rate),
        run(compute_seconds_per_chunk=2 * compute),
    )
    assert twice.transfer_seconds == pytest.approx(once.transfer_seconds / 2)
    assert twice.exposed_seconds <= once.exposed_seconds
    assert slower.exposed_seconds <= once.exposed_seconds * (1 + 1e-9) + 1e-9
    assert run(rails=2 * rails).exposed_seconds == pytest.approx(twice.exposed_seconds)
    assert 0 <= once.resident_share <= once.sent_share + 1e-12 <= 1 + 2e-12
    assert 0 <= once.hidden < 1
    assert run(chunk_layers=1, compute_seconds_per_chunk=compute / chunk).exposed_seconds <= (
        once.exposed_seconds * (1 + 1e-9) + 1e-9
    )
