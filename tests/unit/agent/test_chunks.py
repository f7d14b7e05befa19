"""The plan of chunks, what has arrived, and what was hidden."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.errors import BadRequestError
from hawk_agent.transfer import chunks
from hawk_agent.transfer.chunks import ChunkProgress


@given(layers=st.integers(1, 200), size=st.integers(0, 200))
def test_a_plan_covers_every_layer_once_in_order(layers: int, size: int) -> None:
    if size > layers:
        with pytest.raises(BadRequestError, match=f"chunkLayers {size}"):
            chunks.plan_chunks(layers, size)
        return
    plan = chunks.plan_chunks(layers, size)

    assert [layer for c in plan for layer in range(c.first, c.first + c.count)] == list(range(layers))
    assert [c.index for c in plan] == list(range(len(plan)))
    assert {c.count for c in plan[:-1]} <= {size}


@pytest.mark.parametrize("layers", [0, -1, 5000])
def test_a_plan_of_no_layers_is_refused(layers: int) -> None:
    with pytest.raises(BadRequestError, match=f"layers {layers}"):
        chunks.plan_chunks(layers, 0)


def test_events_are_one_a_layer_or_one_a_chunk() -> None:
    plan = chunks.plan_chunks(5, 2)

    assert chunks.events_for(plan, 5) == (2, 2, 1)
    assert chunks.events_for(plan, 3) == (1, 1, 1)
    with pytest.raises(BadRequestError, match=r"4 layer events given; give 5 .* or 3"):
        chunks.events_for(plan, 4)


@given(order=st.permutations(range(6)), repeats=st.lists(st.integers(0, 5)))
def test_progress_is_the_same_in_any_order_and_however_often(order: list[int], repeats: list[int]) -> None:
    progress = ChunkProgress(chunks.plan_chunks(11, 2))
    for index in [*order[:3], *repeats, *order[3:]]:
        progress.add(index, 10 + index, 0.0, 0.0, 2**63 + index)

    assert progress.complete
    assert progress.layers == 11
    assert progress.nbytes == sum(10 + i for i in range(6))
    assert progress.digest == sum(2**63 + i for i in range(6)) % 2**64


def test_layers_count_without_a_gap_from_the_first() -> None:
    progress = ChunkProgress(chunks.plan_chunks(6, 2))
    progress.add(0, 1, 0.0, 0.0, 1)
    progress.add(2, 1, 0.0, 0.0, 1)

    assert (progress.layers, progress.complete) == (2, False)
    with pytest.raises(BadRequestError, match="chunk 3 is outside the plan of 3"):
        progress.add(3, 1, 0.0, 0.0, 1)


def test_one_unchecked_chunk_leaves_the_whole_without_a_digest() -> None:
    progress = ChunkProgress(chunks.plan_chunks(2, 1))
    progress.add(0, 1, 0.0, 0.0, 1)
    progress.add(1, 1, 0.0, 0.0, None)

    assert progress.digest is None


def test_hidden_is_what_had_arrived_when_the_last_layer_was_complete() -> None:
    progress = ChunkProgress(chunks.plan_chunks(5, 1))
    for index in range(5):
        progress.add(index, 100, at=1.0 + index, seconds=0.1, digest=1)

    assert chunks.measure_overlap(progress, last_layer_at=4.0) == chunks.Overlap(0.8, 1.0)
    assert chunks.measure_overlap(progress, last_layer_at=9.0) == chunks.Overlap(1.0, 0.0)
    assert chunks.measure_overlap(ChunkProgress(()), 0.0) == chunks.Overlap(1.0, 0.0)
