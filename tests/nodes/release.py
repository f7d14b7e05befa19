"""The chart on real nodes, installed with the words of docs/install.md."""

from __future__ import annotations

import contextlib
import re
import shlex
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.cluster import CommandError

from .rig import REGISTRY, TAG

if TYPE_CHECKING:
    from .rig import Rig

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/install.md"
NAMESPACE = "hawk-system"
AGENTS = "hawk-agents"


def documented() -> list[str]:
    """The words of the page's first `helm install`, after `helm`."""
    found = re.search(r"^helm (install (?:.*\\\n)*.*)$", PAGE.read_text(), re.MULTILINE)
    assert found, f"{PAGE}: no helm install"
    words = shlex.split(found[1].replace("\\\n", " "))
    return [word.replace("REGISTRY", REGISTRY) for word in words]


class Release:
    """The one release of the chart in a cluster of real nodes."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.cluster = rig.cluster

    def install(self, *words: str) -> None:
        """Install it as documented, with the images that were built here."""
        given = [str(ROOT / word) if word == "charts/hawk" else word for word in documented()]
        self.cluster.helm(*given, "--set", f"image.tag={TAG}", *words)

    def upgrade(self, *words: str) -> None:
        """`helm upgrade` with other values; `wait` for them to be in effect."""
        chart = ROOT / "charts/hawk"
        self.cluster.helm("upgrade", "hawk", chart, "-n", NAMESPACE, "--reset-then-reuse-values", *words)

    def uninstall(self) -> None:
        """`helm uninstall`, and wait until everything of it is gone."""
        self.cluster.helm("uninstall", "hawk", "-n", NAMESPACE, "--wait", timeout=200)

    def wait(self) -> None:
        """Wait until operator and agents are rolled out."""
        for namespace, what in ((NAMESPACE, "deployment/hawk-operator"), (AGENTS, "daemonset/hawk-agent")):
            try:
                self.cluster.kubectl("-n", namespace, "rollout", "status", what, "--timeout=90s", timeout=100)
            except CommandError as error:
                raise AssertionError(f"{error}\n{self._state(namespace)}") from error

    def _state(self, namespace: str) -> str:
        """The first things that a person would look at when pods don't get ready."""
        parts = [
            self.cluster.kubectl("get", "pods", "-A", "-o", "wide"),
            self.cluster.kubectl("get", "events", "-n", namespace, "--sort-by=.lastTimestamp"),
        ]
        for pod in self.cluster.get("pods", "-n", namespace)["items"]:
            with contextlib.suppress(CommandError):
                parts.append(f"{pod['metadata']['name']}:\n{self.logs(pod)[-3000:]}")
        return "\n".join(parts)

    def operators(self) -> list[dict[str, Any]]:
        """The operator's pods."""
        return self._pods(NAMESPACE, "operator")

    def agents(self) -> dict[str, dict[str, Any]]:
        """The agents' pods by node."""
        return {pod["spec"]["nodeName"]: pod for pod in self._pods(AGENTS, "agent")}

    def leader(self) -> dict[str, Any]:
        """The operator's pod that leads."""
        lease = self.cluster.get("lease", "leader.hawkpool.dev", "-n", NAMESPACE)
        holder = lease["spec"]["holderIdentity"]
        [found] = [pod for pod in self.operators() if holder.startswith(pod["metadata"]["name"])]
        return found

    def metric(self, pod: dict[str, Any], series: str) -> float:
        """The value of one series of a pod's metrics; 0 where there is none."""
        container = pod["spec"]["containers"][0]
        [port] = [entry["containerPort"] for entry in container["ports"] if entry["name"] == "metrics"]
        address = f"http://{pod['status']['podIP']}:{port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{series} "))

    def charge(self, node: str, pod: dict[str, Any]) -> int:
        """The bytes that a pod on a node is charged with, without file caches that could be dropped."""
        return self.rig.nodes[node].charge(pod["metadata"]["uid"])

    def logs(self, pod: dict[str, Any]) -> str:
        """Return the output of one of its pods."""
        return self.cluster.kubectl("logs", "-n", pod["metadata"]["namespace"], pod["metadata"]["name"])

    def _pods(self, namespace: str, component: str) -> list[dict[str, Any]]:
        chosen = f"app.kubernetes.io/component={component}"
        pods: list[dict[str, Any]] = self.cluster.get("pods", "-n", namespace, "-l", chosen)["items"]
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
