"""The objects that all pools share, kept in memory: pools, children, pods, agents and their Leases,
classes, scalers.

Reconciling a pool reads nothing from the API server while nothing changes. The watches put every change into
an indexer at once; lists put everything there now and then, so a watch that died silently costs that long and
nothing else. A reconcile that finds something to write is repeated with live reads first (`live_read`): the
cache is good enough to decide that nothing is to be done, not to act on.

Lists bound themselves: one that took a second is not made again before twenty have passed. So the operator
spends at most a twentieth of its time on them, in clusters of any size.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hawk_kube.kinds import (
    ACCELERATOR_CLASS,
    AUTOSCALER,
    CONFIG_MAP,
    DEPLOYMENT,
    HAWK_NODE,
    HAWK_POOL,
    LEASE,
    POD,
    SCALED_OBJECT,
    ResourceKind,
)
from hawk_operator.cache import classes, projections
from hawk_operator.cache.indexer import Indexer
from hawk_operator.wiring import liveness
from hawk_operator.workloads.children import MANAGED, pool_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hawk_api.v1alpha1 import AcceleratorClassSpec
    from hawk_kube.client import Client, Object
    from hawk_operator.cache.indexer import Change
    from hawk_operator.cache.projections import PoolEntry
    from hawk_operator.kube.access import Access
    from hawk_operator.runtime.settings import OperatorSettings
    from hawk_operator.wiring.peers import Agent
    from hawk_operator.workloads.pods import Pod

SHARE: Final = 0.05
"""The most of the time that lists of one kind take."""
_LEASE_AGE: Final = 3.0
_SCALER_AGE: Final = 15.0
_MAP_AGE: Final = 30.0


class ClusterCache:
    """The indexers and how they are filled; safe for several threads."""

    def __init__(
        self,
        api: Client,
        access: Access,
        settings: OperatorSettings,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._access = access
        self._namespace = settings.namespace or None
        self._system = settings.system_namespace
        self._clock = clock
        self._wall = wall
        self._pools: Indexer[PoolEntry] = Indexer(projections.PoolEntry, lambda entry: [entry.namespace])
        self._agents: Indexer[Agent] = Indexer(projections.project_agent, projections.index_by_owner)
        self._pods: Indexer[Pod] = Indexer(projections.project_pod, lambda pod: [(pod.namespace, pod.pool)])
        self._children: Indexer[Object] = Indexer(projections.project_child, projections.index_by_pool)
        self._classes: Indexer[Object] = Indexer(projections.project_object)
        self._indexers: dict[ResourceKind, Indexer[Any]] = {
            HAWK_POOL: self._pools,
            HAWK_NODE: self._agents,
            POD: self._pods,
            DEPLOYMENT: self._children,
            ACCELERATOR_CLASS: self._classes,
        }
        self._locks = {kind: threading.Lock() for kind in (*self._indexers, LEASE, AUTOSCALER, SCALED_OBJECT)}
        self._known: tuple[int, Mapping[str, AcceleratorClassSpec]] = (-1, {})
        self._maps: dict[tuple[str, str], tuple[Object, float]] = {}
        self._due: dict[ResourceKind, float] = {}
        self._scalers: dict[ResourceKind, dict[str, list[Object]]] = {}
        self._beats: dict[str, liveness.Beat] = {}
        self._beats_at = 0.0
        self._living: frozenset[str] = frozenset()

    # Events and lists

    def apply_event(
        self, kind: ResourceKind, event: str | None, body: Mapping[str, Any]
    ) -> Change[Any] | None:
        """Apply a watch event; None if it changes nothing that anybody reads."""
        indexer = self._indexers[kind]
        return indexer.delete(body) if event == "DELETED" else indexer.update(body)

    def refresh(self, kind: ResourceKind, interval: float) -> list[Change[Any]]:
        """List a kind if the last list is `interval` seconds old, and long enough for what it cost."""
        if self._clock() < self._due.get(kind, float("-inf")) or not self._may_list(kind):
            return []
        with self._locks[kind]:
            return self._list(kind, interval)

    def _list(self, kind: ResourceKind, interval: float) -> list[Change[Any]]:
        begun = self._clock()
        version, bodies = self._read(kind)
        changes: list[Change[Any]] = self._indexers[kind].replace(version, bodies)
        self._due[kind] = begun + max(interval, (self._clock() - begun) / SHARE)
        return changes

    def _read(self, kind: ResourceKind) -> tuple[int, Iterable[Mapping[str, Any]]]:
        """The list's resourceVersion, known from its first page, and the objects page by page."""
        namespace = self._namespace if kind.namespaced else None
        pages = self._api.pages(kind, namespace, MANAGED if kind in {POD, DEPLOYMENT} else "")
        version, first = next(pages)

        def bodies() -> Iterable[Mapping[str, Any]]:
            yield from first
            for _, items in pages:
                yield from items

        return int(version) if version.isdecimal() else 0, bodies()

    def _may_list(self, kind: ResourceKind) -> bool:
        return kind not in {HAWK_NODE, ACCELERATOR_CLASS} or self._access.usable("list", kind)

    def _listed(self, kind: ResourceKind) -> None:
        """Make sure that a kind was listed once."""
        if kind not in self._due:
            with self._locks[kind]:
                if kind not in self._due:
                    self._list(kind, 0.0)

    # Pools, children, pods

    def pools(self) -> list[PoolEntry]:
        """Every HawkPool that is served."""
        self._listed(HAWK_POOL)
        return self._pools.all()

    def pools_in(self, namespace: str) -> list[PoolEntry]:
        """The HawkPools of one namespace."""
        self._listed(HAWK_POOL)
        return self._pools.by_index(namespace)

    def pool(self, namespace: str, name: str, *, live_read: bool) -> PoolEntry:
        """One pool; `live_read`, or not seen yet: by asking the API server. Raises ApiError."""
        if not live_read:
            self._listed(HAWK_POOL)
            found = self._pools.get(namespace, name)
            if found is not None:
                return found
        return self.put_pool(self._api.get(HAWK_POOL, name, namespace))

    def put_pool(self, body: Object) -> PoolEntry:
        """Take in a pool that was just read or written."""
        self._pools.update(body)
        return projections.PoolEntry(body)

    def children(self, namespace: str, pool: str, *, live_read: bool) -> list[Object]:
        """The Deployments with a pool's label."""
        return self._of_pool(DEPLOYMENT, self._children, namespace, pool, live_read=live_read)

    def put_child(self, body: Object) -> None:
        """Take in a child that was just written."""
        self._children.update(body)

    def pods(self, namespace: str, pool: str, *, live_read: bool) -> list[Pod]:
        """The pods with a pool's label."""
        return self._of_pool(POD, self._pods, namespace, pool, live_read=live_read)

    def all_pods(self) -> list[Pod]:
        """Every pod that belongs to a child of some pool."""
        self._listed(POD)
        return self._pods.all()

    def _of_pool(
        self, kind: ResourceKind, indexer: Indexer[Any], namespace: str, pool: str, *, live_read: bool
    ) -> list[Any]:
        selector = pool_labels(pool)
        if not live_read:
            self._listed(kind)
            return indexer.by_index((namespace, selector[projections.POOL_LABEL]))
        bodies = self._api.list(kind, namespace, selector)
        for body in bodies:
            indexer.update(body)
        reduce = projections.project_pod if kind == POD else projections.project_child
        return [reduce(body) for body in bodies]

    def config_map(self, namespace: str, name: str, *, live_read: bool) -> Object:
        """A ConfigMap that a pool names, at most `_MAP_AGE` seconds old: nothing watches them. Raises
        ApiError."""
        now = self._clock()
        kept, read_at = self._maps.get((namespace, name), ({}, float("-inf")))
        if not live_read and now - read_at < _MAP_AGE:
            return kept
        body = self._api.get(CONFIG_MAP, name, namespace)
        self._maps = {ref: entry for ref, entry in self._maps.items() if now - entry[1] < _MAP_AGE}
        self._maps[namespace, name] = (body, now)
        return body

    # Classes and other scalers

    def classes(self) -> list[Object] | None:
        """Every AcceleratorClass; None without the right to read them."""
        if not self._access.usable("list", ACCELERATOR_CLASS):
            return None
        self._listed(ACCELERATOR_CLASS)
        return self._classes.all()

    def known_classes(self) -> Mapping[str, AcceleratorClassSpec]:
        """The classes in their parsed form, parsed again when one of them changed."""
        revision, known = self._known
        if revision != self._classes.revision:
            revision, bodies = self._classes.revision, self.classes()
            known = classes.parse_classes(bodies)
            self._known = (revision, known)
        return known

    def put_pod(self, body: Object) -> None:
        """Take in a pod that was just written."""
        self._pods.update(body)

    def put_class(self, body: Object) -> None:
        """Take in a class that was just written."""
        self._classes.update(body)

    def autoscalers(self, namespace: str) -> list[Object]:
        """Every HorizontalPodAutoscaler and ScaledObject of a namespace."""
        found: list[Object] = []
        for kind in (AUTOSCALER, SCALED_OBJECT):
            if self._access.usable("list", kind, self._namespace or ""):
                found += self._scalers_of(kind).get(namespace, ())
        return found

    def _scalers_of(self, kind: ResourceKind) -> dict[str, list[Object]]:
        """Scalers by namespace. Nothing watches them: they are few and seldom change."""
        with self._locks[kind]:
            begun = self._clock()
            if begun >= self._due.get(kind, float("-inf")):
                by_namespace: dict[str, list[Object]] = {}
                for body in self._api.list(kind, self._namespace):
                    found = by_namespace.setdefault(body["metadata"]["namespace"], [])
                    found.append({**body, "kind": kind.kind})
                self._scalers[kind] = by_namespace
                self._due[kind] = begun + max(_SCALER_AGE, (self._clock() - begun) / SHARE)
            return self._scalers[kind]

    # Agents

    def agents_known(self) -> bool:
        """True if agents can be seen at all."""
        return self._access.usable("list", HAWK_NODE) and self._access.usable("list", LEASE, self._system)

    def agents(self) -> dict[str, Agent]:
        """Every agent by the name of its HawkNode; none without the right to read them."""
        if not self.agents_known():
            return {}
        self._listed(HAWK_NODE)
        living = self.living()
        return {agent.name: _with_liveness(agent, living) for agent in self._agents.all()}

    def agents_of(self, owner: str, nodes: Iterable[str]) -> dict[str, Agent]:
        """The agents that matter to one pool (`namespace/name`): on its pods' nodes, and with its memory."""
        if not self.agents_known():
            return {}
        self._listed(HAWK_NODE)
        living = self.living()
        found = {agent.name: agent for agent in self._agents.by_index(owner)}
        for name in nodes:
            agent = found.get(name) or self._agents.get("", name)
            if agent is not None:
                found[name] = agent
        return {name: _with_liveness(agent, living) for name, agent in sorted(found.items())}

    def living(self) -> frozenset[str]:
        """The HawkNodes whose agents live, by the last list of the Leases."""
        return self._living if LEASE in self._due else self.refresh_living()

    def refresh_living(self) -> frozenset[str]:
        """List the Leases if the last list is a few seconds old, and long enough for what it cost.

        Time at whose end they can't be listed doesn't count against the agents: where the API server is away,
        they can't renew either.
        """
        if not self._access.usable("list", LEASE, self._system):
            return frozenset()
        with self._locks[LEASE]:
            begun = self._clock()
            if begun < self._due.get(LEASE, float("-inf")):
                return self._living
            passed, self._beats_at = begun - self._beats_at, begun
            pages = self._api.pages(LEASE, self._system)
            leases = (lease for _, items in pages for lease in items)
            self._beats = liveness.observe_beats(self._beats, leases, passed, self._wall())
            self._living = liveness.living_agents(self._beats)
            self._due[LEASE] = begun + max(_LEASE_AGE, (self._clock() - begun) / SHARE)
            return self._living


def _with_liveness(agent: Agent, living: frozenset[str]) -> Agent:
    """An agent with what its Lease says: in the indexer it is alive unless its HawkNode is terminating."""
    return agent if agent.live and agent.name in living else replace(agent, live=False)
