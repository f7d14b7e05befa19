"""Pools of reference engines, and requests that go through them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.waiting import until

from . import rig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.cluster import Cluster

GEOMETRY = {
    "layers": 4,
    "queryHeads": 2,
    "kvHeads": 2,
    "headDim": 64,
    "hidden": 128,
    "ffn": 256,
    "vocabulary": 512,
}
READY_SECONDS = 120.0
PORT = 8000


def group(
    name: str,
    role: str,
    *,
    workers: int = 1,
    nodes: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A group of reference engines on nodes with these labels; `spec` adds to the pods', `container` to the
    container's."""
    given = {"ROLE": role.lower(), **(env or {})}
    engine = {
        "name": "engine",
        "image": rig.ENGINE,
        "env": [{"name": key, "value": value} for key, value in given.items()],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 1},
        **(container or {}),
    }
    pods = {
        "nodeSelector": dict(nodes or {}),
        "terminationGracePeriodSeconds": 5,
        "securityContext": {"runAsUser": 0},
        "containers": [engine],
        **(spec or {}),
    }
    preset = "row-major" if role == "Prefill" else "tiles-16x16"
    return {
        "name": name,
        "role": role,
        "replicas": {"min": workers, "max": workers},
        "kvLayout": {"preset": preset},
        "template": {"spec": pods},
    }


@dataclass(frozen=True)
class Answer:
    """The end of one request: both sides' digests of the KV, and how the push ended."""

    outcome: str
    message: str
    transport: str
    sent: str
    arrived: str

    @property
    def right(self) -> bool:
        """True if the same bytes are at both ends."""
        return self.outcome == "success" and self.sent == self.arrived


class EngineError(AssertionError):
    """An engine refused; the message holds its words."""


class Pool:
    """A HawkPool in the cluster."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.name = name

    def apply(self, *groups: dict[str, Any], **spec: Any) -> None:
        """`kubectl apply` the pool."""
        self.cluster.apply(
            {
                "apiVersion": "hawkpool.dev/v1alpha1",
                "kind": "HawkPool",
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": {
                    "model": {"geometry": GEOMETRY, "kvDtype": "float16"},
                    "groups": list(groups),
                    "transfer": {"verify": "Always"},
                    **spec,
                },
            }
        )

    def conditions(self) -> dict[str, dict[str, str]]:
        """The pool's conditions by type."""
        body = self.cluster.get("hawkpool", self.name, "-n", self.namespace)
        return {item["type"]: item for item in body.get("status", {}).get("conditions", ())}

    def wait(
        self, kind: str = "Ready", status: str = "True", timeout: float = READY_SECONDS
    ) -> dict[str, str]:
        """Wait for a condition; TimeoutError with what they all say."""
        seen: dict[str, dict[str, str]] = {}

        def there() -> bool:
            seen.clear()
            seen.update(self.conditions())
            return seen.get(kind, {}).get("status") == status

        try:
            until(there, what=f"{kind}={status} of {self.name}", timeout=timeout, interval=0.2)
        except TimeoutError as error:
            pods = self.cluster.kubectl("get", "pods", "-A", "-o", "wide")
            raise TimeoutError(f"{error}\n{json.dumps(seen, indent=1)}\n{pods}") from error
        return seen[kind]

    def workers(self, group: str) -> list[dict[str, Any]]:
        """The running pods of a group, by name."""
        chosen = f"hawkpool.dev/pool={self.name},hawkpool.dev/group={group}"
        pods = self.cluster.get("pods", "-n", self.namespace, "-l", chosen)["items"]
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]

    def transfer(
        self, prefill: Mapping[str, Any], decode: Mapping[str, Any], *, tokens: int = 100, seed: int = 1
    ) -> Answer:
        """Send one request's KV from one pod to another. EngineError when either refuses."""
        request, ticket = self.reserve(decode, tokens=tokens)
        return self.finish(prefill, decode, request, ticket, tokens=tokens, seed=seed)

    def reserve(self, decode: Mapping[str, Any], *, tokens: int = 100) -> tuple[str, str]:
        """Take a lease on a decode pod's memory; the request's name and the ticket."""
        request = uuid.uuid4().hex
        return request, str(call(decode, "/reserve", request=request, tokens=tokens)["ticket"])

    def finish(
        self,
        prefill: Mapping[str, Any],
        decode: Mapping[str, Any],
        request: str,
        ticket: str,
        *,
        tokens: int = 100,
        seed: int = 1,
    ) -> Answer:
        """Send the KV of a request that holds a lease."""
        with ThreadPoolExecutor(1) as pool:
            # Decode waits while prefill sends, and a push has ended when decode has acknowledged it.
            pushing = pool.submit(call, prefill, "/prefill", ticket=ticket, tokens=tokens, seed=seed)
            arrived = call(decode, "/finish", request=request)
            pushed = pushing.result()
        return Answer(
            pushed["outcome"], pushed["message"], pushed["transport"], pushed["sha256"], arrived["sha256"]
        )


def call(pod: Mapping[str, Any], path: str, **body: Any) -> dict[str, Any]:
    """POST to an engine (GET without a body); its answer. EngineError with its words."""
    address = pod["status"]["podIP"]
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"http://{address}:{PORT}{path}", data)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            found: dict[str, Any] = json.load(reply)
            return found
    except urllib.error.HTTPError as error:
        with error:
            raise EngineError(f"{pod['metadata']['name']}{path}: {error.read().decode()}") from None
