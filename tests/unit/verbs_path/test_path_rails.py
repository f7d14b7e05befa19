"""Striping and taking over: every layer and head of a chunk is sent, by a rail that lives."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.transfer.chunks import Chunk
from hawk_agent.transports.verbs.rails import Arrivals, Ledger, RailsExhaustedError, Share, shares


@given(st.integers(1, 9), st.integers(0, 40), st.integers(1, 9), st.integers(1, 16))
def test_shares_cover_each_layer_and_head_once(count: int, first: int, heads: int, rails: int) -> None:
    cut = shares(Chunk(3, first, count), heads, rails)

    covered = Counter(
        (layer, head)
        for share in cut
        for layer in range(share.first, share.first + share.count)
        for head in range(share.head, share.head + share.heads)
    )
    assert covered == Counter((la, h) for la in range(first, first + count) for h in range(heads))
    assert [share.index for share in cut] == list(range(len(cut)))
    assert {share.chunk for share in cut} == {3}
    assert len(cut) <= rails


@pytest.mark.parametrize(
    ("layers", "heads", "rails", "parts"),
    [(16, 8, 4, [(4, 8)] * 4), (1, 8, 4, [(1, 2)] * 4), (3, 8, 2, [(3, 4)] * 2), (1, 1, 4, [(1, 1)])],
)
def test_the_more_even_axis_is_cut(layers: int, heads: int, rails: int, parts: list[tuple[int, int]]) -> None:
    cut = shares(Chunk(0, 0, layers), heads, rails)

    assert [(share.count, share.heads) for share in cut] == parts


def test_shares_go_one_to_a_rail() -> None:
    ledger = Ledger(4)

    assert [rail for _, rail in ledger.place(shares(Chunk(0, 0, 8), 1, 4))] == [0, 1, 2, 3]


@given(st.integers(1, 5), st.lists(st.tuples(st.booleans(), st.integers(0, 29)), max_size=40))
def test_whatever_fails_each_share_is_owed_by_a_live_rail_or_every_rail_failed(
    rails: int, events: list[tuple[bool, int]]
) -> None:
    ledger = Ledger(rails)
    todo = [s for i in range(3) for s in shares(Chunk(i, 4 * i, 4), 2, rails)]
    owed: dict[Share, int] = dict(ledger.place(todo))
    dead: set[int] = set()
    assert list(owed) == todo
    for fails, number in events:
        if not fails:
            done = todo[number % len(todo)]
            ledger.done(done)
            owed.pop(done, None)
            continue
        victim = number % rails
        dead.add(victim)
        left = {share for share, rail in owed.items() if rail == victim}
        if left and len(dead) == rails:
            with pytest.raises(RailsExhaustedError, match="every rail"):
                ledger.failed(victim)
            return
        moved = ledger.failed(victim)
        assert sorted(share.index for share, _ in moved) == sorted(share.index for share in left)
        owed.update(moved)
        assert not set(owed.values()) & dead
    assert set(ledger.alive) == set(range(rails)) - dead


def test_work_of_a_failed_rail_is_spread() -> None:
    ledger = Ledger(3)
    ledger.place(shares(Chunk(0, 0, 9), 1, 3))
    ledger.place(shares(Chunk(1, 9, 9), 1, 3))

    moved = ledger.failed(1)

    assert Counter(rail for _, rail in moved) == {0: 1, 2: 1}


@given(st.lists(st.integers(0, 3)))
def test_a_chunk_is_in_when_each_share_is_however_often_it_came(order: list[int]) -> None:
    arrivals = Arrivals()
    for share in order:
        arrivals.add(7, share)

    assert arrivals.complete(7, 4) == (set(order) == {0, 1, 2, 3})
    assert not arrivals.complete(8, 4)
