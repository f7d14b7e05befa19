"""Any task of an agent may be cancelled at any of its waits: transfers still end once, alike on both ends.

A sample of the waits is cut here, one in 41 or 17; `make soak-cancelled` cuts each.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.unit.agent.cutting import Cutter, alive
from tests.unit.agent.interleavings import SCENARIOS, Pair, cut_waits, descriptors, transfer_unharmed

if TYPE_CHECKING:
    from tests.unit.agent.house import House


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_task_may_be_cancelled_at_its_waits(house: House, scenario: str) -> None:
    assert await cut_waits(house, "shm", scenario, 41) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_task_may_be_cancelled_at_its_waits_over_a_connection(house: House, scenario: str) -> None:
    assert await cut_waits(house, "tcp", scenario, 17) >= 5


@pytest.mark.slow
async def test_tasks_that_wait_all_the_time_may_be_cancelled(house: House) -> None:
    """Listeners, the tick, links, connections: whatever waits is cancelled where it waits."""
    cutter = Cutter()
    cutter.install()
    pair = Pair(house, "tcp")
    await pair.start()
    house.stack.push_async_callback(pair.close)
    await transfer_unharmed(pair)
    await pair.quiet()
    pair.tasks, pair.files = len(alive()), descriptors()
    for number in range(len(alive())):
        waiting = sorted(alive(), key=lambda task: task.get_name())
        if number < len(waiting):
            waiting[number].cancel()
            await asyncio.wait([waiting[number]], timeout=1)
            await asyncio.sleep(0.05)
        await pair.quiet()
        await transfer_unharmed(pair)
