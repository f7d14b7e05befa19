"""Two agents with verbs between them, over the model of a device: engines see what they see on any path."""

from __future__ import annotations

import asyncio
import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from hawk_agent.client import layer_events
from hawk_agent.errors import RegionError, TransportError
from hawk_agent.kube import status
from hawk_agent.metrics import AgentMetrics
from hawk_agent.plans import Costs
from hawk_agent.transfer.outcome import TransferOutcome
from hawk_agent.transports.registry import TransportRegistry
from hawk_agent.transports.verbs import registration
from hawk_agent.transports.verbs.strategy import VerbsStrategy
from hawk_agent.transports.verbs.transport import Verbs
from hawk_api.v1alpha1.hawknode import HawkNodeStatus
from tests.unit.agent.house import (
    GEOMETRY,
    ROWS,
    TILE,
    TILES,
    Cache,
    House,
    off,
    transfer_all,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.unit.verbs.fake import Fake


class Home(House):
    """A house whose agents have verbs alone."""

    fake: Fake

    async def verbs(self, node: str, device: str, way: VerbsStrategy | None = None, **changes: str) -> None:
        pools = [self.stack.enter_context(ThreadPoolExecutor(2)) for _ in range(2)]
        made = Verbs(
            *pools, AgentMetrics(), devices=[device], strategy=way, costs=Costs(), library=self.fake.path
        )
        await self.agent(node, TransportRegistry({"verbs": lambda _: made}), transports=("verbs",), **changes)

    async def joined(self, way: VerbsStrategy | None = None) -> tuple[Cache, Cache]:
        await self.verbs("gpu", "fakea", way)
        await self.verbs("npu", "fakeb")
        await self.wire(("gpu", "npu"))
        source = await self.cache(await self.engine("gpu"), "kv", ROWS, GEOMETRY, "prefill")
        destination = await self.cache(await self.engine("npu"), "kv", TILES, GEOMETRY | TILE, "decode")
        source.fill(7)
        destination.clear()
        return source, destination


@pytest.fixture
async def home(model: Fake) -> AsyncIterator[Home]:
    async def working() -> None:
        while True:
            model.work()
            await asyncio.sleep(0.0005)

    with TemporaryDirectory(prefix="hawk-") as folder:
        task = asyncio.create_task(working())
        built = Home(Path(folder))
        built.fake = model
        async with built.stack:
            yield built
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("way", [None, VerbsStrategy.SCATTER, VerbsStrategy.TILE_LAST])
async def test_a_transfer_is_right_at_both_ends(home: Home, way: VerbsStrategy | None) -> None:
    source, destination = await home.joined(way)
    sent, received = await transfer_all(source, destination)

    assert sent.digest == received.digest != b""
    assert sent.transport == "verbs"


async def test_a_receiver_that_stops_is_an_outcome_and_its_successor_is_wired_anew(home: Home) -> None:
    source, destination = await home.joined()
    lease = await off(destination.engine.reserve, "kv", "r1")
    events = layer_events(6)
    transfer = await off(source.engine.push, lease.ticket, "kv", 2, events)
    os.eventfd_write(events[0], 1)
    os.eventfd_write(events[1], 1)
    await off(destination.engine.wait, lease, 1)
    address = home.agents["npu"].address
    await home.stop("npu")
    lost = await off(transfer.result)
    for event in events:
        os.close(event)
    assert lost.outcome in {TransferOutcome.PEER_LOST, TransferOutcome.ABORTED_BY_RECEIVER}

    await home.verbs("npu", "fakeb", listen=address)
    await home.verified("gpu", "npu")
    again = await home.cache(await home.engine("npu"), "kv", TILES, GEOMETRY | TILE, "decode")

    await transfer_all(source, again)


async def test_memory_that_cannot_be_registered_is_refused_when_the_engine_hands_it_over(
    home: Home, model: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    await home.verbs("npu", "fakeb")
    engine = await home.engine("npu")
    small = registration.MemlockLimits(memlock=65536, uid=1000, effective=0)
    monkeypatch.setattr(registration.MemlockLimits, "now", lambda: small)
    with pytest.raises(TransportError, match=r"the limit is 65536.*uid 1000.*CAP_IPC_LOCK"):
        await home.cache(engine, "kv", TILES, GEOMETRY | TILE, "decode")
    monkeypatch.undo()
    with pytest.raises(RegionError, match="has registered no region kv"):
        await off(engine.reserve, "kv", "r1")
    await home.cache(await home.engine("npu"), "kv", TILES, GEOMETRY | TILE, "decode")


async def test_the_status_tells_of_rails_and_of_the_fence(home: Home) -> None:
    await home.verbs("npu", "fakeb")
    agent = home.agents["npu"]
    rails = [rail for transport in agent.transports.values() for rail in transport.rails]
    made = HawkNodeStatus.model_validate(
        status.build_node_status(agent.identity, agent.address, [], [], rails)
    )

    (rail,) = made.rails
    assert (rail.name, rail.transport, rail.gid, rail.mtu) == ("fakeb:1", "verbs", "::ffff:10.9.0.2", 4096)
    assert rail.fence == "memory-window up to 64 ranges, else queue-pair"


def test_an_allowed_path_that_is_not_there_is_said_in_ready() -> None:
    (ready, _) = status.node_conditions([], [], "2026-01-01T00:00:00Z", unused={"verbs": "no RDMA device"})

    assert ready["message"].endswith("; verbs isn't used: no RDMA device")
