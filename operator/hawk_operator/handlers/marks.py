"""From an object that changed to the keys that may be affected. Pure but for the queue it feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hawk_api import labels
from hawk_operator.resources import CLASS, DEPLOYMENT, NODE, POD, POOL, Kind
from hawk_operator.workqueue import WIRING, Key, next_tick, pool_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hawk_operator.reconcile.context import Context

_SPREAD_SECONDS = 15.0


class Marks:
    """Feeds the queue. A mark too many costs one look; one too few costs an interval."""

    def __init__(self, context: Context, wall: Callable[[], float]) -> None:
        self._context = context
        self._wall = wall

    def changed(self, kind: Kind, event: str | None, body: Mapping[str, Any]) -> None:
        """An object was listed (event None), added, modified or deleted."""
        self._context.metrics.events.labels(kind.plural).inc()
        if kind == POOL:
            self._pool(event, body)
        elif kind in {DEPLOYMENT, POD}:
            self._child(kind, body)
        elif kind == NODE:
            self._node(body)
        elif kind == CLASS and event is not None:
            self._context.snapshot.stale(CLASS)
            self.all_pools()

    def all_pools(self) -> None:
        """Look at every pool that is known."""
        for key in self._context.memories.known():
            self._context.queue.add(key)

    def _pool(self, event: str | None, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        key = pool_key(metadata["namespace"], metadata["name"])
        self._context.snapshot.stale(POOL)
        seen = (body.get("status") or {}).get("observedGeneration")
        if event is None and seen == metadata.get("generation"):
            # Known before this process began: nothing is urgent, so hundreds of them don't come at once.
            self._context.queue.add_at(key, next_tick(metadata["uid"], _SPREAD_SECONDS, self._wall()))
            return
        self._context.queue.add(key)
        if event != "MODIFIED":
            self._context.queue.add(WIRING)

    def _child(self, kind: Kind, body: Mapping[str, Any]) -> None:
        key = owner_key(body, self._context.shared.children)
        if key is not None:
            self._context.queue.add(key)
        if kind == POD:
            self._context.snapshot.stale(POD)

    def _node(self, body: Mapping[str, Any]) -> None:
        self._context.snapshot.stale(NODE)
        queue = self._context.queue
        queue.add(WIRING)
        name = body["metadata"]["name"]
        regions = (body.get("status") or {}).get("regions") or ()
        pools = {tuple(str(region.get("pool", "")).partition("/")[::2]) for region in regions}
        for key in {*self._context.shared.on(name), *(pool_key(*pair) for pair in pools if all(pair))}:
            queue.add(key)


def owner_key(body: Mapping[str, Any], by_label: Mapping[tuple[str, str], Key]) -> Key | None:
    """The pool that a child or one of its pods belongs to.

    A child names its owner. A pod has the pool's label only, which is the pool's name or, for long names, a
    shortened one that `by_label` knows since the pool was last looked at.
    """
    metadata = body["metadata"]
    namespace = str(metadata.get("namespace", ""))
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("kind") == POOL.kind and owner.get("controller"):
            return pool_key(namespace, owner["name"])
    label = (metadata.get("labels") or {}).get(labels.POOL)
    if not label:
        return None
    return by_label.get((namespace, label))
