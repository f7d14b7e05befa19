"""A cluster of real nodes: everything built, started, and gone at the end."""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from images import archive, content, layers
from tests.cluster import binaries
from tests.cluster.cluster import Cluster
from tests.support import cache
from tests.support.supervisor import Supervisor
from tests.support.waiting import until

from . import cgroups, dns, network, store, tools
from .node import Control, Node
from .settings import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.progress import Progress

NODES: Mapping[str, Mapping[str, str]] = {
    "n1": {"side": "prefill"},
    "n2": {"side": "decode"},
    "n3": {"side": "decode"},
}
REGISTRY = "hawk.test"
TAG = "test"
SANDBOX = "hawk.test/pause:1"
ENGINE = "hawk.test/engine:1"
ENGINE_FILES = Path(__file__).parent / "engine"
CACHES = Path(__file__).parents[1] / "e2e/demo/caches.py"
READY_SECONDS = 90.0


@dataclass(frozen=True)
class Parts:
    """All that is built before anything starts. `images` is the store that holds them."""

    programs: binaries.Programs
    clients: binaries.Clients
    tools: tools.Tools
    images: Path


def build(progress: Progress) -> Parts:
    """Build and fetch everything; quick when the cache holds it. Raises MissingToolError and BuildError."""
    found = tools.find(progress)
    programs, clients = binaries.programs(progress), binaries.clients(progress)
    operator, agent = (
        content.build(component, f"{REGISTRY}/hawkpool-{component}:{TAG}", progress)
        for component in content.COMPONENTS
    )
    scripts = {f"opt/engine/{path.name}": path for path in sorted(ENGINE_FILES.glob("*.py"))}
    engine = layers.files("engine", scripts, progress)
    run = ("python3", "-u", "/opt/engine/engine.py")
    images = (
        operator,
        agent,
        archive.Image(SANDBOX, operator.layers[:1], entrypoint=("sleep", "infinity")),
        archive.Image(ENGINE, (*agent.layers, engine), entrypoint=run),
    )
    return Parts(programs, clients, found, store.unpacked(images, found, progress))


class Rig:
    """A running cluster; `nodes` by name."""

    def __init__(
        self, cluster: Cluster, nodes: dict[str, Node], supervisor: Supervisor, parts: Parts
    ) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.parts = parts
        self._supervisor = supervisor

    @classmethod
    @contextlib.contextmanager
    def running(cls, progress: Progress, labels: Mapping[str, Mapping[str, str]] = NODES) -> Iterator[Self]:
        """Build what is missing, start a control plane and nodes with these labels, end them with the block.

        This thread, and what it starts, is in the cluster's network meanwhile.
        """
        parts = build(progress)
        with contextlib.ExitStack() as stack:
            stack.enter_context(network.own_network())
            supervisor = stack.enter_context(Supervisor())
            cluster = stack.enter_context(
                Cluster.started(supervisor, parts.programs, parts.clients, progress, host=network.GATEWAY)
            )
            rig = cls(cluster, _nodes(cluster, supervisor, parts, labels), supervisor, parts)
            stack.callback(rig._stop)
            stack.enter_context(dns.served(cluster))
            with progress.step(f"starting {len(rig.nodes)} nodes"):
                rig.start()
            yield rig

    def start(self, *names: str) -> None:
        """Start nodes (all of them without names) and wait until they are Ready."""
        chosen = [self.nodes[name] for name in names or self.nodes]
        for node in chosen:
            node.start(self._supervisor, self.parts.images)
        for node in chosen:
            until(
                lambda node=node: self._ready(node), what=f"node {node.name} is Ready", timeout=READY_SECONDS
            )

    def _ready(self, node: Node) -> bool:
        node.check()
        listed = self.cluster.get("nodes", f"--field-selector=metadata.name={node.name}")["items"]
        return any(
            condition["type"] == "Ready" and condition["status"] == "True" and not item["spec"].get("taints")
            for item in listed
            for condition in item["status"].get("conditions", ())
        )

    def _stop(self) -> None:
        for node in self.nodes.values():
            node.remove()
        cgroups.remove()


def _nodes(
    cluster: Cluster, supervisor: Supervisor, parts: Parts, labels: Mapping[str, Mapping[str, str]]
) -> dict[str, Node]:
    plane = cluster.plane
    assert plane is not None
    assert plane.addresses is not None
    assert plane.authority is not None
    _grant_proxy(cluster)
    cgroups.remove()
    control = Control(plane.addresses.server, plane.authority, plane.folder / "pki/ca.crt")
    (cache.root() / "nodes").mkdir(parents=True, exist_ok=True)
    # Beside the store, for hard links to it.
    folder = Path(tempfile.mkdtemp(dir=cache.root() / "nodes"))
    supervisor.remove_at_end(folder)
    nodes = {}
    for index, (name, own) in enumerate(labels.items(), 1):
        home = folder / f"{name}-{uuid.uuid4().hex[:6]}"
        place = Place(home, home / "images", control.certificate, SANDBOX, parts.tools.cni)
        nodes[name] = Node(
            name,
            index,
            len(labels),
            place=place,
            control=control,
            programs=parts.programs,
            tools=parts.tools,
            labels=own,
        )
    return nodes


def _grant_proxy(cluster: Cluster) -> None:
    cluster.kubectl(
        "create",
        "clusterrolebinding",
        "kube-proxy",
        "--clusterrole=system:node-proxier",
        "--user=system:kube-proxy",
    )
