"""One reconcile of the cluster's wiring: from pools, pods and agents to the spec of each HawkNode."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from hawk_api import labels
from hawk_api.reasons import Reason
from hawk_api.v1alpha1.hawknode import PoolTerms
from hawk_kube.errors import NotFoundError
from hawk_kube.kinds import HAWK_NODE
from hawk_operator.runtime.workqueue import pool_key
from hawk_operator.wiring.peers import Sides, is_outdated, rewired_agents, spec_of, wire_agents
from hawk_operator.wiring.place import sides_of
from hawk_operator.workloads.children import group_labels
from hawk_operator.workloads.pods import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_operator.cache.projections import PoolEntry
    from hawk_operator.reconcile.context import ReconcileContext
    from hawk_operator.runtime.workqueue import WorkKey
    from hawk_operator.wiring.peers import Agent, NodeSpec
    from hawk_operator.workloads.pods import Pod

_log = logging.getLogger(__name__)

_PAUSE: Final = 4.0
"""Pause after a reconcile, as a multiple of its duration: it gets at most a fifth of the time."""
_LONGEST_PAUSE: Final = 5.0
_WRITERS: Final = 8
_BATCH: Final = 1000
"""Most HawkNodes that are written before observing again what may have changed."""


class WiringReconciler:
    """Writes peers where they differ; the agents do the rest."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="peers")

    def reconcile(self) -> None:
        """Compute every agent's peers and apply those that changed. Raises ApiError to be retried."""
        cache, shared = self._context.cache, self._context.shared
        if not cache.agents_known() or not self._context.access.usable("patch", HAWK_NODE):
            return
        begun = time.monotonic()
        agents = cache.agents()
        self._say_lost(agents)
        pools = cache.pools()
        by_pool = wiring_sides(pools, cache.all_pods(), agents)
        wiring = wire_agents(by_pool.values(), agents)
        touched = set(rewired_agents(shared.wiring, wiring))
        shared.wiring = wiring
        shared.wiring_pause = min(_LONGEST_PAUSE, _PAUSE * (time.monotonic() - begun))
        known = "spec.pools" not in shared.schema.lacking.get(HAWK_NODE.kind, ())
        terms = terms_of(pools, by_pool, dict(shared.draining)) if known else {}
        wanted = {
            name: spec_of(agent, wiring.peers.get(name, ()), agents, terms.get(name, ()))
            for name, agent in agents.items()
        }
        due = [name for name in sorted(wanted) if is_outdated(agents[name], wanted[name])]
        touched.update(due[:_BATCH])
        try:
            list(self._writers.map(lambda name: self._write(name, wanted[name]), due[:_BATCH]))
        finally:
            if due:
                _log.info("wiring: %d agents get other peers, %d of them now", len(due), len(due[:_BATCH]))
        if len(due) > _BATCH:
            self._context.enqueue_wiring()
        for key, side in by_pool.items():
            if touched & (side.prefill | side.decode):
                self._context.queue.add(key)

    def _fitting(self, wanted: NodeSpec) -> dict[str, Any]:
        return self._context.shared.schema.fit(HAWK_NODE.kind, "spec", wanted.to_dict())

    def _say_lost(self, agents: Mapping[str, Agent]) -> None:
        """Take back the Ready of agents whose Lease expired; they say it anew when they return."""
        if not self._context.access.usable("patch", HAWK_NODE, subresource="status"):
            return
        for name in sorted(name for name, agent in agents.items() if agent.ready and not agent.live):
            condition = {
                "type": "Ready",
                "status": "Unknown",
                "reason": str(Reason.AGENT_LOST),
                "message": Reason.AGENT_LOST.meaning,
                "lastTransitionTime": timestamp(time.time()),
            }
            try:
                body = self._context.api.apply(
                    HAWK_NODE,
                    {"metadata": {"name": name}, "status": {"conditions": [condition]}},
                    subresource="status",
                )
            except NotFoundError:
                continue
            self._context.cache.apply_event(HAWK_NODE, None, body)
            self._context.metrics.writes.labels("hawknodes", "status").inc()

    def _write(self, name: str, wanted: NodeSpec) -> None:
        try:
            body = self._context.api.apply(
                HAWK_NODE, {"metadata": {"name": name}, "spec": self._fitting(wanted)}
            )
        except NotFoundError:
            return
        self._context.cache.apply_event(HAWK_NODE, None, body)
        self._context.metrics.writes.labels("hawknodes", "apply").inc()


def terms_of(
    pools: Iterable[PoolEntry],
    by_pool: Mapping[WorkKey, Sides],
    draining: Mapping[WorkKey, frozenset[tuple[str, str]]],
) -> dict[str, list[PoolTerms]]:
    """Each node's pool settings, for the pools that have workers or memory there."""
    found: dict[str, list[PoolTerms]] = {}
    for entry in pools:
        key = pool_key(entry.namespace, entry.name)
        side = by_pool.get(key)
        if side is None:
            continue
        transfer = entry.pool.spec.transfer
        told = PoolTerms(
            pool=f"{entry.namespace}/{entry.name}",
            grace=transfer.grace,
            max_grace=transfer.max_grace,
            verify=transfer.verify,
            on_failure=transfer.on_failure,
        )
        groups: dict[str, set[str]] = {}
        for node, group in draining.get(key, ()):
            groups.setdefault(node, set()).add(group)
        for node in side.prefill | side.decode:
            emptied = tuple(sorted(groups.get(node, ())))
            found.setdefault(node, []).append(
                told.model_copy(update={"draining": emptied}) if emptied else told
            )
    return found


def wiring_sides(
    pools: Iterable[PoolEntry], pods: Iterable[Pod], agents: Mapping[str, Agent]
) -> dict[WorkKey, Sides]:
    """Both sides of every pool that is not terminating; one that can't be read has none."""
    by_group: dict[tuple[str, str, str], set[str]] = {}
    for pod in pods:
        if pod.active and pod.node:
            by_group.setdefault((pod.namespace, pod.pool, pod.group), set()).add(pod.node)
    holders: dict[str, set[str]] = {}
    for agent in agents.values():
        for owner, _, _ in agent.regions:
            holders.setdefault(owner, set()).add(agent.name)
    found = {}
    for entry in pools:
        if entry.terminating:
            continue
        try:
            spec = entry.pool.spec
        except ValidationError:
            continue
        nodes = {}
        for group in spec.groups:
            own_labels = group_labels(entry.name, group.name)
            key = (entry.namespace, own_labels[labels.POOL], own_labels[labels.GROUP])
            nodes[group.name] = frozenset(by_group.get(key, ()))
        owner = f"{entry.namespace}/{entry.name}"
        with_memory = [agents[name] for name in holders.get(owner, ())]
        found[pool_key(entry.namespace, entry.name)] = sides_of(spec, owner, nodes, with_memory)
    return found
