"""The transport round NIXL: what it registers, how it reads, and when memory counts as free again."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from hawk_agent.client import layer_events
from hawk_agent.errors import BlocksBusyError, TransferFailedError, TransportError
from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.plans import Costs
from hawk_agent.transfer.outcome import TransferOutcome
from hawk_agent.transports import nixl, nixl_library
from hawk_agent.transports.nixl import Nixl, choose_path
from hawk_agent.transports.nixl_memory import Peers
from hawk_agent.transports.registry import TransportRegistry
from tests.unit.agent.house import GEOMETRY, ROWS, TILE, TILES, House, eventually, off, transfer_all

from .fake import FakeLibrary


@pytest.fixture(autouse=True)
def costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs that don't depend on what else this machine does."""
    monkeypatch.setattr(nixl, "machine_costs", Costs)


def path(house: House) -> tuple[Nixl, FakeLibrary]:
    library, pool = FakeLibrary(), ThreadPoolExecutor(4)
    house.stack.callback(pool.shutdown)
    return Nixl(pool, lambda: library), library


async def pair(house: House, source: str = ROWS, target: str = TILES, more: dict | None = None):
    """Two agents with NIXL alone, the link proved; a cache at each and the receiver's library."""
    libraries = []
    for node in ("gpu", "npu"):
        made, library = path(house)
        libraries.append(library)
        registry = TransportRegistry({"nixl": lambda _, made=made: made})
        await house.agent(node, registry, transports=("nixl",))
    await house.wire(("gpu", "npu"))
    sizes = GEOMETRY | (more or {})
    here = await house.cache(await house.engine("gpu"), "kv", source, sizes, "prefill")
    tile = TILE if target == TILES else {}
    there = await house.cache(await house.engine("npu"), "kv", target, sizes | tile, "decode")
    here.fill(7)
    there.clear()
    return here, there, libraries


@pytest.mark.parametrize(
    ("source", "target", "sizes", "bounced"),
    [
        (ROWS, TILES, {}, True),
        (ROWS, TILES, {"s": 37}, True),
        (ROWS, ROWS, {}, False),
        (ROWS, ROWS, {"s": 512, "d": 128}, False),
    ],
)
async def test_bytes_are_read_and_translated(house, source, target, sizes, bounced) -> None:
    here, there, (_, library) = await pair(house, source, target, sizes)
    before = len(library.lists)
    sent, _ = await transfer_all(here, there)

    assert sent.transport == "nixl"
    nest = compile_nest(here.layout, there.layout)
    assert sum(library.lists[before:]) <= max(6, nest.runs // 20)  # stretches, not rows of tiles
    assert (choose_path(nest, Costs()).name == "send-then-tile") is bounced


async def test_short_runs_are_read_whole_and_long_ones_in_place():
    sizes = {"l": 2, "c": 2, "h": 8, "s": 4096, "d": 128}
    rows, tiles = Layout.preset("row-major", sizes), Layout.preset("tiles-16x16", sizes)
    gaps = Layout.preset("row-major", sizes).narrow("s", 0, 4000)

    assert choose_path(compile_nest(rows, tiles), Costs()).name == "send-then-tile"
    assert choose_path(compile_nest(gaps, gaps), Costs()).name == "scatter-reads"


async def test_blocks_stay_in_use_as_long_as_a_read_can_not_be_revoked(house, monkeypatch, caplog) -> None:
    """The receiver gives up a transfer whose read hangs; the blocks are free when the read has ended."""
    monkeypatch.setattr(nixl, "STOP_SECONDS", 0.1)
    monkeypatch.setattr(nixl, "STALL_SECONDS", 0.2)
    here, there, (_, library) = await pair(house)
    events = layer_events(6)
    lease = await off(there.engine.reserve, "kv", "r1")
    await off(here.engine.push, lease.ticket, "kv", 6, events)
    library.held = True
    before = len(library.lists)
    for event in events:
        os.eventfd_write(event, 1)
    await eventually(lambda: len(library.lists) > before)
    releasing = asyncio.create_task(off(there.engine.release, lease))
    await eventually(lambda: "haven't ended within 0.1 s" in caplog.text)

    with pytest.raises(BlocksBusyError):
        await off(there.engine.reserve, "kv", "r2")
    library.held = False
    await releasing
    again = await off(there.engine.reserve, "kv", "r2")
    for event in events:
        os.close(event)

    assert again.id != lease.id


async def test_a_failed_read_ends_the_transfer_as_failed(house) -> None:
    here, there, (_, library) = await pair(house)
    lease = await off(there.engine.reserve, "kv", "r1")
    library.broken = True
    transfer = await off(here.engine.push, lease.ticket, "kv", 2, all_complete=True)
    with pytest.raises(TransferFailedError, match="a read over NIXL failed"):
        await off(there.engine.wait, lease, 5)
    sent = await off(transfer.result)

    assert sent.outcome is TransferOutcome.TRANSPORT_FAILED


async def test_a_region_is_registered_once_and_closed_before_it_is_unmapped(house) -> None:
    here, there, (library, _) = await pair(house)
    held = len(library.registered)
    for request in ("r1", "r2"):
        await transfer_all(here, there, request=request)
    during = len(library.registered)
    await off(here.engine.unregister, "kv")

    assert during <= held + 1
    assert len(library.registered) == during - 1


async def test_without_nixl_the_agent_says_what_to_install_and_uses_what_is_left(house, monkeypatch) -> None:
    monkeypatch.setattr(nixl_library, "_MODULES", ("no_such_nixl",))
    agent = await house.agent("gpu", transports=("nixl", "tcp"))

    assert list(agent.transports) == ["tcp"]
    assert "pip install --no-deps nixl-cu12" in agent.unused["nixl"]
    with pytest.raises(TransportError, match="no data path: transport nixl: NIXL isn't installed"):
        await house.agent("npu", transports=("nixl",))


def test_an_error_of_nixl_quotes_nothing_that_opens_memory() -> None:
    with pytest.raises(TransportError) as caught, nixl_library._told("no metadata"):
        raise TypeError("incompatible arguments: b'secret'")

    assert str(caught.value) == "nixl: no metadata (TypeError)"
    assert caught.value.__cause__ is None


def test_memory_that_lies_where_other_memory_lay_is_met_anew_when_nobody_reads() -> None:
    peers = Peers(FakeLibrary())
    peers.meet("o", b"fake-9:1", 0x1000, 64)
    peers.meet("o", b"fake-9:2", 0x2000, 64)
    with pytest.raises(TransportError, match="send again when they have ended"):
        peers.meet("o", b"fake-9:3", 0x1020, 64)
    peers.leave("o")
    peers.leave("o")

    assert peers.meet("o", b"fake-9:3", 0x1020, 64) == "fake-9"
