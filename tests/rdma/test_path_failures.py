"""Faults of real hardware, done for real: a typed error, no hang, and the next transfer is right."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hawk_agent.errors import TransportError
from hawk_agent.layouts import Layout
from hawk_agent.transfer import chunks as chunking
from hawk_agent.transports.verbs import lane
from hawk_agent.transports.verbs.errors import (
    CompletionError,
    PeerUnreachableError,
    PostError,
    ReceiverNotReadyError,
    RemoteAccessError,
    VerbsError,
    VerbsUnavailableError,
)
from hawk_agent.transports.verbs.fence import FenceKind
from hawk_agent.transports.verbs.queue_pair import Timeouts
from hawk_agent.transports.verbs.registration import DESTINATION, GATHERED, WINDOWED
from hawk_agent.transports.verbs.strategy import VerbsStrategy

from . import path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.transports.verbs.ends import VerbsDestination, VerbsSource

    from .conftest import Port

ROWS = Layout.parse("l c h s d", {"l": 4, "c": 2, "h": 2, "s": 32, "d": 32})
TILES = Layout.parse("l c h s1 d1 s0 d0", {"l": 4, "c": 2, "h": 2, "s": 32, "d": 32, "s0": 16, "d0": 16})
MOVED = path.translation(ROWS, TILES)
BRIEF = Timeouts(ack=16, retries=2, rnr_retries=2, rnr_timer=12)
PLAN = chunking.plan_chunks(4, 1)


@dataclasses.dataclass
class Scene:
    """One transfer under way, its first chunk in."""

    pair: path.Pair
    source: CacheRegion
    destination: CacheRegion
    sending: VerbsSource
    receiving: VerbsDestination

    async def rest(self) -> None:
        """Move the chunks that are left."""
        for chunk in PLAN[1:]:
            await path.both(self.sending, self.receiving, chunk)

    async def fails(self) -> BaseException:
        """Send the rest; returns what the transfer failed of."""
        with pytest.raises(TransportError) as caught:
            await self.rest()
        return caught.value.__cause__ or caught.value

    async def recovers(self) -> None:
        """End it; a new transfer over the same ports is right."""
        await self.receiving.stop()
        await self.sending.close()
        self.destination.memory[:] = bytes([path.SENTINEL]) * self.destination.nbytes
        await self.pair.move(MOVED, self.source, self.destination)
        assert bytes(self.destination.memory) == path.expected(MOVED, self.source, self.destination.nbytes)


@contextlib.asynccontextmanager
async def scene(rxa: Port, rxb: Port, **options: Any) -> AsyncIterator[Scene]:
    options = {"timeouts": BRIEF, "strategy": VerbsStrategy.GATHER} | options
    with path.region(ROWS, seed=1) as source, path.region(TILES, spare=512) as destination:
        async with path.pair([rxa.device], [rxb.device], **options) as pair:
            sending, receiving = await pair.open(MOVED, source, destination)
            await path.both(sending, receiving, PLAN[0])
            try:
                yield Scene(pair, source, destination, sending, receiving)
            finally:
                await receiving.stop()
                await sending.close()


def kill_receiver(scene: Scene) -> None:
    """Its queue pair is gone, and nobody says so: what a killed process leaves."""
    scene.receiving.lanes[0].discard()


def free_destination(scene: Scene) -> None:
    scene.pair.receiver.ports[0].registered(scene.destination, DESTINATION).close()


def free_source(scene: Scene) -> None:
    scene.pair.sender.ports[0].registered(scene.source, GATHERED).close()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (kill_receiver, PeerUnreachableError),
        (free_destination, RemoteAccessError),
        (free_source, PostError),
    ],
)
async def test_a_fault_is_a_typed_error_and_the_next_transfer_is_right(
    rxa: Port, rxb: Port, fault: Callable[[Scene], None], error: type[VerbsError]
) -> None:
    async with scene(rxa, rxb, fence=FenceKind.QUEUE_PAIR) as now:
        fault(now)
        assert isinstance(await now.fails(), error)
        for port in (now.pair.sender.ports[0], now.pair.receiver.ports[0]):
            port.forget(now.source)
            port.forget(now.destination)
        await now.recovers()


async def test_memory_with_open_windows_is_not_given_back_before_them(rxa: Port, rxb: Port) -> None:
    async with scene(rxa, rxb, fence=FenceKind.WINDOW) as now:
        with pytest.raises(VerbsError, match="close the windows first"):
            now.pair.receiver.ports[0].registered(now.destination, WINDOWED).close()
        await now.recovers()


async def test_a_receiver_without_receives_is_given_up_after_the_retries(
    rxa: Port, rxb: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "RECEIVES", 1)
    async with scene(rxa, rxb) as now:
        now.receiving.lanes[0].dispatcher.close()  # nobody takes immediates, so no receive is posted anew
        await now.sending.send(PLAN[1])
        with pytest.raises(TransportError) as caught:
            await now.sending.send(PLAN[2])
        now.receiving.lanes[0].dispatcher.start()

        assert isinstance(caught.value.__cause__, ReceiverNotReadyError)


@pytest.mark.parametrize(
    "way", [VerbsStrategy.GATHER, VerbsStrategy.TILE_FIRST, VerbsStrategy.SCATTER, VerbsStrategy.TILE_LAST]
)
async def test_a_device_that_takes_one_piece_a_request_still_serves(
    rxa: Port, rxb: Port, way: VerbsStrategy
) -> None:
    with path.region(ROWS, seed=1) as source, path.region(TILES, spare=512) as destination:
        async with path.pair([rxa.device], [rxb.device], strategy=way) as pair:
            for verbs in (pair.sender, pair.receiver):
                device = verbs.ports[0].device
                limits = dataclasses.replace(device.limits, max_sge=1, max_sge_rd=1)
                device.info = dataclasses.replace(device.info, limits=limits)
            await pair.move(MOVED, source, destination)

            assert bytes(destination.memory) == path.expected(MOVED, source, destination.nbytes)


async def test_both_ends_take_the_smaller_mtu(rxa: Port, rxb: Port) -> None:
    with path.region(ROWS, seed=1) as source, path.region(TILES, spare=512) as destination:
        async with path.pair([rxa.device], [rxb.device]) as pair:
            device = pair.sender.ports[0].device
            device.info = dataclasses.replace(device.info, active_mtu=1024)
            sending, receiving = await pair.move(MOVED, source, destination)

            assert [end.lanes[0].queue.mtu for end in (sending, receiving)] == [1024, 1024]
            assert bytes(destination.memory) == path.expected(MOVED, source, destination.nbytes)


async def test_a_gid_that_moved_is_found_anew(rxa: Port, rxb: Port) -> None:
    """The index holds another address than at discovery."""
    with path.region(ROWS, seed=1) as source, path.region(TILES, spare=512) as destination:
        async with path.pair([rxa.device], [rxb.device]) as pair:
            device = pair.sender.ports[0].device
            true = device.info
            device.info = dataclasses.replace(true, gid=true.gid[:-1] + b"\x63", gid_index=true.gid_index)
            await pair.move(MOVED, source, destination)

            assert device.info == true
            assert bytes(destination.memory) == path.expected(MOVED, source, destination.nbytes)


async def test_a_gid_that_moves_under_a_transfer_does_not_stop_what_is_connected(
    rxa: Port, rxb: Port
) -> None:
    async with scene(rxa, rxb) as now:
        device = now.pair.sender.ports[0].device
        device.info = dataclasses.replace(device.info, gid=device.info.gid[:-1] + b"\x63")
        await now.rest()
        await now.recovers()


def link(port: Port, *words: str) -> None:
    interface = {"rxa": "va", "rxb": "vb"}[port.device]
    subprocess.run(["ip", "link", "set", interface, *words], check=True, timeout=30)


def wired(port: Port, peer: Port) -> None:
    """Restore what goes with a link that goes down: its route and its neighbour (see network.sh)."""
    interface, table, other = {"rxa": ("va", "101", "vb"), "rxb": ("vb", "102", "va")}[port.device]
    address = Path(f"/sys/class/net/{other}/address").read_text(encoding="ascii").strip()
    for words in (
        ["route", "replace", f"{peer.address}/32", "dev", interface, "src", port.address, "scope", "link",
         "table", table],
        ["neighbour", "replace", peer.address, "lladdr", address, "dev", interface, "nud", "permanent"],
    ):  # fmt: skip
        subprocess.run(["ip", *words], check=True, timeout=30)


async def test_a_link_that_goes_down_fails_the_transfer_and_its_port_is_refused_until_it_is_back(
    rxa: Port, rxb: Port
) -> None:
    async with scene(rxa, rxb) as now:
        await asyncio.to_thread(link, rxb, "down")
        try:
            error = await now.fails()
            with pytest.raises(VerbsError, match=r"port is|be asked any more"):
                await now.pair.open(MOVED, now.source, now.destination)
        finally:
            await asyncio.to_thread(link, rxb, "up")
            await asyncio.to_thread(wired, rxb, rxa)
            await asyncio.to_thread(wired, rxa, rxb)
        async with asyncio.timeout(30):
            while True:
                try:
                    for port in (now.pair.sender.ports[0], now.pair.receiver.ports[0]):
                        port.check()
                    break
                except VerbsError:
                    await asyncio.sleep(0.1)
        await now.recovers()

        assert isinstance(error, CompletionError)


async def test_a_device_that_is_not_there_is_named_with_those_that_are(rxa: Port) -> None:
    with pytest.raises(VerbsUnavailableError, match=rf"mlx5_9 can't be used; usable: .*{rxa.device}"):
        async with path.pair(["mlx5_9"], [rxa.device]):
            pass


LOCKED = """
import asyncio, os, resource, sys
from tests.rdma import path
from tests.rdma.test_path_failures import ROWS

async def main():
    async with path.pair([sys.argv[1]], [sys.argv[1]]) as pair:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        os.setresuid(1000, 1000, 1000)
        with path.region(ROWS, spare=1 << 20) as region:
            try:
                await pair.sender.adopt(region)
            except Exception as error:
                print(type(error).__name__, error)

asyncio.run(main())
"""


def test_memory_that_may_not_be_locked_is_refused_with_limit_uid_and_capability(rxa: Port) -> None:
    said = subprocess.run(
        [sys.executable, "-c", LOCKED, rxa.device], capture_output=True, text=True, timeout=120, check=False
    )

    assert said.stdout.startswith("MemoryRegistrationError memlock: "), said.stderr
    for part in ("the limit is 65536", "uid 1000", "CAP_IPC_LOCK"):
        assert part in said.stdout
