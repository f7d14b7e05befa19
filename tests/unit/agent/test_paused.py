"""An agent that stands still for a while, and peers that are un-wired: transfers still end once, alike."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hawk_agent.client import AgentClient, layer_events
from hawk_agent.errors import PeerError
from hawk_agent.transfer.outcome import TransferOutcome

from .house import GEOMETRY, ROWS, TILE, TILES, Cache, House, eventually, off
from .test_peers import child, spawn

if TYPE_CHECKING:
    from hawk_agent.client import LeaseHandle, Transfer

__all__ = ["child"]

TRANSPORTS = ["shm", "tcp"]
OTHERS = 4
"""Descriptors of a link that was made anew; a kept transfer would be six."""
SIZES = GEOMETRY | {"b": 40, "s": 16}


async def complete(
    source: Cache, destination: Cache, slot: int, grace: float = 0.2
) -> tuple[LeaseHandle, Transfer]:
    """A transfer whose bytes are all in place, and that nobody has acknowledged."""
    windows = {"b": (slot, slot + 1)}
    events = layer_events(6)
    lease = await off(
        destination.engine.reserve, "kv", f"r{slot}", windows=windows, grace=grace, max_grace=60
    )
    transfer = await off(source.engine.push, lease.ticket, "kv", 1, events, windows=windows)
    for event in events:
        os.eventfd_write(event, 1)
        os.close(event)
    assert (await off(destination.engine.wait, lease, 5)).complete
    return lease, transfer


async def acknowledged(destination: Cache, made: list[tuple[LeaseHandle, Transfer]]) -> None:
    ends = await asyncio.gather(*(off(destination.engine.acknowledge, lease) for lease, _ in made))
    assert {end.outcome for end in ends} == {TransferOutcome.SUCCESS}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]  # type: ignore[no-any-return]


async def settled(pid: int, wanted: int | None = None) -> int:
    """How many files a process has open once their number stands still, or is at most what is wanted."""
    known = len(open_files(pid))
    for _ in range(50):
        await asyncio.sleep(0.1)
        now = len(open_files(pid))
        if now == known if wanted is None else now <= wanted:
            return now
        known = now
    return known


def mapped(pid: int) -> bool:
    """True if an engine's memory is still mapped there."""
    return "/memfd:kv" in Path(f"/proc/{pid}/maps").read_text(encoding="ascii")


def open_files(pid: int) -> list[str]:
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(link.readlink()))
        except FileNotFoundError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("paused", "transport"), [("gpu", "tcp"), ("npu", "shm")])
async def test_a_pause_of_seconds_loses_no_outcome_and_keeps_nothing(
    house: House, transport: str, paused: str, child: dict[str, asyncio.subprocess.Process]
) -> None:
    npu_address = f"127.0.0.1:{free_port()}"
    child["npu"] = await spawn(house, "npu", transport, listen=npu_address)
    child["gpu"] = await spawn(house, "gpu", transport, f"npu={npu_address}")
    engines = {node: await off(AgentClient, house.folder / f"{node}.sock") for node in child}
    source = await house.cache(engines["gpu"], "kv", ROWS, SIZES, "prefill")
    destination = await house.cache(engines["npu"], "kv", TILES, SIZES | TILE, "decode")
    await wired(source, destination)
    before = {node: await settled(child[node].pid) for node in child}

    made = await asyncio.gather(*(complete(source, destination, slot) for slot in range(40)))
    child[paused].send_signal(signal.SIGSTOP)
    if paused == "gpu":  # decode goes on meanwhile
        await acknowledged(destination, made)
    await asyncio.sleep(7)
    child[paused].send_signal(signal.SIGCONT)
    if paused == "npu":
        await acknowledged(destination, made)
    reports = await asyncio.gather(*(off(transfer.result, 30) for _, transfer in made))

    assert [report.outcome for report in reports] == [TransferOutcome.SUCCESS] * 40
    for node, held in before.items():
        assert await settled(child[node].pid, held + OTHERS) <= held + OTHERS, open_files(child[node].pid)
    for engine in engines.values():
        await off(engine.close)
    for process in child.values():
        await eventually(lambda pid=process.pid: not mapped(pid), 10)  # type: ignore[misc]


async def wired(source: Cache, destination: Cache) -> None:
    """Wait for the link by a first transfer."""
    lease = await off(destination.engine.reserve, "kv", "first", windows={"b": (0, 1)})
    async with asyncio.timeout(60):
        while True:
            try:
                transfer = await off(
                    source.engine.push, lease.ticket, "kv", all_complete=True, windows={"b": (0, 1)}
                )
            except PeerError:
                await asyncio.sleep(0.05)
            else:
                break
    await off(destination.engine.wait, lease, 5)
    await off(destination.engine.acknowledge, lease)
    assert (await off(transfer.result)).outcome is TransferOutcome.SUCCESS


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_unwiring_a_peer_lets_its_transfers_end_as_they_would(house: House, transport: str) -> None:
    await house.agent("gpu", transports=(transport,))
    await house.agent("npu", transports=(transport,))
    await house.wire(("gpu", "npu"))
    source = await house.cache(await house.engine("gpu"), "kv", ROWS, SIZES, "prefill")
    destination = await house.cache(await house.engine("npu"), "kv", TILES, SIZES | TILE, "decode")
    made = await asyncio.gather(*(complete(source, destination, slot) for slot in range(20)))
    house.agents["gpu"].links.wire([])
    await acknowledged(destination, made)
    reports = await asyncio.gather(*(off(transfer.result, 30) for _, transfer in made))

    assert [report.outcome for report in reports] == [TransferOutcome.SUCCESS] * 20
    assert not house.agents["gpu"].sends.running
    assert house.region("gpu").users == house.region("npu").users == 0


async def test_an_agent_takes_all_the_descriptors_that_it_may_have(
    house: House, child: dict[str, asyncio.subprocess.Process]
) -> None:
    """Container runtimes set a soft limit of 1,024, which a dozen pushes of 80 layers use up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        child["npu"] = await spawn(house, "npu", "shm")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert resource.prlimit(child["npu"].pid, resource.RLIMIT_NOFILE) == (hard, hard)
