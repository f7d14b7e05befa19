"""Random faults, one after the other over the same ports: success or a typed error each, and nothing leaks.

HAWK_RDMA_FAULTS sets how many (20 unless given), HAWK_RDMA_SEED which:

    make soak-rdma                     200 of them
"""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hawk_agent.errors import TransportError
from hawk_agent.layouts import Layout
from hawk_agent.transfer import chunks as chunking
from hawk_agent.transports.verbs.fence import FenceKind
from hawk_agent.transports.verbs.queue_pair import Timeouts
from hawk_agent.transports.verbs.registration import DESTINATION, GATHERED
from hawk_agent.transports.verbs.strategy import VerbsStrategy

from . import path

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.transports.verbs.ends import VerbsDestination, VerbsSource

    from .conftest import Port

FAULTS = int(os.environ.get("HAWK_RDMA_FAULTS", "20"))
SEED = int(os.environ.get("HAWK_RDMA_SEED", "1"))
GEOMETRY = {"l": 4, "c": 2, "h": 2, "s": 40, "d": 32}
ROWS = Layout.parse("l c h s d", GEOMETRY)
TILES = Layout.parse("l c h s1 d1 s0 d0", GEOMETRY | {"s0": 16, "d0": 16})
MOVED = path.translation(ROWS, TILES)
BRIEF = Timeouts(ack=16, retries=2)
WAYS = [VerbsStrategy.GATHER, VerbsStrategy.TILE_FIRST, VerbsStrategy.SCATTER, VerbsStrategy.TILE_LAST]


class Stage:
    """A pair of transports with two rails and one transfer at a time, to which a fault is done."""

    def __init__(
        self, pair: path.Pair, source: CacheRegion, destination: CacheRegion, chance: random.Random
    ) -> None:
        self.pair, self.source, self.destination, self.chance = pair, source, destination, chance
        self.sending: VerbsSource
        self.receiving: VerbsDestination

    def error_at_sender(self) -> None:
        self.chance.choice(self.sending.lanes).queue.to_error()

    def error_at_receiver(self) -> None:
        self.chance.choice(self.receiving.lanes).queue.to_error()

    def both_in_error(self) -> None:
        rail = self.chance.randrange(2)
        for end in (self.sending, self.receiving):
            end.lanes[rail].queue.to_error()

    def peer_destroyed(self) -> None:
        """The end that only answers is gone without a word."""
        passive = (
            self.sending
            if self.pair.sender.strategy in {VerbsStrategy.SCATTER, VerbsStrategy.TILE_LAST}
            else self.receiving
        )
        for lane in passive.lanes:
            lane.discard()

    def destination_freed(self) -> None:
        for port in self.pair.receiver.ports:
            port.registered(self.destination, DESTINATION).close()

    def source_freed(self) -> None:
        for port in self.pair.sender.ports:
            port.registered(self.source, GATHERED).close()

    def nothing(self) -> None:
        pass

    @property
    def faults(self) -> list[Callable[[], None]]:
        return [
            self.error_at_sender,
            self.error_at_receiver,
            self.both_in_error,
            self.peer_destroyed,
            self.destination_freed,
            self.source_freed,
            self.nothing,
        ]

    async def play(self) -> str:
        """One transfer with one fault; how it ended. A success must be right."""
        verbs = self.pair.sender
        verbs.strategy = self.chance.choice(WAYS)
        self.destination.memory[:] = bytes([path.SENTINEL]) * self.destination.nbytes
        self.sending, self.receiving = await self.pair.open(MOVED, self.source, self.destination)
        fault = self.chance.choice(self.faults)
        plan = chunking.plan_chunks(4, 1)
        when = self.chance.randrange(len(plan))
        try:
            for chunk in plan:
                if chunk.index == when:
                    fault()
                await path.both(self.sending, self.receiving, chunk)
        except TransportError as error:
            ended = type(error.__cause__ or error).__name__
        else:
            ended = "success"
            right = path.expected(MOVED, self.source, self.destination.nbytes)
            assert bytes(self.destination.memory) == right, f"{fault.__name__} with {verbs.strategy}"
        finally:
            await self.receiving.stop()
            await self.sending.close()
            for port in (*self.pair.sender.ports, *self.pair.receiver.ports):
                port.forget(self.source)
                port.forget(self.destination)
        return f"{fault.__name__}: {ended}"


def held() -> dict[str, int]:
    """Count what this process holds of the kernel: RDMA objects by kind, and descriptors."""
    gc.collect()
    said = subprocess.run(
        ["rdma", "-j", "resource", "show"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    counts: Counter[str] = Counter()
    for device in json.loads(said):
        for kind in ("pd", "cq", "qp", "mr", "cm_id", "ctx"):
            counts[kind] += device.get(kind, 0)
    return counts | {"descriptors": len(list(Path("/proc/self/fd").iterdir()))}


@pytest.mark.timeout(60 + 20 * FAULTS)
async def test_faults_end_in_success_or_a_typed_error_and_nothing_leaks(
    rxa: Port, rxb: Port, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    rails = [rxa.device, rxb.device]
    with path.region(ROWS, seed=1) as source, path.region(TILES, spare=512) as destination:
        empty = held()
        async with path.pair(rails, rails[::-1], fence=FenceKind.QUEUE_PAIR, timeouts=BRIEF) as pair:
            await pair.move(MOVED, source, destination)
            for port in (*pair.sender.ports, *pair.receiver.ports):
                port.forget(source)
                port.forget(destination)
            before = held()
            stage = Stage(pair, source, destination, chance)
            ends = Counter([await stage.play() for _ in range(FAULTS)])
            after = held()
            destination.memory[:] = bytes([path.SENTINEL]) * destination.nbytes
            await pair.move(MOVED, source, destination)

            assert bytes(destination.memory) == path.expected(MOVED, source, destination.nbytes)
            assert after["qp"] == before["qp"]
            assert after["cq"] == before["cq"]
            assert after["descriptors"] == before["descriptors"]
            # Each port keeps a bounce buffer or two for the next transfer.
            assert after["mr"] <= before["mr"] + 8
        assert held() == empty
    with capsys.disabled():
        print("", *(f"    {count} x {end}" for end, count in sorted(ends.items())), sep="\n")
