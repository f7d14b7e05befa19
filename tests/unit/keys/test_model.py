"""Every plan of keys, executed on the model of a card, against a translation worked out index by index."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hawk_agent.errors import TransportError
from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.plans import RequestLimits, key_plans
from hawk_agent.transports.verbs import mlx5_model
from hawk_agent.transports.verbs.mlx5_keys import KeyedMemory, streams
from tests.unit.layouts.oracle import translate
from tests.unit.layouts.strategies import DTYPES, layout, pairs

GUARD = 64  # elements of sentinel on each side of the destination


@st.composite
def bounds(draw) -> RequestLimits:
    """Cards that hold few pieces a key, or cut messages at odd places."""
    return RequestLimits(
        key_entries=draw(st.sampled_from([2, 3, 7, 51])),
        max_message_bytes=draw(st.sampled_from([1, 33, 4096, 1 << 30])),
    )


def check(pair, dtype: str, seed: int, limits: RequestLimits) -> None:
    """Execute each plan that isn't refused: bytes, sentinels and counts."""
    source, destination = pair
    kind = DTYPES[dtype]
    rng = np.random.default_rng(seed)
    data = rng.integers(1, np.iinfo(kind).max, source.elements(), dtype=kind)
    memory = rng.integers(1, np.iinfo(kind).max, destination.elements() + 2 * GUARD, dtype=kind)
    inside = slice(GUARD, GUARD + destination.elements())
    expected = memory.copy()
    expected[inside] = translate(source, destination, data, memory[inside])
    nest = compile_nest(layout(source, dtype), layout(destination, dtype))
    tables = tuple(None if side.table is None else np.array(side.table) for side in pair)
    for plan in key_plans(nest, limits):
        if plan.refused:
            continue
        actual = memory.copy()
        done = mlx5_model.execute_plan(plan, nest, data, actual[inside], tables, limits=limits)
        nest.zero_padding(actual[inside], destination_blocks=destination.table)

        assert np.array_equal(actual, expected), plan.name
        assert (done.writes, done.source_keys, done.destination_keys, done.invalidations, done.nbytes) == (
            plan.writes,
            plan.source_keys,
            plan.destination_keys,
            plan.invalidations,
            nest.payload_nbytes,
        )


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pair=pairs(), dtype=st.sampled_from(sorted(DTYPES)), seed=st.integers(0, 2**32), limits=bounds())
def test_any_layout_becomes_any_other_through_keys(pair, dtype, seed, limits):
    check(pair, dtype, seed, limits)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pair=pairs(), dtype=st.sampled_from(sorted(DTYPES)), seed=st.integers(0, 2**32), limits=bounds())
def test_hundreds_of_layouts_become_others_through_keys(pair, dtype, seed, limits):
    check(pair, dtype, seed, limits)


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("row-major", "nz", "strided"),
        ("row-major", "tiles-16x16", "strided"),
        ("row-major", "tiles-16x16", "interleaved"),
        ("pages-hnd", "tiles-16x16", "interleaved"),
        ("pages-nhd", "tiles-16x16", "interleaved"),
        ("row-major", "pages-nhd", "list"),
        ("pages-nhd", "pages-hnd", "list"),
    ],
)
def test_the_plans_that_the_documents_name_move_the_right_bytes(source, target, name):
    sizes = {"l": 2, "c": 2, "h": 2, "s": 80, "d": 128}
    nest = compile_nest(Layout.preset(source, sizes), Layout.preset(target, sizes))
    data = np.random.default_rng(1).integers(0, 256, nest.source.nbytes, np.uint8)
    tables = [
        None if side.table is None else np.array([3, 0, 4, 1, 2]) for side in (nest.source, nest.destination)
    ]
    expected, actual = np.full((2, nest.destination.nbytes), 0xEE, np.uint8)
    nest.run(data, expected, source_blocks=tables[0], destination_blocks=tables[1])
    (plan,) = [plan for plan in key_plans(nest, RequestLimits()) if plan.name == name]
    done = mlx5_model.execute_plan(plan, nest, data, actual, tuple(tables))

    assert np.array_equal(actual, expected)
    assert done.writes == plan.writes
    assert done.source_keys + done.destination_keys > 0


def wide(limits: RequestLimits):
    """Token-major to NZ: a token's step is 2 bytes for each of 128 features and so many heads."""
    sizes = {"h": 256, "s": 3, "d": 128}
    nest = compile_nest(Layout.preset("token-major", sizes), Layout.preset("nz", sizes)).window("h", 0, 2)
    return nest, key_plans(nest, limits)[0]


def test_a_stride_of_seventeen_bits_is_refused_before_anything_is_made():
    nest, plan = wide(RequestLimits())

    assert plan.refused == "a stride of 65536 bytes; the device takes 65535 at most"
    with pytest.raises(TransportError, match="strided keys: a stride of 65536 bytes"):
        mlx5_model.execute_plan(plan, nest, bytes(nest.source.nbytes), bytearray(nest.destination.nbytes))


def test_were_it_not_refused_the_card_would_move_other_bytes():
    nest, plan = wide(RequestLimits(key_stride_bytes=1 << 20))
    data = np.random.default_rng(2).integers(0, 256, nest.source.nbytes, np.uint8)
    expected, actual = np.zeros((2, nest.destination.nbytes), np.uint8)
    nest.run(data, expected)
    mlx5_model.execute_plan(plan, nest, data, actual)

    assert not np.array_equal(actual, expected)


def test_more_pieces_than_a_work_request_carries_are_refused_by_plan_and_card():
    nest = compile_nest(
        *[Layout.preset(name, {"s": 64, "d": 32}) for name in ("row-major", "tiles-32x32")],
    )
    rows = Layout.parse("s d", {"s": 64, "d": 32})
    tall = compile_nest(rows, Layout.parse("s1 d1 s0 d0", {"s": 64, "d": 32, "s0": 64, "d0": 16}))
    interleaved = key_plans(tall, RequestLimits())[1]
    unchecked = key_plans(tall, RequestLimits(key_entries=64))[1]

    assert key_plans(nest, RequestLimits())[0].refused == ""
    assert interleaved.refused == "64 entries in turn; the device takes 51 at most"
    with pytest.raises(TransportError, match="64 entries; the work request takes 51"):
        mlx5_model.execute_plan(
            unchecked, tall, bytes(rows.nbytes), bytearray(rows.nbytes), limits=RequestLimits(key_entries=64)
        )


def test_a_piece_in_two_registrations_is_refused_with_the_remedy():
    sizes = {"h": 2, "s": 64, "d": 32}
    nest = compile_nest(Layout.preset("row-major", sizes), Layout.preset("nz", sizes))
    cut = nest.source.nbytes // 4
    source = KeyedMemory(0x10000, lambda offset: 1 + (offset >= cut))
    plan = key_plans(nest, RequestLimits())[0]

    with pytest.raises(TransportError, match=r"two registrations.*in larger parts"):
        list(streams(plan, source, KeyedMemory(0x20000, lambda _: 9)))


def test_a_card_refuses_what_a_key_does_not_allow():
    card, peer = mlx5_model.Card(), mlx5_model.Card()
    here = card.register(np.arange(64, dtype=np.uint8), 0x1000)
    there = peer.register(np.zeros(64, np.uint8), 0x2000)
    free = peer.create(4)

    for key, address, reason in [
        (there, 0x2000, "doesn't allow"),
        (free, 0, "doesn't reach"),
        (7, 0, "doesn't reach"),
    ]:
        with pytest.raises(TransportError, match=reason):
            card.write(peer, (here, 0x1000), (key, address), 16)
    with pytest.raises(TransportError, match="outside"):
        card.write(peer, (here, 0x1030), (there, 0x2000), 17)


@settings(max_examples=20, deadline=None)
@given(stride=st.integers(17, 80_000), tokens=st.integers(2, 4))
def test_a_stride_is_refused_exactly_where_the_card_would_move_other_bytes(stride, tokens):
    """32 bytes every `stride` elements: a 16-bit stride ends at 32,767 of them."""
    sizes = {"s": tokens, "d": 16}
    gaps = Layout.parse("s d", sizes, "float16", strides={"s": stride})
    nest = compile_nest(gaps, Layout.parse("s d", sizes, "float16"))
    data = np.random.default_rng(stride).integers(0, 256, nest.source.nbytes, np.uint8)
    expected, actual = np.zeros((2, nest.destination.nbytes), np.uint8)
    nest.run(data, expected)
    unchecked = key_plans(nest, RequestLimits(key_stride_bytes=1 << 30))[0]
    mlx5_model.execute_plan(unchecked, nest, data, actual)

    assert (key_plans(nest, RequestLimits())[0].refused == "") is np.array_equal(actual, expected)


def test_pieces_of_a_list_may_lie_in_several_registrations():
    sizes = {"l": 1, "c": 1, "h": 2, "s": 80, "d": 16}
    nest = compile_nest(Layout.preset("pages-hnd", sizes), Layout.preset("row-major", sizes))
    (plan,) = [plan for plan in key_plans(nest, RequestLimits()) if plan.name == "list"]
    page = nest.pages[0]
    source = KeyedMemory(0x10000, lambda offset: 1 + offset // page, np.array([3, 0, 4, 1, 2]), page)
    first = next(streams(plan, source, KeyedMemory(0x20000, lambda _: 9)))

    assert first.source.registration.entries["lkey"].tolist() == [4, 1, 5, 2, 3]
    assert first.source.registration.max_entries == 5
