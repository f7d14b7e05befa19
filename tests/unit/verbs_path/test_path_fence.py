"""Which fence a lease gets, and that its windows open the lease's bytes and no other."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.transports.verbs.fence import MOST_WINDOWS, FenceKind, choose_fence, footprint
from tests.unit.layouts.oracle import AXES, Side, grid
from tests.unit.layouts.strategies import layout, pairs

GEOMETRY = {"l": 4, "c": 2, "h": 4, "s": 64, "d": 32}
ROWS = Layout.parse("l c h s d", GEOMETRY)


@settings(max_examples=40)
@given(pairs())
def test_the_ranges_are_the_leases_bytes_and_no_other(pair: tuple[Side, Side]) -> None:
    source, destination = pair
    nest = compile_nest(layout(source, "float16"), layout(destination, "float16"))
    table = None if destination.table is None else np.asarray(destination.table, np.int64)

    ranges = footprint(nest, table)

    assert ranges is not None
    opened = [at for first, count in ranges for at in range(first, first + count)]
    boxes = {a: range(destination.window(a)[0], destination.padded(a)) for a in AXES}
    empty = any(destination.window(a)[0] == destination.window(a)[1] for a in AXES)
    elements = () if empty else np.unique(grid(destination, boxes).ravel())
    assert opened == [2 * int(e) + byte for e in elements for byte in (0, 1)]
    assert all(a + n < b for (a, n), (b, _) in pairwise(ranges)), "joined where they touch"


def test_a_whole_region_is_one_window_whatever_its_order_padding_included() -> None:
    tiles = Layout.parse("l c h s1 d1 s0 d0", GEOMETRY | {"s": 37, "s0": 16, "d0": 16})
    nest = compile_nest(Layout.parse("l c h s d", GEOMETRY | {"s": 37}), tiles)

    choice = choose_fence(nest, None, windows=1000)

    assert (choice.kind, choice.ranges) == (FenceKind.WINDOW, ((0, tiles.nbytes),))


@pytest.mark.parametrize(("pages", "kind"), [(8, FenceKind.WINDOW), (9, FenceKind.QUEUE_PAIR)])
def test_a_paged_lease_has_windows_up_to_the_bound(pages: int, kind: FenceKind) -> None:
    """Eight layers' and tensors' ranges a page; the bound is 64 a rail."""
    pool = Layout.parse("l c [s1] s0 h d", GEOMETRY | {"s1": 40, "s0": 16})
    request = pool.resize(s=16 * pages)
    nest = compile_nest(Layout.parse("l c h s d", GEOMETRY | {"s": 16 * pages}), request)

    choice = choose_fence(nest, np.arange(pages, dtype=np.int64) * 2, windows=1000)

    assert choice.kind is kind
    assert len(choice.ranges) == (MOST_WINDOWS if kind is FenceKind.WINDOW else 0)
    assert str(8 * pages) in choice.why


def test_pages_that_touch_need_one_window() -> None:
    pool = Layout.parse("[s1] l c s0 h d", GEOMETRY | {"s1": 40, "s0": 16})
    nest = compile_nest(ROWS, pool.resize(s=64))
    page = pool.nbytes // 40

    choice = choose_fence(nest, np.array([7, 6, 9, 8], np.int64), windows=1000)

    assert choice.ranges == ((6 * page, 4 * page),)


@given(st.integers(0, 63))
def test_a_device_with_too_few_windows_says_so(windows: int) -> None:
    pool = Layout.parse("l c [s1] s0 h d", GEOMETRY | {"s1": 40, "s0": 16})
    nest = compile_nest(ROWS.narrow("s", 0, 64), pool.resize(s=64))

    choice = choose_fence(nest, np.array([1, 3, 5, 7], np.int64), windows=windows)

    assert choice.kind is (FenceKind.WINDOW if windows >= 32 else FenceKind.QUEUE_PAIR)
    assert choice.why


def test_ranges_without_number_are_left_to_the_queue_pair() -> None:
    pool = Layout.parse(
        "l c [s1] s0 h d", {"l": 80, "c": 2, "h": 8, "s": 8_192, "d": 128, "s0": 16, "s1": 512}
    )
    nest = compile_nest(Layout.parse("l c h s d", {"l": 80, "c": 2, "h": 8, "s": 8_192, "d": 128}), pool)

    choice = choose_fence(nest, np.arange(512, dtype=np.int64), windows=1000)

    assert choice.kind is FenceKind.QUEUE_PAIR
    assert "over 65536" in choice.why
