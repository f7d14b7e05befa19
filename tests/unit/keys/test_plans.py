"""The keys that a plan asks for: iterated without growing, kept where they can be, and priced."""

import itertools
import tracemalloc

import numpy as np
import pytest

from hawk_agent.layouts import Layout, LayoutError, compile_nest
from hawk_agent.plans import Costs, RequestLimits, applicable_strategies, keeping, key_plans
from hawk_agent.transports.verbs.mlx5_keys import KeyedMemory, streams

BIG = {"l": 80, "c": 2, "h": 8, "d": 128}


def nest(source: str, target: str, tokens: int = 32768, **sizes):
    both = {**BIG, "s": tokens, **sizes}
    return compile_nest(Layout.preset(source, both), Layout.preset(target, both))


def plan_of(found, name: str, limits: RequestLimits | None = None):
    return next(plan for plan in key_plans(found, limits or RequestLimits()) if plan.name == name)


@pytest.mark.parametrize(
    ("target", "writes", "keys", "rkeys"),
    [("nz", 10_240, 10_240, 0), ("tiles-16x16", 10_240, 20_480, 10_240)],
)
def test_the_streams_of_70b_are_as_many_as_the_plan_counts(target, writes, keys, rkeys):
    """Counted one by one: every write, every registration, and every byte."""
    found = nest("row-major", target)
    done = [0, 0, 0, 0]
    for stream in streams(
        plan_of(found, "strided"), KeyedMemory(0, lambda _: 1), KeyedMemory(0, lambda _: 2)
    ):
        remote = stream.destination.registration is not None
        added = (
            len(list(stream.writes())),
            (stream.source.registration is not None) + remote,
            remote,
            stream.nbytes,
        )
        done = [a + b for a, b in zip(done, added, strict=True)]

    assert done == [writes, keys, rkeys, 10_737_418_240]


def test_pages_go_as_one_write_each_through_sixteen_pieces():
    found = nest("pages-hnd", "tiles-16x16")
    plan = plan_of(found, "interleaved")
    table = np.arange(2048)[::-1].copy()
    end = KeyedMemory(0x1000, lambda _: 5, table, found.pages[0])
    first, second = itertools.islice(streams(plan, end, KeyedMemory(0, lambda _: 2)), 2)
    made = first.source.registration

    assert (plan.writes, plan.source_keys, plan.destination_keys) == (2_621_440, 2_621_440, 0)
    assert (made.repeat, len(made.entries), made.max_entries) == (8, 16, 17)
    assert made.entries[["bytes_count", "bytes_skip"]].tolist() == [(32, 0)] * 16
    assert (made.entries["addr"] - made.entries["addr"][0]).tolist() == list(range(0, 4096, 256))
    assert first.destination.registration is None
    assert first.nbytes == second.nbytes == 4096
    assert int(first.source.registration.entries["addr"][0]) == 0x1000 + 2047 * found.pages[0]


def test_plain_keys_fall_back_to_as_many_pieces_as_there_are_tile_rows():
    assert plan_of(nest("pages-hnd", "tiles-16x16"), "strided").writes == 20_971_520


def test_memory_does_not_grow_with_the_sequence():
    def peak(tokens: int) -> int:
        tracemalloc.start()
        try:
            found = plan_of(nest("pages-hnd", "tiles-16x16", tokens), "interleaved")
            end = KeyedMemory(0, lambda _: 1)
            for _ in itertools.islice(streams(found, end, end), 50):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1024)
    assert peak(1 << 20) < 2 * peak(1024) + 64_000


def test_a_long_stream_is_several_writes_through_one_key():
    plan = plan_of(nest("row-major", "nz"), "strided", RequestLimits(max_message_bytes=256 << 10))

    assert (plan.writes, plan.source_keys, plan.write_nbytes) == (40_960, 10_240, 256 << 10)


def test_a_key_stops_where_the_next_loop_would_be_too_wide():
    """Rows of 40 KiB apart by 100 KiB at the destination: contiguous rows instead of a key that can't be."""
    rows = Layout.parse("h s d", {"h": 4, "s": 160, "d": 128})
    gaps = Layout.parse("h s d", {"h": 4, "s": 160, "d": 128}, strides={"h": 50_000})
    plan = plan_of(compile_nest(rows, gaps), "strided")

    assert (plan.writes, plan.invalidations, plan.write_nbytes, plan.refused) == (4, 0, 40_960, "")


def test_keys_that_no_block_table_moves_are_kept_for_every_request():
    kept = keeping(
        nest("row-major", "tiles-16x16"),
        plan_of(nest("row-major", "tiles-16x16"), "strided"),
        RequestLimits(),
    )

    assert (kept.source, kept.destination, kept.moving, kept.refused) == (10_240, 10_240, 0, "")
    assert kept.card_nbytes == 20_480 * 64
    slots = nest("row-major", "nz", b=4).window("b", 1, 2)
    assert keeping(slots, plan_of(slots, "strided"), RequestLimits()).source == 4 * 10_240


def test_keys_of_pages_are_kept_for_the_whole_pool_or_not_at_all():
    found = nest("pages-hnd", "tiles-16x16", 1600, s1=4096)
    plan = plan_of(found, "interleaved")
    many = keeping(found, plan, RequestLimits())
    few = keeping(found, plan, RequestLimits(max_keys=1 << 24))

    assert many.source == 4096 * 80 * 2 * 8
    assert many.refused == "5,242,880 keys to keep; the device is asked to hold 1,048,576 at most"
    assert few.refused == ""
    assert few.card_nbytes == 5_242_880 * 20 * 16


def test_ragged_ends_are_made_anew():
    """37 tokens: the shape of the last tile depends on how long the request is."""
    found = nest("row-major", "tiles-16x16", 37)
    kept = keeping(found, plan_of(found, "strided"), RequestLimits())

    assert kept.source == 80 * 2 * 8 * 8
    assert kept.moving > 0


def price(uses: int, **costs: float) -> float:
    found = applicable_strategies(
        nest("row-major", "tiles-16x16"),
        Costs(link_bytes_per_s=1e15, entry_seconds=0, key_uses=uses, **costs),
    )
    return next(strategy.seconds for strategy in found if strategy.name == "strided-keys")


def test_registrations_and_invalidations_have_their_price():
    base = price(1, key_seconds=0, invalidate_seconds=0)

    assert price(1, key_seconds=1e-6, invalidate_seconds=0) == pytest.approx(base + 20_480e-6)
    assert price(1, key_seconds=0, invalidate_seconds=1e-6) == pytest.approx(base + 20_480e-6)
    assert price(1000, key_seconds=1e-6, invalidate_seconds=0) == pytest.approx(base + 20.48e-6)


def test_keys_that_can_not_be_kept_are_paid_each_time():
    def keyed(uses: int) -> float:
        found = applicable_strategies(nest("pages-hnd", "tiles-16x16"), Costs(key_uses=uses))
        return next(strategy.seconds for strategy in found if strategy.name == "interleaved-keys")

    assert keyed(1) == keyed(1000) > 2.6


def test_uses_of_nothing_are_refused():
    with pytest.raises(LayoutError, match="key_uses: 0"):
        Costs(key_uses=0)
