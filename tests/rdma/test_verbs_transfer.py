"""Our verbs on a real provider: every byte compared, with sentinels round the destination."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.transports.verbs import device
from hawk_agent.transports.verbs.queue_pair import Timeouts
from tests.unit.layouts.oracle import translate
from tests.unit.layouts.strategies import DTYPES, layout, pairs
from tests.unit.verbs.ends import Pair, transfer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Port

GUARD = 4096
PATIENT = Timeouts(ack=18, retries=6)
SWEEP = [
    *(1, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 1444, 1445, 4095, 4096, 4097, 8191, 8192, 8193),
    *(65535, 65536, 65537, (1 << 20) + 1),
]


def infos(*ports: Port) -> list[device.DeviceInfo]:
    found = {info.name: info for info in device.discover_devices()}
    return [found[port.device] for port in ports]


@pytest.fixture(scope="module")
def ends(rxa: Port, rxb: Port) -> Iterator[Pair]:
    made = Pair.make(infos(rxa, rxb), depth=128, timeouts=PATIENT)
    yield made
    made.close()


def test_devices_are_found_with_their_routable_address(rxa: Port, rxb: Port):
    for port, info in zip((rxa, rxb), infos(rxa, rxb), strict=True):
        assert info.address == f"::ffff:{port.address}"
        assert info.active_mtu == 4096
        assert info.state == "active"
        assert info.limits.max_sge == 32
        assert info.limits.max_mw > 0
        assert info.warnings == ()


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    sides=pairs(),
    dtype=st.sampled_from(sorted(DTYPES)),
    seed=st.integers(0, 2**32),
    direction=st.sampled_from(["write", "read"]),
)
def test_any_layout_becomes_any_other(ends: Pair, sides, dtype, seed, direction):
    source, destination = sides
    kind = DTYPES[dtype]
    rng = np.random.default_rng(seed)
    data = rng.integers(1, np.iinfo(kind).max, max(1, source.elements()), dtype=kind)
    memory = rng.integers(1, np.iinfo(kind).max, destination.elements() + 2 * GUARD, dtype=kind)
    expected = memory.copy()
    inside = expected[GUARD : GUARD + destination.elements()]
    inside[:] = translate(source, destination, data, inside)
    nest = compile_nest(layout(source, dtype), layout(destination, dtype))
    target = memory[GUARD : GUARD + max(1, destination.elements())]
    transfer(ends, nest, data, target, blocks=(source.table, destination.table), direction=direction)
    nest.zero_padding(memory[GUARD : GUARD + destination.elements()], destination_blocks=destination.table)

    assert np.array_equal(memory, expected)


@pytest.mark.parametrize("direction", ["write", "read"])
@pytest.mark.parametrize("nbytes", SWEEP)
def test_every_size_arrives_whole_and_alone(ends: Pair, nbytes: int, direction: str):
    line = Layout.parse("d", {"d": nbytes}, "int8")
    rng = np.random.default_rng(nbytes)
    data = rng.integers(0, 256, nbytes, dtype=np.uint8)
    memory = rng.integers(0, 256, nbytes + 2 * GUARD, dtype=np.uint8)
    expected = memory.copy()
    expected[GUARD : GUARD + nbytes] = data
    transfer(ends, compile_nest(line, line), data, memory[GUARD : GUARD + nbytes], direction=direction)

    assert np.array_equal(memory, expected)


@pytest.mark.parametrize("direction", ["write", "read"])
def test_lists_are_filled_to_32_pieces_and_never_to_33(ends: Pair, direction: str):
    sizes = {"h": 1, "s": 64, "d": 64}
    rows, tiles = Layout.preset("row-major", sizes), Layout.preset("tiles-16x16", sizes)
    data = np.random.default_rng(1).integers(0, 1 << 16, 64 * 64, dtype=np.uint16)
    landed, expected = np.zeros_like(data), np.zeros_like(data)
    nest = compile_nest(rows, tiles)
    nest.run(data, expected)
    posting = transfer(ends, nest, data, landed, direction=direction)

    assert np.array_equal(landed, expected)
    assert posting.requests >= posting.pieces / 32
    if direction == "write":  # 256 runs in one contiguous destination, less the few that join
        assert posting.requests == -(-posting.pieces // 32)


def test_a_chain_of_ten_thousand_requests(ends: Pair):
    """Columns of 10,000 rows: each row is a run of its own at the destination, with a gap after it."""
    rows = 10_000
    source = Layout.parse("s d", {"s": rows, "d": 8}, "int8")
    spread = Layout.parse("s d", {"s": rows, "d": 8}, "int8", strides={"s": 12})
    data = np.random.default_rng(2).integers(0, 256, source.nbytes, dtype=np.uint8)
    landed = np.full(spread.nbytes, 7, np.uint8)
    expected = landed.copy()
    nest = compile_nest(source, spread)
    nest.run(data, expected)
    before = ends.a.queue.raw.posted
    posting = transfer(ends, nest, data, landed, seconds=120)

    assert np.array_equal(landed, expected)
    assert posting.requests == ends.a.queue.raw.posted - before == rows
    assert ends.a.queue.outstanding == 0
