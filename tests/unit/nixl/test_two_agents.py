"""Transfers over the real NIXL, between two agents that are processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hawk_agent.client import AgentClient, layer_events
from hawk_agent.errors import TransferFailedError
from hawk_agent.transfer.outcome import TransferOutcome
from hawk_cli.bench.baselines import environments
from hawk_cli.bench.errors import BenchError
from tests.unit.agent.house import GEOMETRY, ROWS, TILE, TILES, Cache, open_cache, translated

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

WIRES = {"cma": "cma,tcp,self", "tcp": "tcp,self"}
ANSWER_SECONDS = 90.0


@pytest.fixture(scope="module")
def site() -> Path:
    """Where NIXL is installed: the benchmark's environment for it."""
    try:
        python = environments.environment("nixl")
    except BenchError as error:
        pytest.skip(f"missing tool: {error}")
    version = ".".join(map(str, sys.version_info[:2]))
    return python.parents[1] / "lib" / f"python{version}" / "site-packages"


@dataclass
class Node:
    """One agent's process and an engine that talks to it."""

    process: subprocess.Popen[str]
    socket: Path
    address: str = ""
    engine: AgentClient | None = None

    def answer(self) -> dict[str, object]:
        assert self.process.stdout is not None
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self.process.stdout], [], [], 1)
            if ready:
                line = self.process.stdout.readline()
                assert line, "the agent's process ended"
                if line.startswith("{"):
                    return json.loads(line)
        raise AssertionError("no answer")

    def wire(self, name: str, address: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name}={address}\n")
        self.process.stdin.flush()
        assert self.answer() == {"error": ""}


@contextlib.contextmanager
def node(name: str, site: Path, folder: Path, wires: str) -> Iterator[Node]:
    socket = folder / f"{name}.sock"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.nixl.process", str(site), name, str(socket)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "UCX_TLS": wires, "NIXL_LOG_LEVEL": "WARN"},
        cwd=Path(__file__).parents[3],
    )
    started = Node(process, socket)
    try:
        facts = started.answer()
        assert facts["transports"] == ["nixl"]
        started.address = str(facts["address"])
        started.engine = AgentClient(socket)
        yield started
    finally:
        if started.engine is not None:
            started.engine.close()
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        process.stdout.close()
    assert process.returncode in {0, -signal.SIGKILL}


@pytest.fixture(scope="module", params=list(WIRES))
def pair(request, site: Path) -> Iterator[tuple[Node, Node]]:
    """Two agents, wired and the link proved by a transfer, over cross-memory attach or TCP."""
    with (
        tempfile.TemporaryDirectory(prefix="hawk-") as folder,
        node("gpu", site, Path(folder), WIRES[request.param]) as gpu,
        node("npu", site, Path(folder), WIRES[request.param]) as npu,
    ):
        gpu.wire("npu", npu.address)
        yield gpu, npu


@contextlib.contextmanager
def caches(
    pair: tuple[Node, Node], source: tuple[str, dict], target: tuple[str, dict]
) -> Iterator[list[Cache]]:
    made = []
    for place, (notation, sizes), group in zip(pair, (source, target), ("prefill", "decode"), strict=True):
        made.append(open_cache(place.engine, "kv", notation, sizes, group))
    made[0].fill(7)
    made[1].clear()
    try:
        yield made
    finally:
        for cache in made:
            cache.engine.unregister("kv")
            cache.close()


BIG = {"l": 6, "c": 2, "b": 1, "h": 8, "s": 512, "d": 128}
CASES = {
    "rows to tiles": ((ROWS, GEOMETRY), (TILES, GEOMETRY | TILE)),
    "many pieces": ((ROWS, BIG), (TILES, BIG | TILE)),
    "equal layouts": ((ROWS, BIG), (ROWS, BIG)),
    "ragged": ((ROWS, GEOMETRY | {"s": 37}), (TILES, GEOMETRY | {"s": 37} | TILE)),
}


@pytest.mark.parametrize("case", CASES)
def test_bytes_arrive_translated_and_both_sides_say_success(pair, case: str) -> None:
    with caches(pair, *CASES[case]) as (source, destination):
        for request in ("r1", "r2"):  # the second over what the first has registered
            destination.clear()
            lease = destination.engine.reserve("kv", request)
            transfer = source.engine.push(lease.ticket, "kv", 2, all_complete=True)
            layers = destination.engine.wait(lease, 5)
            received = destination.engine.acknowledge(lease)
            sent = transfer.result()

            assert layers.complete
            assert (sent.outcome, received.outcome) == (TransferOutcome.SUCCESS, TransferOutcome.SUCCESS)
            assert bytes(destination.memory) == translated(source, destination)
            assert sent.digest == received.digest != b""
            assert sent.transport == "nixl"


def test_a_region_that_comes_again_is_read_from_its_new_place(pair) -> None:
    """An engine restarts: its memory may even lie at the address of the old one."""
    for seed in (1, 2, 3):
        with caches(pair, *CASES["rows to tiles"]) as (source, destination):
            source.fill(seed)
            lease = destination.engine.reserve("kv", f"r{seed}")
            transfer = source.engine.push(lease.ticket, "kv", 3, all_complete=True)
            destination.engine.wait(lease, 5)
            destination.engine.acknowledge(lease)

            assert transfer.result().outcome is TransferOutcome.SUCCESS
            assert bytes(destination.memory) == translated(source, destination)


def test_an_abort_frees_the_lease_and_the_next_transfer_goes_through(pair) -> None:
    with caches(pair, *CASES["many pieces"]) as (source, destination):
        events = layer_events(6)
        lease = destination.engine.reserve("kv", "r1")
        transfer = source.engine.push(lease.ticket, "kv", 1, events)
        os.eventfd_write(events[0], 1)
        destination.engine.wait(lease, 0)
        sent = transfer.abort("request cancelled")
        with pytest.raises(TransferFailedError):
            destination.engine.wait(lease, 5)
        again = destination.engine.reserve("kv", "r2")
        second = source.engine.push(again.ticket, "kv", 2, all_complete=True)
        destination.engine.wait(again, 5)
        destination.engine.acknowledge(again)
        for event in events:
            os.close(event)

        assert sent.outcome is TransferOutcome.ABORTED_BY_SENDER
        assert second.result().outcome is TransferOutcome.SUCCESS
        assert bytes(destination.memory) == translated(source, destination)


@pytest.mark.parametrize("victim", ["gpu", "npu"])
def test_a_dead_peer_ends_the_transfer_on_the_side_that_lives(site: Path, victim: str) -> None:
    with tempfile.TemporaryDirectory(prefix="hawk-") as folder, contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(node(name, site, Path(folder), WIRES["cma"])) for name in ("gpu", "npu")]
        nodes[0].wire("npu", nodes[1].address)
        source = open_cache(nodes[0].engine, "kv", ROWS, BIG, "prefill")
        destination = open_cache(nodes[1].engine, "kv", TILES, BIG | TILE, "decode")
        for cache in (source, destination):
            stack.callback(cache.close)
        events = layer_events(6)
        lease = destination.engine.reserve("kv", "r1")
        transfer = source.engine.push(lease.ticket, "kv", 1, events)
        os.eventfd_write(events[0], 1)
        destination.engine.wait(lease, 0)
        nodes[victim == "npu"].process.kill()
        if victim == "npu":
            ended = transfer.result().outcome
        else:
            with pytest.raises(TransferFailedError) as caught:
                destination.engine.wait(lease, 5)
            ended = caught.value.outcome
            destination.engine.reserve("kv", "r2")  # the blocks are free again
        for event in events:
            os.close(event)

        assert ended is TransferOutcome.PEER_LOST
