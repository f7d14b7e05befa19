"""Two agents as processes, verbs between them and nothing else allowed: engines see what they always see."""

from __future__ import annotations

import os
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hawk_agent.client import AgentClient, layer_events
from hawk_agent.transfer.outcome import TransferOutcome
from tests.support.ports import Ports
from tests.support.supervisor import Supervisor
from tests.support.waiting import until
from tests.unit.agent.house import ROWS, TILE, TILES, Cache, open_cache, translated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.supervisor import Process

    from .conftest import Port

GEOMETRY = {"l": 4, "c": 2, "b": 1, "h": 2, "s": 48, "d": 32}
WAIT = 240.0
"""A limit, not a measurement: importing an agent alone takes an emulated guest half a minute and more."""
pytestmark = pytest.mark.timeout(900)


class Node:
    """One agent; `start` again is a restart at the same addresses."""

    def __init__(self, supervisor: Supervisor, name: str, port: Port, ports: Ports) -> None:
        self._supervisor = supervisor
        self._name = name
        self._device = port.device
        self.peers = f"127.0.0.1:{ports.reserve()}"
        self.metrics = f"127.0.0.1:{ports.reserve()}"
        self.socket = supervisor.folder / f"{name}.sock"
        self.process: Process | None = None

    def start(self, *peers: str) -> None:
        command = [sys.executable, "-m", "hawk_agent.main", "--node", self._name, "--insecure", "--no-kube"]
        command += ["--socket", str(self.socket), "--listen", self.peers, "--metrics", self.metrics]
        command += ["--transports", "verbs", "--rdma-device", self._device, "--host-id", self._name]
        command += [word for peer in peers for word in ("--peer", peer)]
        self.process = self._supervisor.spawn(command, name=self._name)

    def counted(self, name: str, **labels: str) -> float:
        """A metric's value, 0 where it has none."""
        page = urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10).read().decode()
        samples = [s for f in text_string_to_metric_families(page) for s in f.samples]
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    def verified(self) -> None:
        """Wait until its link is proved."""
        try:
            until(
                lambda: self.counted("hawk_agent_links", state="verified") == 1,
                what=f"{self._name} has proved its link",
                timeout=WAIT,
                ignore=(OSError, AssertionError),
            )
        except TimeoutError as error:
            raise AssertionError(f"{error}; it said:\n{self.said()[-4000:]}") from None

    def said(self) -> str:
        assert self.process is not None
        return self.process.log.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def nodes(rxa: Port, rxb: Port) -> Iterator[tuple[Node, Node]]:
    with Supervisor() as supervisor, Ports() as ports:
        gpu, npu = Node(supervisor, "gpu", rxa, ports), Node(supervisor, "npu", rxb, ports)
        npu.start()
        gpu.start(npu.peers)
        gpu.verified()
        yield gpu, npu


@pytest.fixture
def caches(nodes: tuple[Node, Node]) -> Iterator[tuple[Cache, Cache]]:
    gpu, npu = nodes
    with AgentClient(gpu.socket) as prefill, AgentClient(npu.socket) as decode:
        source = open_cache(prefill, "kv", ROWS, GEOMETRY, "prefill")
        destination = open_cache(decode, "kv", TILES, GEOMETRY | TILE, "decode")
        source.fill(7)
        destination.clear()
        yield source, destination
        for cache in (source, destination):
            cache.close()


def moved(source: Cache, destination: Cache) -> None:
    """A transfer that is right at both ends."""
    lease = destination.engine.reserve("kv", "r1", grace=WAIT, max_grace=WAIT)
    transfer = source.engine.push(lease.ticket, "kv", 2, all_complete=True)
    layers = destination.engine.wait(lease, 3, timeout=WAIT)
    received = destination.engine.acknowledge(lease)
    sent = transfer.result()

    assert layers.complete, sent
    assert (sent.outcome, received.outcome) == (TransferOutcome.SUCCESS, TransferOutcome.SUCCESS), sent
    assert bytes(destination.memory) == translated(source, destination)
    assert sent.digest == received.digest != b""
    assert sent.transport == "verbs"


def test_a_transfer_over_verbs_is_right_and_counted(
    nodes: tuple[Node, Node], caches: tuple[Cache, Cache]
) -> None:
    gpu, npu = nodes
    moved(*caches)

    done = {"transport": "verbs", "outcome": "success"}
    assert gpu.counted("hawk_agent_transfers_total", side="send", **done) == 1
    assert npu.counted("hawk_agent_transfers_total", side="receive", **done) >= 2, "with the link's proof"
    assert npu.counted("hawk_agent_predicted_over_measured_count", transport="verbs") >= 2
    assert npu.counted("hawk_agent_fences_total", fence="memory-window") >= 1, "a proof may be pulled"
    assert gpu.counted("hawk_agent_verbs_requests_total", state="posted") > 0
    assert gpu.counted("hawk_agent_verbs_requests_total", state="failed") == 0
    assert "verbs: rails rxa port 1" in gpu.said()


def test_a_killed_receiver_is_an_outcome_and_after_its_restart_its_old_keys_are_not_used(
    nodes: tuple[Node, Node], caches: tuple[Cache, Cache]
) -> None:
    gpu, npu = nodes
    source, destination = caches
    lease = destination.engine.reserve("kv", "r2")
    events = layer_events(4)
    transfer = source.engine.push(lease.ticket, "kv", 1, events)
    os.eventfd_write(events[0], 1)
    destination.engine.wait(lease, 0, timeout=WAIT)
    assert npu.process is not None
    npu.process.kill()
    for event in events[1:]:
        os.eventfd_write(event, 1)
    lost = transfer.result()
    for event in events:
        os.close(event)

    assert lost.outcome is TransferOutcome.PEER_LOST, lost
    npu.start()
    until(lambda: "restarted: epoch" in gpu.said(), what="gpu has noticed the restart", timeout=WAIT)
    gpu.verified()
    with AgentClient(npu.socket) as decode:
        again = open_cache(decode, "kv", TILES, GEOMETRY | TILE, "decode")
        again.clear()
        moved(source, again)
        again.close()
