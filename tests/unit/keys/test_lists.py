"""Descriptor lists, carried out piece by piece, against a translation worked out index by index."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hawk_agent.layouts import Layout, compile_nest, engines
from hawk_agent.plans import lists
from tests.unit.layouts.oracle import translate
from tests.unit.layouts.strategies import DTYPES, layout, pairs

NONE = np.zeros(0, np.int64)


def fetch(batch, source: np.ndarray, target: np.ndarray) -> None:
    for here, there, nbytes in zip(batch.source, batch.target, batch.lengths, strict=True):
        target[there : there + nbytes] = source[here : here + nbytes]


def bounce(nest, source, destination, tables, room: int, most: int) -> int:
    """Through a buffer of exactly `room` bytes; returns how many descriptors that took."""
    count, buffer = 0, np.zeros(room, np.uint8)
    to = NONE if tables[1] is None else tables[1]
    for batch in lists.bounced(nest, tables[0], room, most):
        buffer[:] = 0xEE
        fetch(batch, source, buffer)
        engines.copy(engines.prepare(batch.programs), buffer, destination, (NONE, to), (0, nest.pages[1]))
        count += len(batch.lengths)
        assert len(batch.lengths) <= most
    return count


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pair=pairs(),
    dtype=st.sampled_from(sorted(DTYPES)),
    seed=st.integers(0, 2**32),
    room=st.sampled_from([8, 40, 512, 1 << 20]),
    most=st.sampled_from([1, 3, 1 << 14]),
)
def test_any_layout_becomes_any_other_through_lists(pair, dtype, seed, room, most):
    source, destination = pair
    rng, kind = np.random.default_rng(seed), DTYPES[dtype]
    data = rng.integers(1, np.iinfo(kind).max, source.elements(), dtype=kind)
    before = rng.integers(1, np.iinfo(kind).max, destination.elements(), dtype=kind)
    expected = translate(source, destination, data, before)
    nest = compile_nest(layout(source, dtype), layout(destination, dtype))
    tables = tuple(None if side.table is None else np.array(side.table, np.int64) for side in pair)

    direct = before.copy()
    for batch in lists.direct(nest, tables, room, most):
        fetch(batch, data.view(np.uint8), direct.view(np.uint8))
        assert len(batch.lengths) <= most
    bounced = before.copy()
    bounce(nest, data.view(np.uint8), bounced.view(np.uint8), tables, room, most)
    for result in (direct, bounced):
        nest.zero_padding(result, destination_blocks=destination.table)

        assert np.array_equal(result, expected)


@pytest.mark.parametrize(
    ("source", "target", "few"),
    [("row-major", "tiles-16x16", 16), ("pages-hnd", "tiles-16x16", 5 * 4), ("row-major", "pages-nhd", 16)],
)
def test_a_buffer_makes_few_descriptors_of_many_runs(source, target, few):
    sizes = {"l": 2, "c": 2, "h": 2, "s": 80, "d": 128}
    nest = compile_nest(Layout.preset(source, sizes), Layout.preset(target, sizes))
    data = np.random.default_rng(1).integers(0, 256, nest.source.nbytes, np.uint8)
    sides = (nest.source, nest.destination)
    tables = tuple(None if side.table is None else np.array([3, 0, 4, 1, 2]) for side in sides)
    expected, actual = np.zeros((2, nest.destination.nbytes), np.uint8)
    nest.run(data, expected, source_blocks=tables[0], destination_blocks=tables[1])

    assert bounce(nest, data, actual, tables, 1 << 20, lists.DESCRIPTORS) <= few
    assert np.array_equal(actual, expected)
    assert sum(len(batch.lengths) for batch in lists.direct(nest, tables, 1 << 20)) > 4 * few
