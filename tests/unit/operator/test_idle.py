"""Looks at pools in which nothing changed: no request at all, whatever the number of pools and nodes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hawk_api.v1alpha1 import HawkPool
from hawk_kube.errors import NotFoundError
from hawk_kube.kinds import DEPLOYMENT, DISRUPTION_BUDGET, HAWK_NODE, HAWK_POOL, LEASE, POD, ResourceKind
from hawk_operator.cache.cluster_cache import ClusterCache
from hawk_operator.kube.schema_check import Schema
from hawk_operator.reconcile.act import Actor
from hawk_operator.reconcile.context import ReconcileContext, Shared
from hawk_operator.reconcile.memory import Memories
from hawk_operator.reconcile.observe import Observer
from hawk_operator.reconcile.pool import PoolReconciler
from hawk_operator.reconcile.traffic_reader import TrafficReader
from hawk_operator.reconcile.wiring import WiringReconciler
from hawk_operator.runtime.metrics import Metrics
from hawk_operator.runtime.settings import OperatorSettings
from hawk_operator.runtime.workqueue import WorkQueue, pool_key
from hawk_operator.workloads import children

from .build import group_spec, pod_body

NOW = 1_800_000_000.0
NAMES = ("a", "b", "c")
NODES = ("n1", "n2", "n3")


class Api:
    """An API server in memory, as far as looks use it; every request is noted."""

    def __init__(self) -> None:
        self.objects: dict[tuple[ResourceKind, str], dict[str, Any]] = {}
        self.asked: list[str] = []
        self.version = 0

    def put(self, kind: ResourceKind, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        name = body["metadata"]["name"]
        before = self.objects.get((kind, name), {})
        metadata = {**before.get("metadata", {}), **body["metadata"], "resourceVersion": str(self.version)}
        self.objects[kind, name] = {**before, **body, "metadata": metadata}
        return self.objects[kind, name]

    def get(self, kind: ResourceKind, name: str, namespace: str | None = None) -> dict[str, Any]:
        self.asked.append(f"get {kind.plural}/{name}")
        if (kind, name) not in self.objects:
            raise NotFoundError(f"get {kind.plural}/{name}: not found", 404)
        return self.objects[kind, name]

    def list(
        self, kind: ResourceKind, namespace: str | None = None, labels: Any = None
    ) -> list[dict[str, Any]]:
        self.asked.append(f"list {kind.plural}")
        found = [body for (of, _), body in self.objects.items() if of == kind]
        marks = (labels or {}).items()
        return [body for body in found if marks <= body["metadata"].get("labels", {}).items()]

    def pages(self, kind: ResourceKind, namespace: str | None = None, labels: Any = None) -> Any:
        yield str(self.version), self.list(kind, namespace, labels)

    def apply(
        self, kind: ResourceKind, body: dict[str, Any], *, dry_run: bool = False, subresource: str = ""
    ) -> dict[str, Any]:
        self.asked.append(f"apply {kind.plural}/{body['metadata']['name']} {subresource}".strip())
        return body if dry_run else self.put(kind, body)


@pytest.fixture
def api() -> Api:
    made = Api()
    for index, name in enumerate(NAMES):
        metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": 1}
        groups = [group_spec("p", "Prefill", most=1), group_spec("d", "Decode", most=1)]
        body = {
            "apiVersion": "hawkpool.dev/v1alpha1",
            "kind": "HawkPool",
            "metadata": metadata,
            "spec": {"model": {"preset": "llama-3.3-70b"}, "groups": groups},
        }
        made.put(HAWK_POOL, body)
        read = HawkPool.model_validate(body)
        for group in read.spec.groups:
            child = children.render_child(read, group, None, 1, "/run/hawk")
            child["metadata"]["uid"] = f"uid-{child['metadata']['name']}"
            made.put(DEPLOYMENT, child)
            worker = pod_body(f"{child['metadata']['name']}-0", node=NODES[index])
            worker["metadata"]["labels"] = child["metadata"]["labels"]
            made.put(POD, worker)
    for node in NODES:
        made.put(
            HAWK_NODE, {"metadata": {"name": node}, "status": {"epoch": f"{node}-1", "address": f"{node}:1"}}
        )
        spec = {"holderIdentity": "x", "renewTime": "2027-01-15T08:00:00Z", "leaseDurationSeconds": 99}
        made.put(LEASE, {"metadata": {"name": node}, "spec": spec})
    return made


@pytest.fixture
def context(api: Api) -> ReconcileContext:
    return started(api)


def started(api: Api) -> ReconcileContext:
    """An operator that has seen nothing yet."""
    settings, metrics = OperatorSettings(), Metrics()
    access: Any = SimpleNamespace(usable=lambda verb, kind, namespace="", **_: kind.group != "keda.sh")
    cache = ClusterCache(api, access, settings, clock=lambda: 5.0, wall=lambda: NOW)  # type: ignore[arg-type]
    return ReconcileContext(
        settings=settings,
        api=api,  # type: ignore[arg-type]
        access=access,
        cache=cache,
        queue=WorkQueue(),
        metrics=metrics,
        recorder=SimpleNamespace(record=lambda *_: None),  # type: ignore[arg-type]
        observer=Observer(api, cache),  # type: ignore[arg-type]
        actor=Actor(api, cache, metrics, settings),  # type: ignore[arg-type]
        traffic=TrafficReader(1),
        memories=Memories(),
        shared=Shared(),
    )


def look(context: ReconcileContext) -> None:
    pools = PoolReconciler(context, wall=lambda: NOW)
    for name in NAMES:
        pools.reconcile(pool_key("ns", name))
    WiringReconciler(context).reconcile()


def test_a_second_look_at_unchanged_pools_asks_the_api_server_for_nothing(
    api: Api, context: ReconcileContext
) -> None:
    look(context)
    look(context)  # the wiring of the first look is news to the pools
    api.asked.clear()
    look(context)

    assert api.asked == []


def test_an_operator_that_starts_anew_writes_nothing(api: Api, context: ReconcileContext) -> None:
    look(context)
    look(context)
    api.asked.clear()
    successor = started(api)
    look(successor)
    look(successor)

    assert "get poddisruptionbudgets/a-p" in api.asked
    assert [call for call in api.asked if call.startswith("apply")] == []


def test_a_disruption_budget_that_is_not_as_it_should_be_is_applied(
    api: Api, context: ReconcileContext
) -> None:
    look(context)
    api.objects[DISRUPTION_BUDGET, "a-p"]["spec"] = {"maxUnavailable": 5}
    del api.objects[DISRUPTION_BUDGET, "a-d"]
    api.asked.clear()
    look(started(api))

    applied = [call for call in api.asked if call.startswith("apply poddisruptionbudgets")]
    assert applied == ["apply poddisruptionbudgets/a-p", "apply poddisruptionbudgets/a-d"]


def test_what_has_to_be_written_is_decided_on_fresh_reads(api: Api, context: ReconcileContext) -> None:
    look(context)
    look(context)
    api.asked.clear()
    edited = api.put(DEPLOYMENT, {"metadata": {"name": "b-p"}, "spec": {"replicas": 7}})
    context.cache.apply_event(DEPLOYMENT, "MODIFIED", edited)
    look(context)

    assert api.asked[:4] == [
        "get hawkpools/b",
        "list deployments",
        "list pods",
        "apply deployments/b-p",
    ]
    assert api.objects[DEPLOYMENT, "b-p"]["spec"]["replicas"] == 1


def test_an_old_view_does_nothing(api: Api, context: ReconcileContext) -> None:
    """A watch told of an edit, and missed that somebody took it back."""
    look(context)
    look(context)
    right = api.objects[DEPLOYMENT, "b-p"]
    edited = api.put(DEPLOYMENT, {"metadata": {"name": "b-p"}, "spec": {**right["spec"], "replicas": 7}})
    context.cache.apply_event(DEPLOYMENT, "MODIFIED", edited)
    api.put(DEPLOYMENT, {"metadata": {"name": "b-p"}, "spec": right["spec"]})
    api.asked.clear()
    look(context)

    assert not [call for call in api.asked if call.startswith("apply")]
    api.asked.clear()
    look(context)
    assert api.asked == [], "and the view is as new as the read"


def test_only_the_pools_on_a_node_hear_of_its_agent(api: Api, context: ReconcileContext) -> None:
    from hawk_operator.watch.event_handlers import EventHandlers

    look(context)
    look(context)
    context.queue._agenda.due.clear()
    body = api.put(HAWK_NODE, {"metadata": {"name": "n2"}, "status": {"epoch": "n2-2", "address": "n2:1"}})
    EventHandlers(context, lambda: NOW).handle(HAWK_NODE, "MODIFIED", body)

    assert {key.name for key in context.queue._agenda.due if key.kind == "pool"} == {"b"}


def test_a_status_that_an_older_crd_cuts_is_not_written_again(api: Api, context: ReconcileContext) -> None:
    context.shared.schema = Schema({"HawkPool": frozenset({"status.decisions[].observed"})})
    look(context)
    look(context)
    assert "observed" not in api.objects[HAWK_POOL, "a"]["status"]["decisions"][0]
    api.asked.clear()
    look(context)

    assert api.asked == []
