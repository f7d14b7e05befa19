"""Failures in the middle of a transfer: one outcome on both sides, nothing kept for ever."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

import pytest

from hawk_agent.client import layer_events
from hawk_agent.errors import (
    BadRequestError,
    BlocksBusyError,
    EventsRequiredError,
    LayoutMismatchError,
    NotWiredError,
    StaleEpochError,
    TransferFailedError,
)
from hawk_agent.protocol import engine_pb2
from hawk_agent.streaming.lease import LeaseState
from hawk_agent.transfer.outcome import TransferOutcome
from tests.support.faults import FAULTS, faulty
from tests.support.mock_transport import MockTransport
from tests.unit.agent.house import (
    GEOMETRY,
    PAGES,
    ROWS,
    TILE,
    TILES,
    House,
    eventually,
    off,
    transfer_all,
    translated,
)

if TYPE_CHECKING:
    from hawk_agent.transfer.chunks import Chunk

TRANSPORTS = ["shm", "tcp"]


def counter(agent: object, name: str, **labels: str) -> float:
    return agent.metrics.registry.get_sample_value(f"hawk_agent_{name}", labels) or 0.0  # type: ignore[attr-defined]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_abort_of_the_prefill_side_frees_the_decode_side(house: House, transport: str) -> None:
    source, destination = await house.pair(transport)
    events = layer_events(6)
    lease = await off(destination.engine.reserve, "kv", "r1")
    transfer = await off(source.engine.push, lease.ticket, "kv", 1, events)
    os.eventfd_write(events[0], 1)
    await off(destination.engine.wait, lease, 0)
    sent = await off(transfer.abort, "request cancelled")
    with pytest.raises(TransferFailedError) as caught:
        await off(destination.engine.wait, lease, 5)
    again = await off(destination.engine.reserve, "kv", "r2")
    for event in events:
        os.close(event)

    assert sent.outcome is caught.value.outcome is TransferOutcome.ABORTED_BY_SENDER
    assert "request cancelled" in str(caught.value)
    assert again.id != lease.id


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_release_of_the_decode_side_ends_the_prefill_side(house: House, transport: str) -> None:
    source, destination = await house.pair(transport)
    events = layer_events(6)
    lease = await off(destination.engine.reserve, "kv", "r1")
    transfer = await off(source.engine.push, lease.ticket, "kv", 1, events)
    os.eventfd_write(events[0], 1)
    await off(destination.engine.wait, lease, 0)
    released = await off(destination.engine.release, lease)
    sent = await off(transfer.result)
    for event in events:
        os.close(event)

    assert sent.outcome is released.outcome is TransferOutcome.ABORTED_BY_RECEIVER


async def test_blocks_are_not_handed_out_before_the_writer_has_stopped(house: House) -> None:
    """Half way through a transfer the lease is given back while a copy still runs."""
    path = MockTransport()
    running, go_on = asyncio.Event(), asyncio.Event()

    async def hold(chunk: Chunk) -> None:
        if destination.name == "kv" and chunk.index == 1:
            running.set()
            await go_on.wait()

    await house.agent("gpu", path.registry(), transports=("mock",))
    await house.agent("npu", path.registry(), transports=("mock",))
    await house.wire(("gpu", "npu"))
    sizes = {"l": 4, "c": 2, "h": 2, "s0": 16, "s1": 64, "d": 32}
    source = await house.cache(await house.engine("gpu"), "kv", PAGES, sizes, "prefill")
    destination = await house.cache(await house.engine("npu"), "kv", PAGES, sizes, "decode")
    path.before_receive = hold
    blocks = list(range(14, 45))
    window = {"s": (0, 31 * 16)}
    lease = await off(destination.engine.reserve, "kv", "r1", blocks=blocks, windows=window)
    transfer = await off(
        source.engine.push, lease.ticket, "kv", 2, all_complete=True, blocks=list(range(31)), windows=window
    )
    await running.wait()
    agent = house.agents["npu"]
    thread = asyncio.Event()
    held = agent.table.get(lease.id)
    stop = agent.receiver._incoming[lease.id]._end.stop  # type: ignore[union-attr]

    async def slow_stop() -> None:
        await thread.wait()
        await stop()

    agent.receiver._incoming[lease.id]._end.stop = slow_stop  # type: ignore[union-attr,method-assign]
    releasing = asyncio.create_task(off(destination.engine.release, lease))  # type: ignore[arg-type]
    await eventually(lambda: held.lease.state.ended)
    for block in (14, 44):
        with pytest.raises(BlocksBusyError, match=f"block {block} is held"):
            await off(destination.engine.reserve, "kv", "r2", blocks=[block], windows={"s": (0, 16)})
    elsewhere = await off(destination.engine.reserve, "kv", "r3", blocks=[45], windows={"s": (0, 16)})
    thread.set()
    go_on.set()
    await releasing
    again = await off(destination.engine.reserve, "kv", "r4", blocks=blocks, windows=window)

    assert (await off(transfer.result)).outcome is TransferOutcome.ABORTED_BY_RECEIVER
    assert len({lease.id, elsewhere.id, again.id}) == 3


@pytest.mark.parametrize(("side", "outcome"), [("send", "transport-failed"), ("receive", "transport-failed")])
async def test_one_chunk_that_fails_fails_the_transfer_on_both_sides_and_the_link_recovers(
    house: House, side: str, outcome: str
) -> None:
    path = MockTransport()
    await house.agent("gpu", path.registry(), transports=("mock",))
    await house.agent("npu", path.registry(), transports=("mock",))
    await house.wire(("gpu", "npu"))
    geometry = GEOMETRY | {"l": 20}
    source = await house.cache(await house.engine("gpu"), "kv", ROWS, geometry, "prefill")
    destination = await house.cache(await house.engine("npu"), "kv", TILES, geometry | TILE, "decode")
    source.fill(3)
    if side == "send":
        path.fail_send = path.sends + 7
    else:
        path.fail_receive = path.receives + 7
    lease = await off(destination.engine.reserve, "kv", "r1")
    transfer = await off(source.engine.push, lease.ticket, "kv", 1, all_complete=True)
    sent = await off(transfer.result)
    with pytest.raises(TransferFailedError) as caught:
        await off(destination.engine.wait, lease, 19)

    assert sent.outcome is caught.value.outcome is TransferOutcome.TRANSPORT_FAILED
    assert "chunk 6" in sent.message
    assert counter(house.agents["gpu"], "transfers_failed_total", side="send", reason=outcome) == 1
    assert counter(house.agents["npu"], "transfers_failed_total", side="receive", reason=outcome) == 1
    assert len(house.agents["npu"].table) == 0

    # One error marks nothing for good: the pair is proved again, and the next transfer is right.
    await house.verified("gpu", "npu")
    await transfer_all(source, destination)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_bytes_that_are_wrong_are_never_a_success(house: House, transport: str, fault: str) -> None:
    source, destination = await house.pair(transport, registry=faulty(fault))
    lease = await off(destination.engine.reserve, "kv", "r1")
    transfer = await off(source.engine.push, lease.ticket, "kv", 2, all_complete=True)
    sent = await off(transfer.result)
    with pytest.raises(TransferFailedError) as caught:
        await off(destination.engine.wait, lease, 5)

    assert sent.outcome is caught.value.outcome is TransferOutcome.DIGEST_MISMATCH
    assert "the source has digest" in sent.message


async def test_an_engine_that_goes_away_ends_its_transfers_and_its_regions_go(house: House) -> None:
    source, destination = await house.pair("shm")
    events = layer_events(6)
    lease = await off(destination.engine.reserve, "kv", "r1")
    transfer = await off(source.engine.push, lease.ticket, "kv", 1, events)
    os.eventfd_write(events[0], 1)
    await off(destination.engine.wait, lease, 0)  # under way, so that there is something to lose
    await off(destination.engine.close)
    sent = await off(transfer.result)
    for event in events:
        os.close(event)

    assert sent.outcome is TransferOutcome.ENGINE_LOST
    await eventually(lambda: len(house.agents["npu"].regions) == 0)
    assert len(house.agents["npu"].table) == 0


async def test_a_push_without_events_is_only_allowed_when_everything_is_in_memory(house: House) -> None:
    source, destination = await house.pair("shm")
    lease = await off(destination.engine.reserve, "kv", "r1")
    with pytest.raises(EventsRequiredError, match="all_complete"):
        await off(source.engine.push, lease.ticket, "kv", 2)
    read, write = os.pipe()
    with pytest.raises(EventsRequiredError, match="must be an eventfd"):
        await off(source.engine.push, lease.ticket, "kv", 0, [read])
    os.close(read)
    os.close(write)


async def test_bytes_written_after_the_call_but_before_the_event_are_the_bytes_that_arrive(
    house: House,
) -> None:
    source, destination = await house.pair("shm")
    events = layer_events(1)
    lease = await off(destination.engine.reserve, "kv", "r1")
    transfer = await off(source.engine.push, lease.ticket, "kv", 0, events)
    source.fill(99)
    os.eventfd_write(events[0], 1)
    await off(destination.engine.wait, lease, 5)
    await off(destination.engine.acknowledge, lease)
    result = await off(transfer.result)
    os.close(events[0])

    assert result.outcome is TransferOutcome.SUCCESS
    assert bytes(destination.memory) == translated(source, destination)


async def test_an_agent_that_stood_still_does_not_take_that_for_the_silence_of_others(house: House) -> None:
    """Both agents live in this process: while it is busy elsewhere, neither can hear or say a word."""
    source, destination = await house.pair("tcp", stall=1.5)
    events = layer_events(6)
    lease = await off(destination.engine.reserve, "kv", "r1")
    transfer = await off(source.engine.push, lease.ticket, "kv", 1, events)
    os.eventfd_write(events[0], 1)
    await off(destination.engine.wait, lease, 0)
    time.sleep(2.2)  # noqa: ASYNC251 -- the loop itself has to stand still
    for event in events[1:]:
        os.eventfd_write(event, 1)
    await off(destination.engine.wait, lease, 5)
    await off(destination.engine.acknowledge, lease)
    result = await off(transfer.result)
    for event in events:
        os.close(event)

    assert result.outcome is TransferOutcome.SUCCESS
    assert bytes(destination.memory) == translated(source, destination)


async def test_nothing_to_move_is_a_success_that_lets_the_source_go_at_once(house: House) -> None:
    source, destination = await house.pair("tcp")
    lease = await off(destination.engine.reserve, "kv", "r1", empty=True)
    transfer = await off(source.engine.push, lease.ticket, "kv")
    result = await off(transfer.result)
    layers = await off(destination.engine.wait, lease, 5)
    acknowledged = await off(destination.engine.acknowledge, lease)

    assert (result.outcome, result.nbytes, result.chunks) == (TransferOutcome.SUCCESS, 0, ())
    assert acknowledged.outcome is TransferOutcome.SUCCESS
    assert layers.complete
    assert bytes(destination.memory) == b"\xee" * len(destination.memory)


async def test_acknowledging_twice_and_releasing_afterwards_changes_nothing(house: House) -> None:
    source, destination = await house.pair("shm")
    lease = await off(destination.engine.reserve, "kv", "r1")
    transfer = await off(source.engine.push, lease.ticket, "kv", all_complete=True)
    await off(destination.engine.wait, lease, 5)
    ends = [await off(destination.engine.acknowledge, lease) for _ in range(2)]
    ends.append(await off(destination.engine.release, lease))
    ends += [await off(transfer.result), await off(transfer.abort)]

    assert {end.outcome for end in ends} == {TransferOutcome.SUCCESS}
    done = {"transport": "shm", "outcome": "success"}
    assert counter(house.agents["npu"], "transfers_total", side="receive", **done) == 2, "with the canary"
    assert counter(house.agents["gpu"], "transfers_total", side="send", **done) == 1


async def test_layouts_that_do_not_fit_are_refused_before_the_first_byte_and_the_lease_is_free(
    house: House,
) -> None:
    source, _ = await house.pair("shm")
    engine = await house.engine("npu")
    other = await house.cache(engine, "other", TILES, GEOMETRY | TILE | {"h": 3}, "decode")
    other.clear()
    lease = await off(engine.reserve, "other", "r1")
    with pytest.raises(
        LayoutMismatchError, match=r"h \(head\): the source has 4 of 4, the destination 3 of 3"
    ):
        await off(source.engine.push, lease.ticket, "kv", all_complete=True)
    with pytest.raises(TransferFailedError):
        await off(engine.wait, lease, 0)
    await off(engine.reserve, "other", "r2")

    assert bytes(other.memory) == b"\xee" * len(other.memory)


async def test_a_ticket_of_an_earlier_incarnation_is_refused_by_name(house: House) -> None:
    source, destination = await house.pair("shm")
    lease = await off(destination.engine.reserve, "kv", "r1")
    ticket = engine_pb2.Ticket.FromString(lease.ticket)
    ticket.epoch = "0000"
    with pytest.raises(StaleEpochError, match="the ticket is for epoch 0000"):
        await off(source.engine.push, ticket.SerializeToString(), "kv", all_complete=True)
    with pytest.raises(BadRequestError, match="the ticket can't be read"):
        await off(source.engine.push, b"\xff" * 9, "kv")
    with pytest.raises(BadRequestError, match="the ticket can't be read"):
        await off(source.engine.push, b"\xff" * 9, "kv", all_complete=True)
    ticket.node = "elsewhere"
    with pytest.raises(NotWiredError, match="node elsewhere isn't wired to this agent; wired: npu"):
        await off(source.engine.push, ticket.SerializeToString(), "kv", all_complete=True)


async def test_a_ticket_is_good_for_one_transfer(house: House) -> None:
    source, destination = await house.pair("shm")
    lease = await off(destination.engine.reserve, "kv", "r1")
    first = await off(source.engine.push, lease.ticket, "kv", all_complete=True)
    await off(destination.engine.wait, lease, 5)
    second = await off(source.engine.push, lease.ticket, "kv", all_complete=True)
    refused = await off(second.result)
    await off(destination.engine.acknowledge, lease)

    assert refused.outcome is TransferOutcome.REFUSED
    assert "good for one transfer" in refused.message
    assert (await off(first.result)).outcome is TransferOutcome.SUCCESS


async def test_a_declined_ticket_frees_the_decode_side(house: House) -> None:
    source, destination = await house.pair("shm")
    lease = await off(destination.engine.reserve, "kv", "r1")
    await off(source.engine.decline, lease.ticket, "no room")
    with pytest.raises(TransferFailedError, match="no room"):
        await off(destination.engine.wait, lease, 5)
    await off(destination.engine.reserve, "kv", "r2")


async def test_a_slow_decode_side_extends_its_grace_and_the_extensions_are_counted(house: House) -> None:
    source, destination = await house.pair("shm")
    lease = await off(destination.engine.reserve, "kv", "r1", grace=0.05, max_grace=20)
    transfer = await off(source.engine.push, lease.ticket, "kv", all_complete=True)
    await off(destination.engine.wait, lease, 5)
    (outgoing,) = house.agents["gpu"].sends.running
    await eventually(lambda: outgoing._lease.extensions >= 2)
    await off(destination.engine.acknowledge, lease)
    result = await off(transfer.result)

    assert result.outcome is TransferOutcome.SUCCESS
    assert result.grace_extensions >= 2
    assert counter(house.agents["npu"], "grace_near_total") >= 1


async def test_a_grace_that_is_never_answered_expires_on_both_sides(house: House) -> None:
    source, destination = await house.pair("shm")
    lease = await off(destination.engine.reserve, "kv", "r1", grace=0.05, max_grace=0.3)
    transfer = await off(source.engine.push, lease.ticket, "kv", all_complete=True)
    await off(destination.engine.wait, lease, 5)
    sent = await off(transfer.result)
    with pytest.raises(TransferFailedError) as caught:
        await off(destination.engine.acknowledge, lease)

    assert sent.outcome is caught.value.outcome is TransferOutcome.EXPIRED
    assert "maxGrace, 0.3 s" in sent.message


async def test_a_grant_that_nobody_uses_expires(house: House) -> None:
    await house.agent("npu", grant=0.2)
    engine = await house.engine("npu")
    await house.cache(engine, "kv", TILES, GEOMETRY | TILE, "decode")
    lease = await off(engine.reserve, "kv", "r1")
    with pytest.raises(TransferFailedError, match=r"no transfer began within 0\.2 s"):
        await off(engine.wait, lease, 5)

    assert house.agents["npu"].table.get(lease.id).lease.state is LeaseState.EXPIRED
    await off(engine.reserve, "kv", "r2")


async def test_a_layer_that_is_never_complete_times_out(house: House) -> None:
    source, destination = await house.pair("shm")
    events = layer_events(6)
    lease = await off(destination.engine.reserve, "kv", "r1")
    transfer = await off(source.engine.push, lease.ticket, "kv", 1, events, layer_timeout=0.2)
    result = await off(transfer.result)
    with pytest.raises(TransferFailedError) as caught:
        await off(destination.engine.wait, lease, 5)
    for event in events:
        os.close(event)

    assert result.outcome is caught.value.outcome is TransferOutcome.TIMED_OUT
    assert "a layer was not complete within 0.2 s" in result.message
