"""A network that swallows: connections stay open and nothing arrives. Nobody waits for ever."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

import pytest

from hawk_agent.service.links import LinkState
from hawk_agent.service.settings import PeerAddress
from hawk_agent.transfer.outcome import TransferOutcome

from .house import (
    GEOMETRY,
    ROWS,
    TILE,
    TILES,
    House,
    eventually,
    house,
    off,
    region_of,
    transfer_all,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


class Hole:
    """A forwarder to an address that swallows what it gets, in both directions, while `open` is cleared."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self.open = asyncio.Event()
        self.open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        self._writers += (writer, back)
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._carry(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                await self.open.wait()
                target.write(data)
        target.close()


def state(built: House) -> LinkState:
    [facts] = built.agents["gpu"].links.facts()
    return facts.state


async def test_a_swallowed_link_is_lost_its_transfer_ends_and_it_is_proved_again(tmp_path: Path) -> None:
    async with house(tmp_path) as built:
        terms = {"grant": 20, "stall": 2, "grace": 0.2, "max_grace": 2}
        gpu = await built.agent("gpu", transports=("shm",), **terms)
        npu = await built.agent("npu", transports=("shm",), **terms)
        hole = Hole(npu.address)
        gpu.links.wire([PeerAddress(await hole.start(), "npu")])
        try:
            await built.verified("gpu", "npu")
            source = await built.cache(await built.engine("gpu"), "kv", ROWS, GEOMETRY, "prefill")
            destination = await built.cache(await built.engine("npu"), "kv", TILES, GEOMETRY | TILE, "decode")
            lease = await off(destination.engine.reserve, "kv", "r")
            events = [os.eventfd(0) for _ in range(6)]
            transfer = await off(source.engine.push, lease.ticket, "kv", 1, events)
            os.eventfd_write(events[0], 1)
            await off(destination.engine.wait, lease, 0)

            hole.open.clear()
            result = await off(transfer.result)
            assert result.outcome in {TransferOutcome.PEER_LOST, TransferOutcome.TIMED_OUT}
            await eventually(lambda: len(npu.table) == 0, 30)
            assert region_of(npu).users == region_of(gpu).users == 0
            await eventually(lambda: state(built) is LinkState.DOWN, 30)

            hole.open.set()
            await eventually(lambda: state(built) is LinkState.VERIFIED, 30)
            await transfer_all(source, destination)
            for event in events:
                os.close(event)
        finally:
            await hole.stop()
