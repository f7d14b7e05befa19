"""Many at once: agents of one host, survivors of a restart, aborts beside good transfers, an absent API."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from hawk_agent.client import layer_events
from hawk_agent.errors import SocketInUseError, TransferFailedError
from hawk_agent.kube import publisher
from hawk_agent.service.links import LinkState
from hawk_agent.service.settings import PeerAddress
from hawk_agent.transfer.outcome import TransferOutcome
from hawk_api.backoff import Backoff
from hawk_kube.errors import UnavailableError
from tests.support.mock_transport import MockTransport
from tests.unit.agent.house import GEOMETRY, ROWS, TILE, TILES, House, eventually, off, translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hawk_agent.transfer.chunks import Chunk


async def test_agents_of_one_host_never_share_a_port(house: House) -> None:
    agents = [await house.agent(f"n{i}") for i in range(6)]
    assert len({agent.address for agent in agents}) == 6
    with pytest.raises(SocketInUseError, match="port 0 takes a free one"):
        await house.agent("late", listen=agents[0].address)


async def test_three_survivors_of_one_restart_are_all_wired_again(house: House) -> None:
    survivors = ["a", "b", "c"]
    for node in (*survivors, "npu"):
        await house.agent(node)
    await house.wire(*((node, "npu") for node in survivors))
    address, epoch = house.agents["npu"].address, house.agents["npu"].identity.epoch
    await house.stop("npu")
    fresh = await house.agent("npu", listen=address)
    for node in survivors:
        links = house.agents[node].links
        await eventually(lambda links=links: links.facts()[0].epoch == fresh.identity.epoch)  # type: ignore[misc]
        await house.verified(node, "npu")

    assert fresh.identity.epoch != epoch


@pytest.mark.parametrize("transport", ["shm", "tcp"])
async def test_a_storm_of_aborts_leaves_the_others_alone(house: House, transport: str) -> None:
    await house.agent("gpu", transports=(transport,))
    await house.agent("npu", transports=(transport,))
    await house.wire(("gpu", "npu"))
    sizes = GEOMETRY | {"b": 40}
    source = await house.cache(await house.engine("gpu"), "kv", ROWS, sizes, "prefill")
    destination = await house.cache(await house.engine("npu"), "kv", TILES, sizes | TILE, "decode")
    source.fill(5)
    destination.clear()

    async def one(slot: int, *, good: bool) -> TransferOutcome:
        windows = {"b": (slot, slot + 1)}
        events = layer_events(6)
        lease = await off(destination.engine.reserve, "kv", f"r{slot}", windows=windows)
        transfer = await off(source.engine.push, lease.ticket, "kv", 1, events, windows=windows)
        for event in events if good else events[:2]:
            os.eventfd_write(event, 1)
        if good:
            await off(destination.engine.wait, lease, 5)
            await off(destination.engine.acknowledge, lease)
        result = await off(transfer.result if good else transfer.abort)
        for event in events:
            os.close(event)
        return result.outcome  # type: ignore[no-any-return]

    outcomes = await asyncio.gather(*(one(slot, good=slot % 8 == 0) for slot in range(40)))
    whole = translated(source, destination)
    size = destination.layout.resize(b=1, l=1, c=1).nbytes
    good = [
        destination.memory[at : at + size] == whole[at : at + size]
        for slot in range(0, 40, 8)
        for at in range(slot * size, len(whole), 40 * size)
    ]

    assert outcomes == [
        TransferOutcome.SUCCESS if slot % 8 == 0 else TransferOutcome.ABORTED_BY_SENDER for slot in range(40)
    ]
    assert len(good) == 5 * 12
    assert all(good)
    assert len(house.region("npu").blocks) == 0


async def test_a_reader_that_is_late_never_completes_and_never_brings_another_requests_bytes(
    house: House,
) -> None:
    """The source is given back and used again while the receiver hasn't copied yet."""
    path = MockTransport()
    waiting = asyncio.Event()
    for node in ("gpu", "npu"):
        await house.agent(node, path.registry(), transports=("mock",))
    await house.wire(("gpu", "npu"))
    source = await house.cache(await house.engine("gpu"), "kv", ROWS, GEOMETRY, "prefill")
    destination = await house.cache(await house.engine("npu"), "kv", TILES, GEOMETRY | TILE, "decode")
    source.fill(1)
    destination.clear()

    async def late(_: Chunk) -> None:
        waiting.set()
        await asyncio.sleep(3600)

    path.before_receive = late
    lease = await off(destination.engine.reserve, "kv", "r1")
    transfer = await off(source.engine.push, lease.ticket, "kv", 1, all_complete=True)
    await waiting.wait()
    sent = await off(transfer.abort)
    source.memory[:] = b"\xc4" * len(source.memory)
    with pytest.raises(TransferFailedError):
        await off(destination.engine.wait, lease, 0)

    assert sent.outcome is TransferOutcome.ABORTED_BY_SENDER
    assert b"\xc4" not in bytes(destination.memory)


class FakeApi:
    """An API server that is there, then away, then there again."""

    def __init__(self) -> None:
        self.away = False
        self.spec: dict[str, Any] = {}
        self.written: list[dict[str, Any]] = []
        self.changes: asyncio.Queue[str] = asyncio.Queue()

    def _there(self) -> None:
        if self.away:
            raise UnavailableError("away")

    async def ensure(self) -> None:
        self._there()

    async def publish(self, status: dict[str, Any]) -> None:
        self._there()
        self.written.append(status)

    async def get(self) -> dict[str, Any]:
        self._there()
        return {"metadata": {"resourceVersion": "1"}, "spec": self.spec}

    async def watch(self, _: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        while True:
            await self.changes.get()
            self._there()
            yield "MODIFIED", {"spec": self.spec}

    async def beat(self, *_: object) -> None:
        self._there()


async def test_an_api_outage_keeps_the_wiring_and_what_changed_is_written_afterwards(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = FakeApi()
    monkeypatch.setattr(publisher, "RESTS", Backoff(0.05, 0.1))
    gpu, npu = await house.agent("gpu"), await house.agent("npu")
    api.spec = {"peers": [{"node": "npu", "address": npu.address, "epoch": npu.identity.epoch}]}
    cluster = publisher.Publisher(gpu, api)
    await cluster.start()
    house.stack.push_async_callback(cluster.close)
    await house.verified("gpu", "npu")
    await eventually(lambda: bool(api.written) and api.written[-1]["verifiedPeers"] == ["npu"])
    quiet = len(api.written)
    api.away = True
    await api.changes.put("end")
    await house.cache(await house.engine("gpu"), "kv", ROWS, GEOMETRY, "prefill")
    await eventually(
        lambda: gpu.metrics.registry.get_sample_value("hawk_agent_api_errors_total", {"loop": "peers"}) > 1
    )
    assert gpu.links.facts()[0].state is LinkState.VERIFIED
    assert len(api.written) == quiet
    api.away = False
    await eventually(lambda: len(api.written) == quiet + 1)

    assert [region["name"] for region in api.written[-1]["regions"]] == ["kv"]
    # A spec that is the same changes nothing.
    gpu.links.wire([PeerAddress(npu.address, "npu", "another")])
    assert gpu.links.facts()[0].state is LinkState.VERIFIED
