"""One operator under many pools and nodes: it settles, then nothing changes, and then a little does.

What it may do while nothing changes is read from the API server's audit log, its memory and processor time
from the kernel, the durations of its looks from its own metrics.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.fixtures import ROOT
from tests.cluster.operator.running import Running, command
from tests.cluster.scale import fleet
from tests.support.ports import Ports
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.cluster.cluster import Cluster
    from tests.support.supervisor import Supervisor

ACCOUNT: Final = "operator"
USER: Final = f"system:serviceaccount:{fleet.SYSTEM}:{ACCOUNT}"
READS: Final = frozenset({"get", "list"})
NODES_FOR_PODS: Final = 100
"""Nodes on which kwok plays kubelet: the pools' pods are spread over these."""
PAGE: Final = 500
"""Objects that the operator asks for in one request."""
CROWD: Final = 0.05
"""Share of the nodes whose agents restart at one moment: a rack, a roll-out."""


@dataclass
class Figures:
    """The measurements: seconds, MiB, counts. A percentile is the upper edge of a bucket."""

    pools: int
    nodes: int
    filled_s: float = 0.0
    settled_s: float = 0.0
    """From the operator's start until every pool's devices are ready and nothing is written any more."""
    settling_p99_s: float = 0.0
    rss_mib: float = 0.0
    """The most that was resident."""
    interval_s: int = 0
    """Between two looks at a pool."""
    idle_s: float = 0.0
    """Of each of two idle spells."""
    idle_p99_s: float = 0.0
    idle_looks: int = 0
    """Looks at pools in both spells."""
    idle_writes: int = 0
    idle_reads: list[dict[str, float]] = field(default_factory=list)
    """Reads a second by verb and resource in each spell."""
    idle_cores: dict[str, float] = field(default_factory=dict)
    """Processor seconds a second of the operator, and of the control plane that serves it."""
    wiring_s: float = 0.0
    """Mean duration of a look at the wiring of the whole cluster, in the idle spells."""
    restarted: int = 0
    """Agents that came back as new incarnations at one moment."""
    wired_again_s: list[float] = field(default_factory=list)
    """From the new incarnation of one agent, and from those of many, to their epochs at all their peers."""

    def missed(self) -> list[str]:
        """List what is not as it must be."""
        found = []
        if self.rss_mib >= 1024:
            found.append(f"{self.rss_mib:.0f} MiB resident, must be below 1024")
        for name, value in (("settling", self.settling_p99_s), ("idle", self.idle_p99_s)):
            if value > 2:
                found.append(f"99 of 100 {name} looks took up to {value:g} s, must be 2")
        if self.idle_writes:
            found.append(f"{self.idle_writes} writes while nothing changed")
        first, second = (self.idle_s * sum(reads.values()) for reads in self.idle_reads)
        if second > 1.1 * first + self.one_round():
            found.append(f"reads grow while nothing changes: {first:.0f}, then {second:.0f}")
        if self.idle_looks < 2 * self.pools * (self.idle_s // self.interval_s - 1):
            found.append(f"{self.idle_looks} looks in {2 * self.idle_s:g} s: pools are left out")
        if self.idle_cores["operator"] >= 1:
            found.append(f"{self.idle_cores['operator']:.2f} cores while nothing changes")
        return found

    def one_round(self) -> int:
        """Requests that list everything once: by chance one spell has one round more than the other."""
        pages = sum(1 + count // PAGE for count in (self.pools, 2 * self.pools, 2 * self.pools))
        return pages + 2 * (1 + self.nodes // PAGE) + 5


class Soak:
    """One run."""

    def __init__(
        self, cluster: Cluster, processes: Supervisor, size: fleet.Size, say: Callable[[str], None] = print
    ) -> None:
        self._cluster = cluster
        self._processes = processes
        self._size = size
        self._say = say
        self._writer = fleet.Writer(cluster.kubeconfig)
        self.figures = Figures(size.pools, size.nodes, interval_s=size.interval_s)

    def run(self, idle_s: float) -> Figures:
        """Fill, settle, idle twice, change one thing, change many."""
        figures = self.figures
        with Ports() as ports:
            begun = time.monotonic()
            self._fill(self._store(ports.reserve()))
            figures.filled_s = time.monotonic() - begun
            self._say(f"filled in {figures.filled_s:.0f} s")
            running = self._start(ports.reserve())
            begun = time.monotonic()
            self._settle(running)
            figures.settled_s = time.monotonic() - begun
            figures.settling_p99_s = percentile(buckets(running), {}, 0.99)
            self._say(f"settled in {figures.settled_s:.0f} s")
            self._idle(running, idle_s)
            self._say("was idle twice")
            figures.restarted = min(self._busy_nodes(), max(2, round(CROWD * self._size.nodes)))
            figures.wired_again_s = [self._restart(running, 1), self._restart(running, figures.restarted)]
            figures.rss_mib = peak_mib(running.process.pid)
        return figures

    def _busy_nodes(self) -> int:
        return min(self._size.nodes, self._size.workers * self._size.pools)

    def _store(self, port: int) -> str:
        command_line = [sys.executable, "-m", "tests.cluster.scale.store", str(port)]
        self._processes.spawn(command_line, name="store", cwd=ROOT)
        return f"http://127.0.0.1:{port}"

    def _fill(self, store: str) -> None:
        cluster, size = self._cluster, self._size
        for name in (fleet.NAMESPACE, fleet.SYSTEM):
            cluster.kubectl("create", "namespace", name)
        cluster.kubectl("create", "serviceaccount", ACCOUNT, "-n", fleet.SYSTEM)
        cluster.kubectl(
            "create", "clusterrolebinding", "fleet", "--clusterrole=cluster-admin",
            f"--serviceaccount={fleet.SYSTEM}:{ACCOUNT}",
        )  # fmt: skip
        self._writer.run(fleet.kubelets(min(NODES_FOR_PODS, size.nodes)))
        cluster.kubectl("wait", "nodes", "--all", "--for=condition=Ready", "--timeout=120s")
        self._say("nodes that take pods: there")
        assert cluster.plane is not None
        assert cluster.plane.addresses is not None
        fleet.store(cluster.plane.addresses.etcd, fleet.agents(size))
        self._say(f"{size.nodes} HawkNodes and Leases: there")
        self._writer.run(fleet.pools(size, store))

    def _start(self, port: int) -> Running:
        kubeconfig = self._cluster.service_account_kubeconfig(fleet.SYSTEM, ACCOUNT, seconds=6 * 3600)
        log = self._processes.folder / "operator.log"
        process = self._processes.spawn(
            command(fleet.SYSTEM, port), name="operator", log=log, env={"KUBECONFIG": str(kubeconfig)}
        )
        running = Running(process, port, log)
        until(running.leads, what="the operator to lead", timeout=120)
        return running

    def _settle(self, running: Running) -> None:
        """Until every pool's pods are ready and every agent has peers, and then nothing is written."""
        pools = self._size.pools

        def ready() -> bool:
            running.process.check()
            done = running.metric("hawk_operator_pool_condition", type="DevicesReady", status="True")
            self._say(f"  pools with ready devices: {done:.0f} of {pools}")
            return done == pools

        until(ready, what="every pool's devices to be ready", timeout=1800, interval=2)

        def resting() -> bool:
            before = running.metric("hawk_operator_writes_total")
            time.sleep(self._size.rest_s)
            after = running.metric("hawk_operator_writes_total")
            self._say(f"  writes in {self._size.rest_s} s: {after - before:.0f}")
            return before == after

        until(resting, what="no more writes", timeout=1200, interval=0)

    def _idle(self, running: Running, seconds: float) -> None:
        figures, plane = self.figures, self._cluster.plane
        assert plane is not None
        pids = {name: process.pid for name, process in plane.processes.items()}
        pids["operator"] = running.process.pid
        before, wiring = buckets(running), wiring_looks(running)
        spent = {name: cpu_s(pid) for name, pid in pids.items()}
        figures.idle_s = seconds
        for _ in range(2):
            mark = self._cluster.audit_mark()
            time.sleep(seconds)
            asked = requests(self._cluster, mark)
            figures.idle_writes += sum(n for (verb, _), n in asked.items() if verb not in {*READS, "watch"})
            figures.idle_reads.append(
                {f"{verb} {what}": n / seconds for (verb, what), n in sorted(asked.items()) if verb in READS}
            )
        after = buckets(running)
        figures.idle_cores = {name: (cpu_s(pid) - spent[name]) / (2 * seconds) for name, pid in pids.items()}
        figures.idle_looks = round(after[float("inf")] - before[float("inf")])
        figures.idle_p99_s = percentile(after, before, 0.99)
        count, total = (new - old for new, old in zip(wiring_looks(running), wiring, strict=True))
        figures.wiring_s = total / count if count else 0.0

    def _restart(self, running: Running, count: int) -> float:
        """Agents come back with new epochs: seconds until their peers have them, and nobody else is written
        to."""
        names = [fleet.node_name(index) for index in range(count)]
        epochs = {name: f"{index:016x}-{count:08x}" for index, name in enumerate(names)}
        waiting = {peer["node"] for spec in self._specs(names).values() for peer in spec["peers"]} | {*names}
        concerned = frozenset(waiting)
        mark = self._cluster.audit_mark()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        begun = time.monotonic()
        self._writer.run(
            fleet.report(index, fleet.status(self._size, index, now) | {"epoch": epochs[name]})
            for index, name in enumerate(names)
        )

        def told() -> bool:
            running.process.check()
            for name, spec in self._specs(waiting).items():
                known = {peer["node"]: peer["epoch"] for peer in spec["peers"] if peer["node"] in epochs}
                own = {name: spec["expectedEpoch"]} if name in epochs else {}
                if known | own and (known | own).items() <= epochs.items():
                    waiting.discard(name)
            return not waiting

        until(told, what="the new epochs at every peer", timeout=300)
        taken = time.monotonic() - begun
        written = writes_of_nodes(self._cluster, mark)
        assert written.keys() <= concerned, f"written without need: {sorted(written.keys() - concerned)}"
        # A report may be seen in more than one look, on a busy machine or as one of a crowd.
        assert 1 < written.total() <= 2 * len(concerned), written
        return taken

    def _specs(self, names: Iterable[str]) -> dict[str, Any]:
        bodies = self._writer.read(fleet.node_path(name) for name in names)
        return {body["metadata"]["name"]: body["spec"] for body in bodies}


def install_crds(cluster: Cluster) -> None:
    """Apply our CRDs and wait until they are served."""
    crds = sorted((ROOT / "crds" / "hawk_api" / "crds").glob("*.yaml"))
    files = [word for file in crds for word in ("-f", str(file))]
    cluster.kubectl("apply", "--server-side", *files)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *files)


def requests(cluster: Cluster, since: int) -> Counter[tuple[str, str]]:
    """Requests of the operator by (verb, resource), without its own Lease, Events' repeats and reviews."""
    found: Counter[tuple[str, str]] = Counter()
    for event in cluster.audit_events(since):
        reference = event.get("objectRef") or {}
        if event["user"]["username"] != USER or reference.get("name") == "leader.hawkpool.dev":
            continue
        if "dryRun" in event.get("requestURI", "") or reference.get("resource") == "selfsubjectaccessreviews":
            continue
        found[event["verb"], reference.get("resource") or event.get("requestURI", "")] += 1
    return found


def writes_of_nodes(cluster: Cluster, since: int) -> Counter[str]:
    """The operator's writes to HawkNodes, by name."""
    return Counter(
        event["objectRef"]["name"]
        for event in cluster.audit_events(since)
        if event["user"]["username"] == USER
        and event["verb"] == "patch"
        and event["objectRef"].get("resource") == "hawknodes"
    )


def buckets(running: Running) -> dict[float, float]:
    """Looks at pools by the upper edge of their duration, seconds."""
    found = {}
    for line in running.ask("/metrics")[1].splitlines():
        if line.startswith("hawk_operator_reconcile_seconds_bucket") and 'kind="pool"' in line:
            edge = line.partition('le="')[2].partition('"')[0]
            found[float(edge.replace("+Inf", "inf"))] = float(line.rpartition(" ")[2])
    return found


def wiring_looks(running: Running) -> tuple[float, float]:
    """How many looks at the wiring there were, and the seconds that they took together."""
    name = "hawk_operator_reconcile_seconds"
    return running.metric(f"{name}_count", kind="wiring"), running.metric(f"{name}_sum", kind="wiring")


def percentile(after: dict[float, float], before: dict[float, float], share: float) -> float:
    """The smallest bucket's edge below which this share of the new looks lies."""
    new = {edge: count - before.get(edge, 0.0) for edge, count in after.items()}
    wanted = share * new[float("inf")]
    return min(edge for edge, count in new.items() if count >= wanted)


def peak_mib(pid: int) -> float:
    """The most memory that a process had resident."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel says no VmHWM")


def cpu_s(pid: int) -> float:
    """Processor seconds of a process until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(figures: Figures, path: Path) -> str:
    """Write the figures as JSON; gives them as text."""
    content: dict[str, Any] = {**asdict(figures), "missed": figures.missed()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
    return json.dumps(content, indent=2)
