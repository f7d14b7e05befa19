"""Tensor parallelism that differs between the sides, with replicated heads."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.layouts import Layout, LayoutError, compile_nest, head_exchanges, heads_of_rank

TOKENS, FEATURES = 24, 32
counts = st.sampled_from([1, 2, 4, 8, 16, 32])
PARTS = [(4, 8, 1), (2, 4, 1), (8, 8, 16), (1, 4, 2), (8, 4, 8), (8, 2, 8), (8, 1, 4), (4, 8, 8)]


def shards(cache: np.ndarray, ranks: int) -> list[np.ndarray]:
    """Return the part of a [head, token, feature] cache that each rank keeps."""
    heads = cache.shape[0]
    cuts = [(r * heads // ranks, max(r * heads // ranks + 1, (r + 1) * heads // ranks)) for r in range(ranks)]
    return [np.ascontiguousarray(cache[start:stop]) for start, stop in cuts]


def layout(preset: str, heads: int) -> Layout:
    return Layout.preset(preset, {"h": heads, "s": TOKENS, "d": FEATURES})


@pytest.mark.parametrize(("heads", "source_ranks", "destination_ranks"), PARTS)
def test_every_rank_gets_its_heads_whole(heads, source_ranks, destination_ranks):
    rng = np.random.default_rng(heads)
    cache = rng.integers(1, 60000, (heads, TOKENS, FEATURES), dtype=np.uint16)
    senders = shards(cache, source_ranks)
    wanted = shards(cache, destination_ranks)
    memory = [np.zeros(shard.size + 32, np.uint16) for shard in wanted]
    for exchange in head_exchanges(heads, source_ranks, destination_ranks):
        source = Layout.preset(
            "row-major", {"h": len(senders[exchange.source_rank]), "s": TOKENS, "d": FEATURES}
        )
        target = Layout.preset(
            "tiles-16x16", {"h": len(wanted[exchange.destination_rank]), "s": TOKENS, "d": FEATURES}
        )
        nest = compile_nest(source.narrow("h", *exchange.source), target.narrow("h", *exchange.destination))
        out = memory[exchange.destination_rank]
        out.resize(target.nbytes // 2, refcheck=False)
        nest.run(senders[exchange.source_rank], out)
    for shard, out in zip(wanted, memory, strict=True):
        padded = np.zeros((len(shard), 32, FEATURES), np.uint16)
        padded[:, :TOKENS] = shard
        tiles = padded.reshape(len(shard), 2, 16, 2, 16).transpose(0, 1, 3, 2, 4)

        assert np.array_equal(out, tiles.ravel())


@given(counts, counts, counts)
def test_each_destination_head_is_sent_once(heads, source_ranks, destination_ranks):
    found = Counter(
        (e.destination_rank, head)
        for e in head_exchanges(heads, source_ranks, destination_ranks)
        for head in range(*e.heads)
    )
    due = Counter(
        (rank, head)
        for rank in range(destination_ranks)
        for head in range(*heads_of_rank(heads, destination_ranks, rank))
    )

    assert found == due


@given(counts, counts, counts)
def test_a_sender_sends_only_what_it_holds(heads, source_ranks, destination_ranks):
    for e in head_exchanges(heads, source_ranks, destination_ranks):
        first, last = heads_of_rank(heads, source_ranks, e.source_rank)

        assert first + e.source[0] == e.heads[0]
        assert first + e.source[1] == e.heads[1] <= last


def test_copies_of_a_head_share_the_work():
    senders = Counter(e.source_rank for e in head_exchanges(heads=2, source_ranks=8, destination_ranks=8))

    assert set(senders.values()) == {1}


@pytest.mark.parametrize(("heads", "ranks"), [(8, 3), (6, 4), (8, 12), (0, 1), (4, 0)])
def test_ranks_that_do_not_fit_the_heads_are_refused(heads, ranks):
    with pytest.raises(LayoutError, match=f"parallelism.tensor: {ranks} ranks for {heads} key-value heads"):
        head_exchanges(heads, ranks, 1)
