"""The process: restarts, its end, and what it leaves alone."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import until

from .running import pool, wait_condition

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

    from .conftest import StartOperator

pytestmark = pytest.mark.cluster

OTHERS = ("kubectl", "kube-controller-manager", "kwok", "kube-scheduler", "kube-apiserver")


def writes(cluster: Cluster, since: int, namespace: str) -> list[str]:
    """Writes in a namespace since a mark, but for the cluster's own parts', Leases and tries."""
    found = []
    for event in cluster.audit_events(since):
        reference = event.get("objectRef", {})
        agent = event.get("userAgent", "")
        if (
            event["verb"] in {"create", "update", "patch", "delete"}
            and not agent.startswith(OTHERS)
            and reference.get("namespace") == namespace
            and reference.get("resource") != "leases"
            and "dryRun" not in event.get("requestURI", "")
        ):
            found.append(f"{event['verb']} {reference.get('resource')}/{reference.get('name')} by {agent}")
    return found


def test_a_restart_writes_nothing(
    cluster: Cluster, operator: StartOperator, namespace: str, node: str
) -> None:
    first = operator("--identity=the-same")
    cluster.apply(pool("llama", namespace, scaling={"interval": "1s"}))
    wait_condition(cluster, namespace, "llama", "DevicesReady", status="True", reason="AsExpected")
    until(lambda: first.metric("hawk_operator_queue_keys", state="busy") == 0, what="the operator to rest")
    before = cluster.get("hawkpool", "llama", "-n", namespace)["metadata"]["resourceVersion"]
    first.process.kill()
    mark = cluster.audit_mark()

    second = operator("--identity=the-same")  # the Lease is still its own: nothing to wait for
    until(
        lambda: second.metric("hawk_operator_reconciles_total", kind="pool", outcome="success") >= 3,
        what="three looks at the pool",
    )

    assert writes(cluster, 0, namespace), "the first process wrote, and the audit log says so"
    assert writes(cluster, mark, namespace) == []
    assert cluster.get("hawkpool", "llama", "-n", namespace)["metadata"]["resourceVersion"] == before
    assert second.metric("hawk_operator_writes_total") == 0


def test_it_ends_in_seconds_and_frees_the_lease(
    cluster: Cluster, operator: StartOperator, namespace: str
) -> None:
    running = operator()
    running.process.signal(signal.SIGTERM)

    assert running.process.wait(15) == 0
    lease = cluster.get("lease", "leader.hawkpool.dev", "-n", namespace)
    assert not lease["spec"].get("holderIdentity")


def test_what_is_not_ours_stays_untouched(
    cluster: Cluster, operator: StartOperator, namespace: str, node: str
) -> None:
    strangers = [
        body
        for index in range(17)
        for body in (
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"s-{index}", "namespace": namespace},
            },
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"c-{index}", "namespace": namespace},
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p-{index}", "namespace": namespace},
                "spec": {"containers": [{"name": "main", "image": "example/other:1"}]},
            },
        )
    ]
    cluster.apply(*strangers)
    cluster.kubectl("wait", "pods", "--all", "-n", namespace, "--for=condition=Ready", "--timeout=120s")

    def versions() -> dict[str, str]:
        items = cluster.get("secrets,configmaps,pods", "-n", namespace)["items"]
        return {
            f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
            for item in items
            if not item["metadata"]["name"].startswith("llama")
        }

    before = versions()
    running = operator("--resync=1")
    cluster.apply(pool("llama", namespace, scaling={"interval": "1s"}))
    wait_condition(cluster, namespace, "llama", "DevicesReady", status="True", reason="AsExpected")
    until(lambda: running.metric("hawk_operator_reconciles_total", kind="pool") >= 5, what="five looks")

    assert versions() == before
    for item in cluster.get("pods,deployments,hawkpools", "-n", namespace)["items"]:
        marks = [*item["metadata"].get("annotations", {}), *item["metadata"].get("finalizers", [])]
        assert not [mark for mark in marks if "kopf" in mark or "last-handled" in mark], item["metadata"][
            "name"
        ]
