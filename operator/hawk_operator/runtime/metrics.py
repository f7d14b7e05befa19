"""The operator's own metrics; their names and labels are part of its interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from collections.abc import Iterable

_POOL = ("namespace", "pool")


class Metrics:
    """One registry with everything that the operator counts; safe for several threads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.leading = Gauge(
            "hawk_operator_leading",
            "1 while this process holds the Lease and may write, otherwise 0.",
            registry=self.registry,
        )
        self.pools = Gauge("hawk_operator_pools", "HawkPools found by the last list.", registry=self.registry)
        self.queue = Gauge(
            "hawk_operator_queue_keys",
            "Keys by `state`: waiting for their time, or being worked on.",
            ["state"],
            registry=self.registry,
        )
        self.reconciles = Counter(
            "hawk_operator_reconciles_total",
            "Reconciles by `kind` (pool, wiring) and `outcome` (success, retry, error).",
            ["kind", "outcome"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "hawk_operator_reconcile_seconds",
            "Duration of a reconcile in seconds by `kind` (pool, wiring), queries to Prometheus included.",
            ["kind"],
            buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 2, 5, 10, 30),
            registry=self.registry,
        )
        self.events = Counter(
            "hawk_operator_watch_events_total",
            "Watch events by `resource` (plural name).",
            ["resource"],
            registry=self.registry,
        )
        self.restarts = Counter(
            "hawk_operator_watch_restarts_total",
            "Times that the watching was begun anew after it had failed.",
            registry=self.registry,
        )
        self.lists = Counter(
            "hawk_operator_lists_total",
            "Periodic lists of the pools by `outcome` (success, failure).",
            ["outcome"],
            registry=self.registry,
        )
        self.throttled = Counter(
            "hawk_operator_api_throttled_total",
            "Responses of the API server that asked to wait.",
            registry=self.registry,
        )
        self.writes = Counter(
            "hawk_operator_writes_total",
            "Writes to the API server by `resource` (plural name) and `what` (apply, status, scale, patch, "
            "delete).",
            ["resource", "what"],
            registry=self.registry,
        )
        self.condition = Gauge(
            "hawk_operator_pool_condition",
            "1 for the present `status` (True, False, Unknown) of each condition `type` of a `pool` "
            "in its `namespace`.",
            [*_POOL, "type", "status"],
            registry=self.registry,
        )
        self.replicas = Gauge(
            "hawk_operator_pool_replicas",
            "Replicas of a `group` with its `role`, by `state`: desired (decided), requested (asked of "
            "the API), ready, capacity (ready on a node with a live agent).",
            [*_POOL, "group", "role", "state"],
            registry=self.registry,
        )
        self.decisions = Counter(
            "hawk_operator_decisions_total",
            "Decisions by `pool`, `namespace` and `reason`.",
            [*_POOL, "reason"],
            registry=self.registry,
        )
        self._groups: dict[tuple[str, str], set[tuple[str, str]]] = {}

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def show_conditions(self, namespace: str, pool: str, conditions: Iterable[tuple[str, str]]) -> None:
        """Set the gauges of a pool from (type, status) pairs."""
        for kind, status in conditions:
            for value in ("True", "False", "Unknown"):
                self.condition.labels(namespace, pool, kind, value).set(1 if value == status else 0)

    def show_replicas(
        self, namespace: str, pool: str, rows: Iterable[tuple[str, str, dict[str, int]]]
    ) -> None:
        """Set the gauges of a pool from (group, role, count by state); groups that are gone disappear."""
        present = set()
        for group, role, counts in rows:
            present.add((group, role))
            for state, count in counts.items():
                self.replicas.labels(namespace, pool, group, role, state).set(count)
        for group, role in self._groups.get((namespace, pool), set()) - present:
            self.replicas.remove_by_labels(
                {"namespace": namespace, "pool": pool, "group": group, "role": role}
            )
        self._groups[namespace, pool] = present

    def forget(self, namespace: str, pool: str) -> None:
        """Drop every series of a pool that is gone."""
        self._groups.pop((namespace, pool), None)
        for family in (self.condition, self.replicas, self.decisions):
            family.remove_by_labels({"namespace": namespace, "pool": pool})
