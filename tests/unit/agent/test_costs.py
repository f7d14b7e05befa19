"""The cost of a finished transfer, and limits on what strangers can take from those who belong here."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import resource
import socket
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hawk_agent.client import AgentClient, allocate_shared, layer_events
from hawk_agent.errors import HawkAgentError, LimitReachedError, RegionError
from hawk_agent.net import accepting
from hawk_agent.protocol import engine_pb2, framing
from hawk_agent.streaming import report as reports
from hawk_agent.transfer.outcome import TransferOutcome
from hawk_api import addresses
from tests.unit.agent.house import GEOMETRY, ROWS, TILE, TILES, Cache, House, eventually, off

if TYPE_CHECKING:
    from typing import Any

TRANSPORTS = ["shm", "tcp"]
BYTES_EACH = 2048
ROUNDS = 4
LAYERS = 8
SMALL = GEOMETRY | {"l": LAYERS, "h": 1, "s": 16, "d": 16}


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def small_pair(house: House, transport: str) -> tuple[Cache, Cache]:
    for node in ("gpu", "npu"):
        await house.agent(node, transports=(transport,))
    await house.wire(("gpu", "npu"))
    source = await house.cache(await house.engine("gpu"), "kv", ROWS, SMALL, "prefill")
    return source, await house.cache(await house.engine("npu"), "kv", TILES, SMALL | TILE, "decode")


def transfers(source: Cache, destination: Cache, count: int, *, fetched: bool) -> None:
    """Small ones, one after the other, a chunk a layer."""
    for number in range(count):
        lease = destination.engine.reserve("kv", f"r{number}")
        transfer = source.engine.push(lease.ticket, "kv", 1, all_complete=True)
        destination.engine.wait(lease, LAYERS - 1)
        destination.engine.acknowledge(lease)
        if fetched:
            assert transfer.result().outcome is TransferOutcome.SUCCESS


async def costs(house: House, transport: str, count: int, *, fetched: bool) -> float:
    """Bytes that each of so many transfers leaves in this process, which is engines and agents.

    It is the least of a few rounds, of which the first that is good enough is the last: a leak shows in every
    round, and what else a process happens to keep doesn't.
    """
    source, destination = await small_pair(house, transport)

    async def held(turn: int) -> tuple[int, int]:
        await off(transfers, source, destination, turn, fetched=fetched)
        await eventually(lambda: not house.agents["gpu"].sends.running)
        gc.collect()
        return tracemalloc.get_traced_memory()[0], descriptors()

    each = []
    tracemalloc.start()
    try:
        before, files = await held(reports.MAX_WHOLE + 10)
        while len(each) < ROUNDS and min(each, default=BYTES_EACH) >= BYTES_EACH:
            after, more = await held(count)
            assert more <= files + 2
            each.append((after - before) / count)
            before = after
    finally:
        tracemalloc.stop()
    return min(each)


@pytest.mark.parametrize("fetched", [True, False])
async def test_a_finished_transfer_costs_little(
    house: House, monkeypatch: pytest.MonkeyPatch, fetched: bool
) -> None:
    monkeypatch.setattr(reports, "MAX_WHOLE", 4)
    assert await costs(house, "tcp", 15, fetched=fetched) < BYTES_EACH


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_hundreds_of_finished_transfers_cost_little(house: House, transport: str) -> None:
    each = await costs(house, transport, 300, fetched=False)
    print(f"{transport}: {each:.0f} bytes a finished transfer")
    assert each < BYTES_EACH


async def test_no_descriptors_for_a_while_stops_no_listener(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepting fails for want of descriptors, on every listener; afterwards all is as before."""
    monkeypatch.setattr(accepting, "REST_SECONDS", 0.01)
    source, destination = await small_pair(house, "shm")
    real = socket.socket.accept
    refused = []

    def none_left(self: socket.socket) -> Any:
        if len(refused) < 20:
            refused.append(self.getsockname())
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(self)

    monkeypatch.setattr(socket.socket, "accept", none_left)
    await house.engine("npu")
    refused.clear()
    await off(transfers, source, destination, 1, fetched=True)

    assert any(".peer" in str(name) for name in refused)
    assert house.agents["gpu"].unhealthy() == ""


async def test_silent_connections_keep_no_transfer_out(house: House) -> None:
    source, destination = await small_pair(house, "tcp")
    data = addresses.parse_address(house.agents["npu"].transports["tcp"].address)  # type: ignore[attr-defined]
    with contextlib.ExitStack() as stack:
        for _ in range(3 * accepting.MAX_STRANGERS):
            stack.enter_context(await off(socket.create_connection, (data.host, data.port)))
        await off(transfers, source, destination, 2, fetched=True)


async def test_silent_connections_keep_no_engine_out(house: House) -> None:
    agent = await house.agent("npu")
    greeted = await house.engine("npu")
    with contextlib.ExitStack() as stack:
        for _ in range(5 * accepting.MAX_STRANGERS):
            client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            await asyncio.get_running_loop().run_in_executor(None, client.connect, str(agent.settings.socket))
        engine = await off(AgentClient, agent.settings.socket)
        await off(engine.close)
    assert greeted.alive


async def test_requests_of_one_number_leak_no_descriptors(house: House) -> None:
    """A client that numbers its requests alike may not understand the replies, and costs nothing else."""
    agent = await house.agent("npu")
    await house.engine("npu")
    before = descriptors()

    def confused() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(agent.settings.socket))
            framing.send_frame(
                client, engine_pb2.Request(id=1, hello=engine_pb2.Hello(protocol=1)).SerializeToString()
            )
            for _ in range(20):
                events = layer_events(5)
                push = engine_pb2.Request(id=2, descriptors=5, push=engine_pb2.Push(ticket=b"none"))
                framing.send_frame(client, push.SerializeToString(), events)
                framing.close_descriptors(events)
            seen = 0
            decoder = framing.Decoder()
            while seen < 21:
                seen += len(decoder.feed(client.recv(1 << 16)))

    await off(confused)
    await eventually(lambda: descriptors() <= before)


async def test_a_request_that_never_ran_leaks_no_descriptors(house: House) -> None:
    """The connection goes while its requests, and what came with them, still wait to be served."""
    agent = await house.agent("npu")
    await house.engine("npu")
    before = descriptors()

    def hasty() -> None:
        for _ in range(20):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.connect(str(agent.settings.socket))
                events = layer_events(5)
                push = engine_pb2.Request(id=1, descriptors=5, push=engine_pb2.Push(ticket=b"none"))
                framing.send_frame(client, push.SerializeToString(), events)
                framing.close_descriptors(events)

    await off(hasty)
    await eventually(lambda: descriptors() <= before)


async def test_a_ticket_tells_how_its_lease_ended_whenever_that_was(house: House) -> None:
    """A release just before the push, or just after: the prefill side hears the same."""
    source, destination = await small_pair(house, "shm")
    early = await off(destination.engine.reserve, "kv", "early")
    await off(destination.engine.release, early)
    first = await off((await off(source.engine.push, early.ticket, "kv", all_complete=True)).result)
    late = await off(destination.engine.reserve, "kv", "late")
    events = layer_events(LAYERS)
    transfer = await off(source.engine.push, late.ticket, "kv", 1, events)
    os.eventfd_write(events[0], 1)
    await off(destination.engine.wait, late, 0)
    await off(destination.engine.release, late)
    second = await off(transfer.result)
    for event in events:
        os.close(event)

    assert first.outcome is second.outcome is TransferOutcome.ABORTED_BY_RECEIVER
    assert first.may_resend is second.may_resend is True
    assert first.message == second.message


async def test_what_is_complete_stays_complete_when_the_prefill_engine_goes(house: House) -> None:
    source, destination = await small_pair(house, "shm")
    lease = await off(destination.engine.reserve, "kv", "r", max_grace=30)
    await off(source.engine.push, lease.ticket, "kv", all_complete=True)
    assert (await off(destination.engine.wait, lease, LAYERS - 1)).complete
    agent = house.agents["gpu"]
    (region,) = agent.regions
    await off(source.engine.close)
    await eventually(lambda: region.descriptor < 0)  # the source is free, unacknowledged as it is
    assert agent.sends.running
    with contextlib.suppress(HawkAgentError):
        await off(destination.engine.wait, lease, LAYERS - 1)

    assert (await off(destination.engine.acknowledge, lease)).outcome is TransferOutcome.SUCCESS
    await eventually(lambda: not agent.sends.running)


async def test_a_registration_that_is_repeated_is_the_same_and_another_is_refused(house: House) -> None:
    """As after a time-out: the first request may have done its work, or be doing it."""
    source, _ = await small_pair(house, "shm")

    def register(name: str, descriptor: int, group: str) -> str:
        return source.engine.register(
            name, descriptor, ROWS, SMALL, "float16", pool="default/llama", group=group, worker="prefill-0"
        )

    descriptor, memory = allocate_shared("more", source.layout.nbytes)
    other, another = allocate_shared("other", source.layout.nbytes)
    before = descriptors()
    prints = await asyncio.gather(*(off(register, "more", descriptor, "prefill") for _ in range(3)))
    assert len(set(prints)) == 1
    assert descriptors() <= before + 2
    for wrong in ((other, "prefill"), (descriptor, "decode")):
        with pytest.raises(RegionError, match="registered already"):
            await off(register, "more", *wrong)
    for mapping in (memory, another):
        mapping.close()
    os.close(descriptor)
    os.close(other)


async def test_a_push_that_there_are_no_descriptors_for_is_refused_and_others_go_on(house: House) -> None:
    source, destination = await small_pair(house, "shm")
    lease = await off(destination.engine.reserve, "kv", "r")
    events = layer_events(LAYERS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(events) + 20, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        framing.close_descriptors(taken[-3:])
        with pytest.raises(LimitReachedError, match=f"no room for {LAYERS} descriptors"):
            await off(source.engine.push, lease.ticket, "kv", 1, events)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        framing.close_descriptors(taken[:-3])
    transfer = await off(source.engine.push, lease.ticket, "kv", 1, events)
    for event in events:
        os.eventfd_write(event, 1)
        os.close(event)
    await off(destination.engine.wait, lease, LAYERS - 1)
    await off(destination.engine.acknowledge, lease)

    assert (await off(transfer.result)).outcome is TransferOutcome.SUCCESS
