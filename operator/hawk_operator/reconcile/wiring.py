"""One look at the wiring of the whole cluster: from pools, pods and agents to the spec of each HawkNode."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hawk_api import labels
from hawk_api.v1alpha1 import HawkPoolSpec
from hawk_operator.cluster_api import NotFoundError
from hawk_operator.resources import NODE
from hawk_operator.wiring.peers import Sides, outdated, spec_of, wire
from hawk_operator.wiring.place import sides_of
from hawk_operator.workloads import pods as pod_facts
from hawk_operator.workloads.children import group_labels
from hawk_operator.workqueue import pool_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_operator.cluster_api import Object
    from hawk_operator.reconcile.context import Context
    from hawk_operator.wiring.peers import Agent

_log = logging.getLogger(__name__)


class WiringReconciler:
    """Writes peers where they differ; the agents do the rest."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def reconcile(self) -> None:
        """Compute every agent's peers and apply those that changed. Raises ApiCallError to be retried."""
        snapshot, shared = self._context.snapshot, self._context.shared
        if not snapshot.agents_known() or not self._context.access.usable("patch", NODE):
            return
        pools, pods, agents = snapshot.pools(), snapshot.pool_pods(), snapshot.agents()
        wiring = wire(sides(pools, pods, agents), agents)
        moved = wiring != shared.wiring
        shared.wiring = wiring
        changed: set[str] = set()
        for name, agent in sorted(agents.items()):
            wanted = spec_of(agent, wiring.peers.get(name, ()), agents)
            if outdated(agent, wanted):
                self._write(name, wanted)
                changed.add(name)
        if changed:
            _log.info("wiring: wrote the peers of %d agents", len(changed))
            snapshot.stale(NODE)
        if moved or changed:
            for pool in pools:
                self._context.queue.add(pool_key(pool["metadata"]["namespace"], pool["metadata"]["name"]))

    def _write(self, name: str, wanted: Object) -> None:
        try:
            self._context.api.apply(NODE, {"metadata": {"name": name}, "spec": wanted})
        except NotFoundError:
            return
        self._context.metrics.writes.labels("hawknodes", "apply").inc()


def sides(pools: list[Object], pods: list[Object], agents: Mapping[str, Agent]) -> list[Sides]:
    """Both sides of every pool that is not going away; one that can't be read has none."""
    by_group: dict[tuple[str, str, str], set[str]] = {}
    for body in pods:
        marks = body["metadata"].get("labels") or {}
        pod = pod_facts.read(body)
        if pod.active and pod.node:
            key = (pod.namespace, marks.get(labels.POOL, ""), marks.get(labels.GROUP, ""))
            by_group.setdefault(key, set()).add(pod.node)
    found = []
    for pool in pools:
        metadata = pool["metadata"]
        if metadata.get("deletionTimestamp"):
            continue
        try:
            spec = HawkPoolSpec.model_validate(pool.get("spec"))
        except ValidationError:
            continue
        nodes = {}
        for group in spec.groups:
            marks = group_labels(metadata["name"], group.name)
            key = (metadata["namespace"], marks[labels.POOL], marks[labels.GROUP])
            nodes[group.name] = frozenset(by_group.get(key, ()))
        found.append(sides_of(spec, f"{metadata['namespace']}/{metadata['name']}", nodes, agents.values()))
    return found
