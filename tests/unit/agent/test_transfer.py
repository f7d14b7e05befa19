"""A transfer from one engine's memory to another's, through two agents."""

from __future__ import annotations

import os

import pytest

from hawk_agent.client import layer_events
from hawk_agent.transfer.outcome import TransferOutcome
from tests.unit.agent.house import House, off, transfer_all, translated

TRANSPORTS = ["shm", "tcp"]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_bytes_arrive_translated_and_both_sides_say_success(house: House, transport: str) -> None:
    source, destination = await house.pair(transport)
    sent, received = await transfer_all(source, destination)

    assert sent.nbytes == received.nbytes == len(source.memory)
    assert sent.digest == received.digest != b""
    assert [chunk.first_layer for chunk in sent.chunks] == [0, 2, 4]
    assert sent.transport == transport


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_layers_stream_as_their_events_fire(house: House, transport: str) -> None:
    source, destination = await house.pair(transport)
    lease = await off(destination.engine.reserve, "kv", "r1")
    events = layer_events(6)
    transfer = await off(source.engine.push, lease.ticket, "kv", 2, events)
    for event in events[:2]:
        os.eventfd_write(event, 1)
    first = await off(destination.engine.wait, lease, 1)
    for event in events[2:]:
        os.eventfd_write(event, 1)
    last = await off(destination.engine.wait, lease, 5)
    await off(destination.engine.acknowledge, lease)
    result = await off(transfer.result)
    for event in events:
        os.close(event)

    assert (first.present, first.complete) == (2, False)
    assert last.complete
    assert result.outcome is TransferOutcome.SUCCESS
    assert result.hidden_share >= 1 / 3
    assert bytes(destination.memory) == translated(source, destination)
