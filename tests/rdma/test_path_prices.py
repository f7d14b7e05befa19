"""Each way's predicted and measured time in one run; printed only: an emulated guest is noisy.

The model is calibrated on half the bytes as they are, gathered, and scattered: an agent measures a card with
itself, which says less of a wire that is made of the same processor's time.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from hawk_agent.layouts import Layout
from hawk_agent.plans import Costs, RequestLimits, calibrate_costs, gather_writes, scatter_reads
from hawk_agent.transfer import chunks as chunking
from hawk_agent.transports.verbs.strategy import VerbsStrategy

from . import path

if TYPE_CHECKING:
    import pytest

    from .conftest import Port

ROUNDS = 3


def layouts(layers: int) -> tuple[Layout, Layout]:
    """Rows, and tiles."""
    sizes = {"l": layers, "c": 2, "h": 4, "s": 256, "d": 64}
    rows = Layout.parse("l c h s d", sizes)
    return rows, Layout.parse("l c h s1 d1 s0 d0", sizes | {"s0": 16, "d0": 16})


ROWS, TILES = layouts(layers=2)


async def test_each_way_moves_the_same_bytes_and_is_compared_with_its_prediction(
    rxa: Port, rxb: Port, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    with path.region(ROWS, seed=1) as source, path.region(TILES) as destination:
        costs = await calibrated(rxa, rxb)
        async with path.pair([rxa.device], [rxb.device], costs=costs) as pair:
            for way in [
                VerbsStrategy.CONTIGUOUS,
                VerbsStrategy.GATHER,
                VerbsStrategy.TILE_FIRST,
                VerbsStrategy.SCATTER,
                VerbsStrategy.TILE_LAST,
            ]:
                target = ROWS if way is VerbsStrategy.CONTIGUOUS else TILES
                moved = path.translation(ROWS, target)
                pair.sender.strategy = way
                predicted = pair.sender.decide(moved, rails=1).seconds
                best = await quickest(pair, moved, source, destination)

                assert bytes(destination.memory) == path.expected(moved, source, destination.nbytes)
                lines.append(
                    f"    {way.value:15} {moved.nbytes:9,} bytes   predicted {predicted * 1e3:8.1f} ms   "
                    f"measured {best * 1e3:8.1f} ms   predicted/measured {predicted / best:5.2f}"
                )
    with capsys.disabled():
        print("", *lines, sep="\n")


async def calibrated(rxa: Port, rxb: Port) -> Costs:
    """Costs of a byte, a piece and a read on this wire, from half the bytes; the copy's as it is here."""
    rows, tiles = layouts(layers=1)
    with path.region(rows, seed=1) as source, path.region(tiles) as destination:
        async with path.pair([rxa.device], [rxb.device]) as pair:
            pair.sender.strategy = VerbsStrategy.CONTIGUOUS
            link = rows.nbytes / await quickest(pair, path.translation(rows, rows), source, destination)
            pair.sender.strategy = VerbsStrategy.GATHER
            gathered = path.translation(rows, tiles)
            pieces = gather_writes(gathered.nest, RequestLimits(max_sge=32)).sges
            piece = await quickest(pair, gathered, source, destination) / pieces
            pair.sender.strategy = VerbsStrategy.SCATTER
            reads = scatter_reads(gathered.nest, RequestLimits(max_sge=32))
            scattered = await quickest(pair, gathered, source, destination)
    return replace(
        calibrate_costs(),
        link_bytes_per_s=link,
        sge_seconds=piece,
        request_seconds=1e-9,
        read_request_seconds=max((scattered - reads.sges * piece) / reads.work_requests, 1e-9),
    )


async def quickest(
    pair: path.Pair, moved: path.Translation, source: path.Region, destination: path.Region
) -> float:
    """Seconds of the best of some rounds."""
    return min([await timed(pair, moved, source, destination) for _ in range(ROUNDS)])


async def timed(
    pair: path.Pair, moved: path.Translation, source: path.Region, destination: path.Region
) -> float:
    """Seconds of moving one chunk, connecting and ending not counted."""
    sending, receiving = await pair.open(moved, source, destination)
    try:
        began = time.perf_counter()
        await path.both(sending, receiving, chunking.plan_chunks(moved.layers, 0)[0])
        return time.perf_counter() - began
    finally:
        await receiving.stop()
        await sending.close()
