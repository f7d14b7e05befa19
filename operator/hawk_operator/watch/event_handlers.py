"""From an object that changed to the keys that may be affected."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hawk_kube.kinds import ACCELERATOR_CLASS, DEPLOYMENT, HAWK_NODE, HAWK_POOL, POD, ResourceKind
from hawk_operator.cache import projections
from hawk_operator.runtime.workqueue import WorkKey, next_tick, pool_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hawk_operator.cache.indexer import Change
    from hawk_operator.cache.projections import PoolEntry
    from hawk_operator.reconcile.context import ReconcileContext
    from hawk_operator.wiring.peers import Agent
    from hawk_operator.workloads.pods import Pod

_SPREAD_SECONDS = 15.0


class EventHandlers:
    """Puts what changed into its indexer and feeds the queue.

    A key too many costs one reconcile; one too few costs an interval.
    """

    def __init__(self, context: ReconcileContext, wall: Callable[[], float]) -> None:
        self._context = context
        self._wall = wall

    def handle(self, kind: ResourceKind, event: str | None, body: Mapping[str, Any]) -> None:
        """An object was listed (event None), added, modified or deleted."""
        self._context.metrics.events.labels(kind.plural).inc()
        change = self._context.cache.apply_event(kind, event, body)
        if kind == HAWK_POOL:
            self._pool(event, body, change)
        elif change is None:
            return
        elif kind == DEPLOYMENT:
            self._child(change)
        elif kind == POD:
            self._pod(change)
        elif kind == HAWK_NODE:
            self._node(change)
        elif kind == ACCELERATOR_CLASS and event is not None:
            self.enqueue_all_pools()

    def enqueue_all_pools(self) -> None:
        """Enqueue every known pool."""
        for key in self._context.memories.known():
            self._context.queue.add(key)

    def _pool(self, event: str | None, body: Mapping[str, Any], change: Change[PoolEntry] | None) -> None:
        metadata = body["metadata"]
        key = pool_key(metadata["namespace"], metadata["name"])
        if event is None and _observed(body):
            # Known before this process began: nothing is urgent, so hundreds of them don't come at once.
            self._context.queue.add_at(key, next_tick(metadata["uid"], _SPREAD_SECONDS, self._wall()))
            return
        if change is None or (change.before and change.after and _same_spec(change.before, change.after)):
            return
        self._context.queue.add(key)
        if event != "MODIFIED":
            self._context.enqueue_wiring()

    def _child(self, change: Change[dict[str, Any]]) -> None:
        body = change.after or change.before
        assert body is not None
        self._enqueue_owner(owner_key(body), *projections.index_by_pool(body))

    def _pod(self, change: Change[Pod]) -> None:
        pod = change.after or change.before
        assert pod is not None
        self._enqueue_owner(None, (pod.namespace, pod.pool))

    def _enqueue_owner(self, owner: WorkKey | None, label: tuple[str, str]) -> None:
        """Enqueue the owner, or the pool that is known by its label."""
        key = owner or self._context.shared.children.get(label)
        if key is not None:
            self._context.queue.add(key)

    def _node(self, change: Change[Agent]) -> None:
        if not (change.before and change.after) or _wiring(change.before) != _wiring(change.after):
            self._context.enqueue_wiring()
        for agent in (change.before, change.after):
            for key in () if agent is None else (*self._context.shared.pools_on(agent.name), *_owners(agent)):
                self._context.queue.add(key)


def _observed(body: Mapping[str, Any]) -> bool:
    """True if the pool's status is about its present spec."""
    seen = (body.get("status") or {}).get("observedGeneration")
    return bool(seen == body["metadata"].get("generation"))


def _same_spec(before: PoolEntry, after: PoolEntry) -> bool:
    """True if only the status moved, which is what reconciles themselves write."""
    old, new = before.body["metadata"], after.body["metadata"]
    return all(old.get(k) == new.get(k) for k in ("uid", "generation", "annotations", "deletionTimestamp"))


def _wiring(agent: Agent) -> Agent:
    """The fields that the wiring depends on: proofs don't change who is whose peer."""
    return replace(agent, verified=frozenset(), problems=(), busy=())


def _owners(agent: Agent) -> Iterable[WorkKey]:
    pairs = {owner.partition("/")[::2] for owner, _, _ in agent.regions}
    return [pool_key(*pair) for pair in pairs if all(pair)]


def owner_key(body: Mapping[str, Any]) -> WorkKey | None:
    """The pool that controls a child; a Deployment that only carries the labels is nobody's."""
    metadata = body["metadata"]
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("kind") == HAWK_POOL.kind and owner.get("controller"):
            return pool_key(str(metadata["namespace"]), owner["name"])
    return None
