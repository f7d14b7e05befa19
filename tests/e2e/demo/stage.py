"""The machinery that the demo runs on, all of it real and all of it gone afterwards.

A control plane, Prometheus, the chart (helm install), the operator and two agents as processes under the
chart's own service accounts, an exporter that makes traffic, two model processes.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import yaml

from tests.cluster import binaries
from tests.cluster.cluster import Cluster
from tests.cluster.prometheus import Prometheus, find_prometheus
from tests.support.progress import Progress, Silent
from tests.support.supervisor import Process, Supervisor
from tests.support.waiting import until

from .exporter import Mix
from .worker import Worker, environment

CHART = Path(__file__).parents[3] / "charts" / "hawk"
MANIFESTS = Path(__file__).parent / "pool.yaml"
SYSTEM = "hawk-system"
POOL = "demo"
SCALE = "full"
NODES = {"prefill": "gpu-0", "decode": "npu-0"}
DEVICES = {"gpu-0": {"example.com/demo-gpu": "16"}, "npu-0": {"example.com/demo-npu": "16"}}


@dataclass
class Stage:
    """The running parts, and how to reach them."""

    supervisor: Supervisor
    cluster: Cluster
    prometheus: Prometheus
    exporter: Path
    operator: Process | None = None
    agents: dict[str, Process] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    _tokens: dict[str, Path] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def set_up(cls, first: Mix, progress: Progress | None = None, *, scraped: bool = True) -> Iterator[Self]:
        """Build what is missing, start everything but operator and agents; all is gone after the block.

        Traffic is as `first` says from the beginning.
        """
        progress = progress or Silent()
        programs, clients = binaries.programs(progress), binaries.clients(progress)
        program = find_prometheus(progress)
        with ExitStack() as stack:
            supervisor = stack.enter_context(Supervisor())
            cluster = stack.enter_context(Cluster.started(supervisor, programs, clients, progress))
            with progress.step("starting Prometheus and the exporter"):
                prometheus = Prometheus.start(program, supervisor)
                exporter = supervisor.folder / "exporter"
                exporter.mkdir()
                first.play(exporter)
                supervisor.spawn(
                    [sys.executable, "-m", "tests.e2e.demo.exporter", "--folder", exporter],
                    name="exporter",
                    env=environment(),
                )
                port = until((exporter / "port").read_text, what="the exporter's port", ignore=(OSError,))
                # Unscraped, the traffic is there and nobody measures it: BREAK=no-metrics.
                prometheus.targets("engines", [f"127.0.0.1:{port}"] if scraped else [])
            with progress.step("helm install hawk, two accelerator nodes (kwok)"):
                _install(cluster)
                for node, devices in DEVICES.items():
                    cluster.node(node, capacity=devices)
            stage = cls(supervisor, cluster, prometheus, exporter)
            stack.callback(stage._close_workers)
            yield stage

    def start_operator(self) -> None:
        """Run the operator under the chart's service account."""
        kubeconfig = self.cluster.service_account_kubeconfig(SYSTEM, "hawk-operator")
        command = [script("hawk-operator"), "--system-namespace", SYSTEM, "--metrics-port", "0"]
        command += ["--bind-address", "127.0.0.1", "--resync", "10"]
        self.operator = self.supervisor.spawn(command, name="operator", env={"KUBECONFIG": str(kubeconfig)})

    def start_agent(self, role: str, *, fault: str = "") -> None:
        """Run one node's agent under the chart's service account, with a token bound to a pod of that node.

        `fault` makes its transfers wrong on purpose.
        """
        node = NODES[role]
        command: list[str | Path] = [script("hawk-agent")]
        if fault:
            command = [sys.executable, "-m", "tests.support.faulty_agent", fault]
        command += ["--node", node, "--socket", self.socket(role)]
        command += ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
        command += ["--system-namespace", SYSTEM, "--identity", "kubernetes"]
        identity = self.supervisor.folder / f"identity-{node}"
        identity.mkdir(exist_ok=True)
        command += ["--tls-cert", identity / "tls.crt", "--tls-key", identity / "tls.key"]
        command += ["--tls-ca", identity / "ca.crt"]
        variables = environment() | {"KUBECONFIG": str(self._agent_token(node))}
        self.agents[role] = self.supervisor.spawn(command, name=f"agent-{node}", env=variables)

    def start_worker(self, role: str) -> Worker:
        """Run the model process that prefills or decodes, connected to its node's agent."""
        self.workers[role] = Worker.start(self.supervisor, role, self.socket(role), SCALE, environment())
        return self.workers[role]

    def socket(self, role: str) -> Path:
        """Where engines of a role find their agent."""
        return self.supervisor.folder / f"{role}.sock"

    def apply_pool(self) -> None:
        """`kubectl apply` the demo's AcceleratorClasses and its HawkPool, with Prometheus' real address."""
        text = MANIFESTS.read_text().replace("http://prometheus.invalid:9090", self.prometheus.url)
        self.cluster.kubectl("apply", "-f", "-", stdin=text)

    def patch_pool(self, spec: dict[str, Any]) -> None:
        """Change the pool's spec as a user would."""
        self.cluster.kubectl("patch", "hawkpool", POOL, "--type=merge", "-p", yaml.safe_dump({"spec": spec}))

    def pool(self) -> dict[str, Any]:
        """The HawkPool as the API server has it now."""
        found: dict[str, Any] = self.cluster.get("hawkpool", POOL)
        return found

    def table(self) -> list[str]:
        """Return what `kubectl get hawkpools` prints."""
        return self.cluster.kubectl("get", "hawkpools").splitlines()

    def play(self, mix: Mix) -> None:
        """From now on traffic is as `mix` says."""
        mix.play(self.exporter)

    def check(self) -> None:
        """Raise, with the end of its log, if a process that should run has ended."""
        for process in (self.operator, *self.agents.values()):
            if process:
                process.check()

    def _agent_token(self, node: str) -> Path:
        if node not in self._tokens:
            pod = f"hawk-agent-{node}"
            container = {"name": "agent", "image": "hawkpool:process"}
            spec = {"nodeName": node, "serviceAccountName": "hawk-agent", "containers": [container]}
            metadata = {"name": pod, "namespace": SYSTEM}
            self.cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
            self._tokens[node] = self.cluster.service_account_kubeconfig(SYSTEM, "hawk-agent", bound_pod=pod)
        return self._tokens[node]

    def _close_workers(self) -> None:
        for worker in self.workers.values():
            worker.close()


def _install(cluster: Cluster) -> None:
    cluster.helm(
        "install", "hawk", CHART, "--namespace", SYSTEM, "--create-namespace", "--wait",
        "--set", "operator.enabled=false", "--set", "agent.enabled=false",
    )  # fmt: skip
    cluster.kubectl("wait", "crd/hawkpools.hawkpool.dev", "--for=condition=Established", "--timeout=60s")


def script(name: str) -> Path:
    return Path(sys.executable).parent / name
