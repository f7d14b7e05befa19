"""Every way over verbs puts the right bytes where they belong, and not one elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from hawk_agent.layouts import Layout
from hawk_agent.transports.verbs.fence import FenceKind
from hawk_agent.transports.verbs.strategy import VerbsStrategy

from . import path

if TYPE_CHECKING:
    from .conftest import Port

GEOMETRY = {"l": 4, "c": 2, "h": 2, "s": 37, "d": 32}
ROWS = Layout.parse("l c h s d", GEOMETRY)
TILES = Layout.parse("l c h s1 d1 s0 d0", GEOMETRY | {"s0": 16, "d0": 16})


@pytest.mark.parametrize("fence", list(FenceKind))
@pytest.mark.parametrize("way", [way for way in VerbsStrategy if way is not VerbsStrategy.CONTIGUOUS])
async def test_each_way_translates(rxa: Port, rxb: Port, way: VerbsStrategy, fence: FenceKind) -> None:
    moved = path.translation(ROWS, TILES)
    with path.region(ROWS, seed=1) as source, path.region(TILES, spare=4096) as destination:
        async with path.pair([rxa.device], [rxb.device], strategy=way, fence=fence) as pair:
            _, receiving = await pair.move(moved, source, destination, chunk_layers=2)

            assert bytes(destination.memory) == path.expected(moved, source, destination.nbytes)
            assert receiving.strays == 0


async def test_transfers_in_both_directions_at_once_keep_apart(rxa: Port, rxb: Port) -> None:
    """Connects that cross, immediates of several transfers, one port at each end."""
    moved = path.translation(ROWS, TILES)
    async with path.pair([rxa.device], [rxb.device]) as there:
        back = path.Pair(there.receiver, there.sender, there.metrics)
        with contextlib.ExitStack() as stack:
            sources = [stack.enter_context(path.region(ROWS, seed=seed)) for seed in range(4)]
            destinations = [stack.enter_context(path.region(TILES, spare=256)) for _ in sources]
            ends = await asyncio.gather(
                *(
                    pair.move(moved, source, destination, chunk_layers=1)
                    for pair, source, destination in zip(
                        [there, back] * 2, sources, destinations, strict=True
                    )
                )
            )

            for source, destination in zip(sources, destinations, strict=True):
                assert bytes(destination.memory) == path.expected(moved, source, destination.nbytes)
            assert [receiving.strays for _, receiving in ends] == [0] * 4
