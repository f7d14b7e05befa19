"""Any layout pair, over the data path: against an oracle that shares no code, sentinels included."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hawk_agent.transfer.translation import Selection, Translation
from hawk_agent.transports.verbs.strategy import VerbsStrategy
from tests.unit.layouts.oracle import AXES, Side, translate
from tests.unit.layouts.strategies import DTYPES, layout, pairs

from . import path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Port


class Runner:
    """One event loop with one pair of transports of two rails, for many examples."""

    def __init__(self, *devices: str) -> None:
        self.loop = asyncio.Runner()
        self._context = path.pair(devices, devices[::-1])
        self.pair = self.loop.run(self._context.__aenter__())

    def close(self) -> None:
        self.loop.run(self._context.__aexit__(None, None, None))
        self.loop.close()


@pytest.fixture(scope="module")
def runner(rxa: Port, rxb: Port) -> Iterator[Runner]:
    made = Runner(rxa.device, rxb.device)
    yield made
    made.close()


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    sides=pairs(),
    dtype=st.sampled_from(sorted(DTYPES)),
    way=st.sampled_from(
        [VerbsStrategy.GATHER, VerbsStrategy.TILE_FIRST, VerbsStrategy.SCATTER, VerbsStrategy.TILE_LAST]
    ),
    seed=st.integers(0, 99),
)
def test_any_pair_over_any_way(
    runner: Runner, sides: tuple[Side, Side], dtype: str, way: VerbsStrategy, seed: int
) -> None:
    source, destination = sides
    here, there = layout(source, dtype), layout(destination, dtype)
    moved = Translation(
        Selection(here, tuple(source.table or ())), Selection(there, tuple(destination.table or ()))
    )
    if any(source.window(axis)[0] == source.window(axis)[1] for axis in AXES):
        return  # nothing to move is no transfer over a data path
    runner.pair.sender.strategy = way
    kind = DTYPES[dtype]
    with path.region(here, seed=seed) as one, path.region(there, spare=64 * here.itemsize) as other:
        data, before = (np.frombuffer(bytes(r.memory), kind) for r in (one, other))
        right = translate(source, destination, data, before)
        runner.loop.run(runner.pair.move(moved, one, other, 1))

        assert bytes(other.memory) == right.tobytes()
