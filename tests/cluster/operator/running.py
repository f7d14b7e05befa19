"""An operator process, and the objects that its tests make."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.cluster.cluster import CommandError
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.cluster import Cluster
    from tests.support.supervisor import Process

CONTAINER = {"name": "engine", "image": "example/engine:1"}


@dataclass
class Running:
    """An operator process with its port."""

    process: Process
    port: int
    log: Path

    def ask(self, path: str) -> tuple[int, str]:
        """Status and body of its HTTP port."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def healthy(self) -> bool:
        """True if /healthz says so; False also before it listens."""
        self.process.check()
        try:
            return self.ask("/healthz")[0] == 200
        except OSError:
            return False

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have the labels."""
        total = 0.0
        for line in self.ask("/metrics")[1].splitlines():
            head, _, value = line.rpartition(" ")
            if head.partition("{")[0] == name and all(f'{k}="{v}"' in head for k, v in labels.items()):
                total += float(value)
        return total

    def leads(self) -> bool:
        """True if it may write and has listed the pools."""
        return (
            self.healthy()
            and self.metric("hawk_operator_leading") == 1
            and self.metric("hawk_operator_lists_total", outcome="success") > 0
        )

    def text(self) -> str:
        """Its log."""
        return self.log.read_text(errors="replace")


def command(namespace: str, port: int, *arguments: str) -> list[str]:
    """The command line of an operator whose Leases are in `namespace`."""
    return [
        sys.executable,
        "-m",
        "hawk_operator.main",
        f"--system-namespace={namespace}",
        "--bind-address=127.0.0.1",
        f"--metrics-port={port}",
        "--retry-period=0.5",
        *arguments,
    ]


def group(name: str, role: str, least: int = 1, most: int | None = None, **more: Any) -> dict[str, Any]:
    """A group with a template of one container."""
    found = {
        "name": name,
        "role": role,
        "replicas": {"min": least, "max": most or max(1, least)},
        "template": {"spec": {"containers": [CONTAINER]}},
        **more,
    }
    return {key: value for key, value in found.items() if value is not None}


def pool(name: str, namespace: str, *groups: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A HawkPool; one prefill and one decode group where none are given."""
    annotations = spec.pop("annotations", {})
    return {
        "apiVersion": "hawkpool.dev/v1alpha1",
        "kind": "HawkPool",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {
            "model": {"preset": "llama-3.3-70b"},
            "groups": list(groups) or [group("prefill", "Prefill"), group("decode", "Decode")],
            **spec,
        },
    }


def condition(cluster: Cluster, namespace: str, name: str, kind: str) -> dict[str, Any]:
    """One condition of a pool; an empty one while it is absent."""
    found = cluster.get("hawkpool", name, "-n", namespace).get("status", {}).get("conditions", [])
    return next((item for item in found if item["type"] == kind), {})


def wait_condition(
    cluster: Cluster, namespace: str, name: str, kind: str, *, status: str, reason: str
) -> dict[str, Any]:
    """Wait until a condition has this status and reason."""

    def probe() -> dict[str, Any]:
        found = condition(cluster, namespace, name, kind)
        assert (found.get("status"), found.get("reason")) == (status, reason), found
        return found

    return until(probe, what=f"{kind} of {name} to be {status} ({reason})")


def replicas(cluster: Cluster, namespace: str, kind: str = "deployments") -> dict[str, int]:
    """Replicas asked for, by name."""
    items = cluster.get(kind, "-n", namespace)["items"]
    return {item["metadata"]["name"]: item["spec"]["replicas"] for item in items}


def exists(cluster: Cluster, *arguments: str) -> bool:
    """True if an object is there."""
    try:
        cluster.get(*arguments)
    except CommandError as error:
        if "NotFound" in error.stderr:
            return False
        raise
    return True


def dumps(body: dict[str, Any]) -> str:
    """An object as kubectl's standard input."""
    return json.dumps(body)
