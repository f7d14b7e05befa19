"""Many pools and many agents, written to a real API server as fast as it takes them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
import urllib.request
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from hawk_kube import config
from hawk_kube.connection import tls
from tests.cluster.components import FAKE_NODE_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

NAMESPACE: Final = "fleet"
SYSTEM: Final = "hawk-system"
GROUP: Final = "hawkpool.dev/v1alpha1"
_AT_ONCE: Final = 32
_TRANSACTION: Final = 100
_APPLY: Final = {"Content-Type": "application/apply-patch+yaml"}
Call = tuple[str, str, dict[str, Any] | None]
"""Method, path, and what to send."""
_LEASE_SECONDS: Final = 24 * 3600
"""Agents that never die: what their renewals cost the API server is not the operator's doing."""


@dataclass(frozen=True)
class Size:
    """How many of each, how long a HawkNode's JSON is (bytes), and how often a pool is decided about."""

    pools: int
    nodes: int
    node_bytes: int = 4096
    workers: int = 4
    """Nodes with memory of each pool, as far as there are so many; the agents of the others are idle."""
    interval_s: int = 15
    window_s: int = 60
    """Of the traffic that a decision is about."""

    @property
    def rest_s(self) -> int:
        """Seconds after a change: its outcome is written when a window of traffic was served by it; nothing
        follows."""
        return self.window_s + 2 * self.interval_s


def node_name(index: int) -> str:
    """The name of a node and its HawkNode."""
    return f"node-{index:05d}"


def node_path(name: str) -> str:
    """Where the API server has a HawkNode."""
    return f"/apis/{GROUP}/hawknodes/{name}"


def pool_name(index: int) -> str:
    """The name of a pool."""
    return f"pool-{index:04d}"


def pool(size: Size, index: int, store: str) -> dict[str, Any]:
    """A pool with traffic, which the Prometheus at `store` sees, and two templates."""
    container = {"name": "engine", "image": "example/engine:1"}
    return {
        "apiVersion": GROUP,
        "kind": "HawkPool",
        "metadata": {"name": pool_name(index), "namespace": NAMESPACE},
        "spec": {
            "model": {"preset": "mistral-7b-instruct-v0.2"},
            "scaling": {"interval": f"{size.interval_s}s"},
            "traffic": {"prometheus": {"url": store}, "window": f"{size.window_s}s"},
            "objectives": {
                "ttft": {"percentile": 95, "target": "500ms"},
                "itl": {"percentile": 99, "target": "30ms"},
            },
            "groups": [
                {
                    "name": role.lower(),
                    "role": role,
                    "acceleratorClass": device,
                    "replicas": {"min": 1, "max": 4},
                    "template": {"spec": {"containers": [container]}},
                    **({"kvLayout": {"preset": "tiles-16x16"}} if role == "Decode" else {}),
                }
                for role, device in (("Prefill", "h100-sxm5"), ("Decode", "decode-npu"))
            ],
        },
    }


def status(size: Size, index: int, now: str) -> dict[str, Any]:
    """A HawkNode's status as its agent writes it: memory of one pool, and links, filled up to real size."""
    name = node_name(index)
    group = ("prefill", "decode")[index // size.pools % 2]
    fingerprint = hashlib.sha256(name.encode()).hexdigest()
    busy = index < size.workers * size.pools
    made: dict[str, Any] = {
        "epoch": f"{index:016x}-0badcafe",
        "version": "0.1.0",
        "protocol": 1,
        "address": f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}:7443",
        "hostId": fingerprint[:36],
        "regions": [
            {
                "pool": f"{NAMESPACE}/{pool_name(index % size.pools)}",
                "group": group,
                "worker": f"worker-{index}",
                "layout": fingerprint,
                "bytes": 64 << 30,
                "epoch": "w-1",
            }
        ][:busy],
        "regionCount": int(busy),
        "links": {"up": 0, "down": 0, "verified": 0},
        "rails": [],
        "verifiedPeers": [],
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": "AsExpected",
                "message": "what this condition looks at is as it should be",
                "lastTransitionTime": now,
            }
            for kind in ("Ready", "Wired")
        ],
    }
    while len(made["rails"]) < 16 and len(json.dumps(made)) < size.node_bytes - 300:
        made["rails"].append(
            {
                "name": f"rail{len(made['rails'])}",
                "transport": "verbs",
                "address": f"10.9.{len(made['rails'])}.1",
                "gid": "0000:0000:0000:0000:0000:ffff:0a09:0001",
                "mtu": 4096,
                "maxSge": 30,
                "maxWr": 8192,
                "maxMessageBytes": 1 << 30,
            }
        )
    return made


class Writer:
    """Reads and writes with the rights of a kubeconfig, many at a time; any answer but success ends it."""

    def __init__(self, kubeconfig: Path) -> None:
        endpoint = config.from_files([kubeconfig])
        self._server = endpoint.server
        self._tls = tls(endpoint, endpoint.credentials.login())

    def run(self, calls: Iterable[Call]) -> int:
        """Send (method, path, body), in no order; gives how many there were. RuntimeError on a refusal."""
        return len(asyncio.run(self._run(iter(calls))))

    def read(self, paths: Iterable[str]) -> list[Any]:
        """The objects at some paths, in no order; those that aren't there are a RuntimeError, too."""
        return asyncio.run(self._run(("GET", path, None) for path in paths))

    async def _run(self, calls: Iterator[Call]) -> list[Any]:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=_AT_ONCE)
        async with aiohttp.ClientSession(self._server, connector=connector) as session:
            found = await asyncio.gather(*(self._take(session, calls) for _ in range(_AT_ONCE)))
        return [body for bodies in found for body in bodies]

    async def _take(self, session: aiohttp.ClientSession, calls: Iterator[Call]) -> list[Any]:
        bodies = []
        for method, path, body in calls:
            headers = _APPLY if method == "PATCH" else {"Content-Type": "application/json"}
            content = None if body is None else json.dumps(body)
            async with session.request(method, path, data=content, headers=headers) as answer:
                if answer.status >= 300:
                    raise RuntimeError(f"{method} {path}: {answer.status}: {await answer.text()}")
                bodies.append(await answer.json())
        return bodies


def kubelets(count: int) -> Iterator[Call]:
    """Nodes for which kwok plays the kubelet."""
    for index in range(count):
        node = _object("v1", "Node", node_name(index))
        node["metadata"] |= {"annotations": {FAKE_NODE_ANNOTATION: "fake"}, "labels": {"type": "fake"}}
        resources = {"cpu": "64", "memory": "512Gi", "pods": "250", "nvidia.com/gpu": "250"}
        yield "POST", "/api/v1/nodes", node | {"status": {"capacity": resources, "allocatable": resources}}


def agents(size: Size) -> Iterator[tuple[str, dict[str, Any]]]:
    """HawkNodes and Leases with the keys under which the API server keeps them."""
    now = datetime.now(UTC)
    second = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    for index in range(size.nodes):
        name = node_name(index)
        node = _object(GROUP, "HawkNode", name)
        node["metadata"] |= {"generation": 1, **_born(f"node-{name}", second)}
        yield f"/registry/hawkpool.dev/hawknodes/{name}", node | {"status": status(size, index, second)}
        lease = _object("coordination.k8s.io/v1", "Lease", name, SYSTEM)
        lease["metadata"] |= _born(f"lease-{name}", second)
        lease["spec"] = {
            "holderIdentity": f"{index:016x}-0badcafe",
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "leaseDurationSeconds": _LEASE_SECONDS,
        }
        yield f"/registry/leases/{SYSTEM}/{name}", lease


def store(port: int, objects: Iterable[tuple[str, dict[str, Any]]]) -> int:
    """Write objects into the API server's etcd on a port of 127.0.0.1, as a backup is restored; gives how
    many. The API server itself would take some milliseconds of a core for each."""

    def text(value: str) -> str:
        return base64.b64encode(value.encode()).decode()

    count = 0
    remaining = iter(objects)
    while batch := list(itertools.islice(remaining, _TRANSACTION)):
        puts = [{"requestPut": {"key": text(k), "value": text(json.dumps(v))}} for k, v in batch]
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v3/kv/txn", json.dumps({"success": puts}).encode()
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            if not json.load(answer).get("succeeded"):
                raise RuntimeError(f"etcd took none of {len(batch)} objects from {batch[0][0]} on")
        count += len(batch)
    return count


def _born(seed: str, second: str) -> dict[str, str]:
    """Add what the API server adds to an object that is created."""
    return {"uid": str(uuid.uuid5(uuid.NAMESPACE_URL, seed)), "creationTimestamp": second}


def report(index: int, body: dict[str, Any]) -> Call:
    """One agent's status."""
    path = f"{node_path(node_name(index))}/status?fieldManager=hawk-agent&force=true"
    return "PATCH", path, {**_object(GROUP, "HawkNode", node_name(index)), "status": body}


def pools(size: Size, store: str) -> Iterator[Call]:
    """The pools."""
    for index in range(size.pools):
        yield "POST", f"/apis/{GROUP}/namespaces/{NAMESPACE}/hawkpools", pool(size, index, store)


def _object(version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
