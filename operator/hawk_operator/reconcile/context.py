"""The collaborators of every reconcile, put together once at start."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hawk_api.names import label_value
from hawk_operator.kube.schema_check import Schema
from hawk_operator.runtime.workqueue import WIRING
from hawk_operator.wiring.peers import Wiring

if TYPE_CHECKING:
    from hawk_kube.client import Client
    from hawk_operator.cache.cluster_cache import ClusterCache
    from hawk_operator.kube.access import Access
    from hawk_operator.kube.events import Recorder
    from hawk_operator.reconcile.act import Actor
    from hawk_operator.reconcile.memory import Memories
    from hawk_operator.reconcile.observe import Observer
    from hawk_operator.reconcile.traffic_reader import TrafficReader
    from hawk_operator.runtime.metrics import Metrics
    from hawk_operator.runtime.settings import OperatorSettings
    from hawk_operator.runtime.workqueue import WorkKey, WorkQueue


@dataclass
class Shared:
    """Results that one kind of work leaves for the others."""

    wiring: Wiring = field(default_factory=Wiring)
    schema: Schema = field(default_factory=Schema)
    """Fields that the served CRDs don't have."""
    draining: dict[WorkKey, frozenset[tuple[str, str]]] = field(default_factory=dict)
    """(node, group) of the workers of each pool that are being emptied."""
    agents_refused: str = ""
    """Why the agents' pods can't be created; "" where nothing is known against it."""
    wiring_pause: float = 0.0
    """Seconds to gather events before the wiring is computed again: more where that takes longer."""
    nodes: dict[WorkKey, frozenset[str]] = field(default_factory=dict)
    """Nodes on which each pool was seen."""
    pools: dict[str, set[WorkKey]] = field(default_factory=dict)
    """The same by node: which to enqueue when a HawkNode changes."""
    children: dict[tuple[str, str], WorkKey] = field(default_factory=dict)
    """Pools by namespace and the value of the pool label."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note_nodes(self, key: WorkKey, nodes: frozenset[str]) -> bool:
        """Note a pool's nodes; whether they changed."""
        with self.lock:
            self.children[key.namespace, label_value(key.name)] = key
            before = self.nodes.get(key)
            self._move(key, before or frozenset(), nodes)
            self.nodes[key] = nodes
            return before != nodes

    def note_draining(self, key: WorkKey, workers: frozenset[tuple[str, str]]) -> bool:
        """Note which of a pool's workers are being emptied; whether that changed."""
        with self.lock:
            before = self.draining.pop(key, frozenset())
            if workers:
                self.draining[key] = workers
            return before != workers

    def forget(self, key: WorkKey) -> None:
        """The pool is gone."""
        with self.lock:
            self._move(key, self.nodes.pop(key, frozenset()), frozenset())
            self.draining.pop(key, None)
            self.children.pop((key.namespace, label_value(key.name)), None)

    def pools_on(self, node: str) -> list[WorkKey]:
        """The pools that were seen on a node."""
        with self.lock:
            return list(self.pools.get(node, ()))

    def _move(self, key: WorkKey, before: frozenset[str], after: frozenset[str]) -> None:
        for node in before - after:
            self.pools[node].discard(key)
            if not self.pools[node]:
                del self.pools[node]
        for node in after - before:
            self.pools.setdefault(node, set()).add(key)


@dataclass(frozen=True)
class ReconcileContext:
    """The parts, each safe for several threads."""

    settings: OperatorSettings
    api: Client
    access: Access
    cache: ClusterCache
    queue: WorkQueue
    metrics: Metrics
    recorder: Recorder
    observer: Observer
    actor: Actor
    traffic: TrafficReader
    memories: Memories
    shared: Shared

    def enqueue_wiring(self) -> None:
        """Enqueue the wiring, together with what else happens meanwhile."""
        self.queue.add(WIRING, self.shared.wiring_pause)
