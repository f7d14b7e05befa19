"""Every wait of every task of the agents is cut off, one a run (`make soak-cancelled`, some minutes)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.unit.agent.house import house
from tests.unit.agent.interleavings import SCENARIOS, cut_waits

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_any_task_may_be_cancelled_at_any_wait(transport: str, scenario: str) -> None:
    with tempfile.TemporaryDirectory(prefix="hawk-") as folder:
        async with house(Path(folder)) as agents:
            runs = await cut_waits(agents, transport, scenario, 1)
    print(f"{scenario} over {transport}: {runs} interleavings")
    assert runs > 100
