"""Every transfer is compared with what the cost model said of it."""

from __future__ import annotations

import pytest

from hawk_agent.transports.calibration import machine_costs
from tests.unit.agent.house import (
    House,
    transfer_all,
)


@pytest.mark.parametrize(("transport", "strategy"), [("shm", "fused-copy"), ("tcp", "tile-then-send")])
async def test_a_transfer_is_counted_with_its_prediction(house: House, transport: str, strategy: str) -> None:
    source, destination = await house.pair(transport)
    await transfer_all(source, destination)

    samples = house.agents["npu"].metrics.registry.get_sample_value
    labels = {"transport": transport, "strategy": strategy}
    assert samples("hawk_agent_predicted_over_measured_count", labels) == 2, "the proof of the link and this"
    assert (samples("hawk_agent_predicted_over_measured_sum", labels) or 0) > 0
    done = {"side": "receive", "transport": transport, "outcome": "success"}
    assert samples("hawk_agent_transfers_total", done) == 2


def test_prices_are_measured_once() -> None:
    assert machine_costs() is machine_costs()
    assert machine_costs().calibrated
