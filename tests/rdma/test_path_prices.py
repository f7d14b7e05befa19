"""What the cost model says of each way and what it took, in one run; printed: an emulated guest is noisy."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hawk_agent.layouts import Layout
from hawk_agent.streaming import chunks as chunking
from hawk_agent.transports.verbs.strategy import Way

from . import path

if TYPE_CHECKING:
    import pytest

    from .conftest import Port

GEOMETRY = {"l": 2, "c": 2, "h": 4, "s": 256, "d": 64}
ROWS = Layout.parse("l c h s d", GEOMETRY)
TILES = Layout.parse("l c h s1 d1 s0 d0", GEOMETRY | {"s0": 16, "d0": 16})
ROUNDS = 3


async def test_each_way_moves_the_same_bytes_and_is_compared_with_its_prediction(
    rxa: Port, rxb: Port, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    with path.region(ROWS, seed=1) as source, path.region(TILES) as destination:
        async with path.pair([rxa.device], [rxb.device], costs=None) as pair:
            for way in [Way.CONTIGUOUS, Way.GATHER, Way.TILE_FIRST, Way.SCATTER, Way.TILE_LAST]:
                target = ROWS if way is Way.CONTIGUOUS else TILES
                moved = path.translation(ROWS, target)
                pair.sender.strategy = way
                predicted = pair.sender.decide(moved, rails=1).seconds
                taken = [await timed(pair, moved, source, destination) for _ in range(ROUNDS)]

                assert bytes(destination.memory) == path.expected(moved, source, destination.nbytes)
                best = min(taken)
                lines.append(
                    f"    {way.value:15} {moved.nbytes:9,} bytes   predicted {predicted * 1e3:8.1f} ms   "
                    f"measured {best * 1e3:8.1f} ms   predicted/measured {predicted / best:5.2f}"
                )
    with capsys.disabled():
        print("", *lines, sep="\n")


async def timed(
    pair: path.Pair, moved: path.Translation, source: path.Region, destination: path.Region
) -> float:
    """Seconds of moving one chunk, connecting and ending not counted."""
    sending, receiving = await pair.open(moved, source, destination)
    try:
        began = time.perf_counter()
        await path.both(sending, receiving, chunking.plan(moved.layers, 0)[0])
        return time.perf_counter() - began
    finally:
        await receiving.stop()
        await sending.close()
