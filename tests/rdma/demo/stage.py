"""Two agents that know each other, each with an RDMA device, and the model processes that use them."""

import re
import sys
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.cluster.pki import Authority
from tests.e2e.demo.worker import Worker, environment
from tests.support.ports import Ports
from tests.support.supervisor import Process, Supervisor

SCALE = "emulated"
NODES = {"prefill": "gpu-0", "decode": "npu-0"}
HTTP_SECONDS = 30.0


@dataclass
class Stage:
    """The running parts, and how to reach them. `devices` are by role."""

    supervisor: Supervisor
    ports: Ports
    devices: dict[str, str]
    transports: str
    agents: dict[str, Process] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._peer_ports = {role: self.ports.reserve() for role in NODES}
        self._metrics_ports = {role: self.ports.reserve() for role in NODES}
        _issue_certificates(self.supervisor.folder, NODES.values())

    def start_agent(self, role: str, *, fault: str = "") -> None:
        """Run one node's agent, told of the other; `fault` makes its transfers wrong on purpose."""
        node, folder = NODES[role], self.supervisor.folder
        [peer] = set(NODES) - {role}
        command: list[str | Path] = [Path(sys.executable).parent / "hawk-agent"]
        if fault:
            command = [sys.executable, "-m", "tests.support.faulty_agent", fault]
        command += ["--node", node, "--no-kube"]
        command += ["--socket", self.socket(role), "--listen", f"127.0.0.1:{self._peer_ports[role]}"]
        command += ["--metrics", f"127.0.0.1:{self._metrics_ports[role]}"]
        command += ["--peer", f"{NODES[peer]}=127.0.0.1:{self._peer_ports[peer]}"]
        command += ["--transports", self.transports, "--rdma-device", self.devices[role]]
        command += ["--tls-cert", folder / f"{node}.crt", "--tls-key", folder / f"{node}.key"]
        command += ["--tls-ca", folder / "ca.crt"]
        self.agents[role] = self.supervisor.spawn(command, name=f"agent-{node}", env=environment())

    def start_worker(self, role: str) -> None:
        """Run a model process, connected to its node's agent."""
        self.workers[role] = Worker.start(self.supervisor, role, self.socket(role), SCALE, environment())

    def socket(self, role: str) -> Path:
        """Where engines of a role find their agent."""
        return self.supervisor.folder / f"{role}.sock"

    def verified(self, role: str) -> bool:
        """True if the agent's link is proved: a canary went through the real data path and came out right.

        Raises OSError where the agent doesn't answer.
        """
        url = f"http://127.0.0.1:{self._metrics_ports[role]}/metrics"
        with urllib.request.urlopen(url, timeout=HTTP_SECONDS) as answer:
            text = answer.read().decode()
        found = re.search(r'_links\{state="verified"\} ([0-9.]+)', text)
        return bool(found) and float(found[1]) == 1

    def check(self) -> None:
        """Raise, with the end of its log, if an agent has ended."""
        for process in self.agents.values():
            process.check()

    def close(self) -> None:
        """Let the workers end."""
        for worker in self.workers.values():
            worker.close()


def _issue_certificates(folder: Path, nodes: Iterable[str]) -> None:
    """Write ca.crt and each node's NODE.crt and NODE.key."""
    authority = Authority(datetime.now(UTC))
    (folder / "ca.crt").write_bytes(authority.pair.certificate_pem)
    for node in nodes:
        authority.agent(node).write(folder, node)
