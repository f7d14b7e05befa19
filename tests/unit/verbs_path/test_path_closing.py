"""A device that takes its time over destroying a queue pair holds nobody up, and loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.rdma import path
from tests.rdma.test_path_faults import ROWS, TILES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hawk_agent.transports.verbs.lane import Lane
    from tests.rdma.conftest import Port
    from tests.unit.verbs.fake import Fake


@pytest.fixture
async def lane(model: Fake, rxa: Port, rxb: Port) -> AsyncIterator[Lane]:
    """A connected lane of a receiver."""
    moved = path.translation(ROWS, TILES)
    with path.region(ROWS, seed=1) as source, path.region(TILES) as destination:
        async with path.pair([rxa.device], [rxb.device]) as pair:
            sending, receiving = await pair.open(moved, source, destination)
            yield receiving.lanes[0]
            model.knobs.held = 0
            await receiving.stop()
            await sending.close()


async def test_the_event_loop_goes_on_meanwhile(model: Fake, lane: Lane) -> None:
    model.knobs.held = 1
    closing = asyncio.create_task(lane.close())
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert not closing.done()

    model.knobs.held = 0
    await closing
    with pytest.raises(ValueError, match="closed"):
        lane.queue.raw.to_error()


async def test_a_cancelled_close_is_waited_for_by_the_next(model: Fake, lane: Lane) -> None:
    opened = model.seen.open
    model.knobs.held = 1
    first = asyncio.create_task(lane.close())
    await asyncio.sleep(0.02)
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    second = asyncio.create_task(lane.close())
    await asyncio.sleep(0.02)
    assert not second.done()

    model.knobs.held = 0
    await second
    assert model.seen.open < opened
    await lane.close()
