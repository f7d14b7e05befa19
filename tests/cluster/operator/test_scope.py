"""An operator with rights in one namespace alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until

from .running import pool, replicas, wait_condition

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

    from .conftest import StartOperator

pytestmark = pytest.mark.cluster

RULES: list[dict[str, Any]] = [
    {"apiGroups": ["hawkpool.dev"], "resources": ["hawkpools"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["hawkpool.dev"], "resources": ["hawkpools/status"], "verbs": ["patch"]},
    {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        "verbs": ["list", "watch", "create", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["get", "create", "patch"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": ["list"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "list"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": ["leader.hawkpool.dev"],
        "verbs": ["get", "update"],
    },
]


def test_roles_suffice_and_nothing_is_refused(
    cluster: Cluster, operator: StartOperator, namespace: str, node: str
) -> None:
    account = {"name": "narrow", "namespace": namespace}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": account, "rules": RULES},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": account,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "narrow"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
    )
    elsewhere = f"{namespace[:50]}-other"
    cluster.kubectl("create", "namespace", elsewhere)
    mark = cluster.audit_mark()
    try:
        cluster.apply(pool("theirs", elsewhere), pool("ours", namespace, scaling={"interval": "1s"}))
        running = operator(kubeconfig=cluster.service_account_kubeconfig(namespace, "narrow"))
        wait_condition(cluster, namespace, "ours", "DevicesReady", status="True", reason="AsExpected")
        wait_condition(cluster, namespace, "ours", "Wired", status="Unknown", reason="NotObserved")

        assert replicas(cluster, elsewhere) == {}
        # The list at the start may see the pods ready before the watch of pods has begun.
        until(
            lambda: running.metric("hawk_operator_watch_events_total", resource="pods") > 0,
            what="an event of the watch of pods",
        )
        user = f"system:serviceaccount:{namespace}:narrow"
        mine = [event for event in cluster.audit_events(mark) if event["user"]["username"] == user]
        assert mine
        refused = [event["requestURI"] for event in mine if event["responseStatus"].get("code") == 403]
        assert refused == []
    finally:
        cluster.kubectl("delete", "namespace", elsewhere, "--wait=false")
