"""Specs that can't work change nothing, and a condition names the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until

from .running import CONTAINER, group, pool, replicas, wait_condition

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("shared_operator")]


@pytest.mark.parametrize(
    ("body", "kind", "reason", "words"),
    [
        (
            {"model": {"configMapRef": {"name": "absent"}}},
            "Ready",
            "ConfigMapMissing",
            ["spec.model.configMapRef", "absent"],
        ),
        (
            {"groups": [group("both", "Both", acceleratorClass="h1000")]},
            "Ready",
            "UnknownAcceleratorClass",
            ["groups[0].acceleratorClass", "h1000"],
        ),
        (
            {
                "groups": [
                    group("both", "Both", template={"spec": {"containers": [{**CONTAINER, "name": "UPPER"}]}})
                ]
            },
            "DevicesReady",
            "ChildRefused",
            ["containers[0].name", "UPPER"],
        ),
        (
            {
                "groups": [
                    group(
                        "both", "Both", template=None, scaleTargetRef={"kind": "Deployment", "name": "absent"}
                    )
                ]
            },
            "DevicesReady",
            "ScaleTargetMissing",
            ["absent"],
        ),
        (
            {
                "groups": [
                    group(
                        "both",
                        "Both",
                        template=None,
                        scaleTargetRef={"apiVersion": "batch/v1", "kind": "Job", "name": "x"},
                    )
                ]
            },
            "DevicesReady",
            "ScaleTargetMissing",
            ["Job", "no scale subresource"],
        ),
    ],
    ids=["config map", "class", "template", "absent target", "unscalable target"],
)
def test_a_pool_that_cannot_work_says_why(
    cluster: Cluster, namespace: str, body: dict[str, Any], kind: str, reason: str, words: list[str]
) -> None:
    cluster.apply(
        pool("bad", namespace, **body) if "groups" not in body else pool("bad", namespace, *body["groups"])
    )
    found = wait_condition(cluster, namespace, "bad", kind, status="False", reason=reason)

    for word in words:
        assert word in found["message"]
    assert replicas(cluster, namespace) == {}


def test_one_broken_pool_holds_up_no_other(cluster: Cluster, namespace: str, node: str) -> None:
    bad = group("both", "Both", template={"spec": {"containers": [{**CONTAINER, "name": "UPPER"}]}})
    for index in range(3):
        cluster.apply(pool(f"bad-{index}", namespace, bad))
    cluster.apply(pool("good", namespace))

    wait_condition(cluster, namespace, "good", "DevicesReady", status="True", reason="AsExpected")


def test_a_deployment_of_the_childs_name_is_not_taken_over(
    cluster: Cluster, namespace: str, node: str
) -> None:
    marks = {"app": "mine"}
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "llama-both",
            "namespace": namespace,
            "labels": {"hawkpool.dev/pool": "llama", "app.kubernetes.io/managed-by": "hawkpool"},
        },
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": marks},
            "template": {"metadata": {"labels": marks}, "spec": {"containers": [CONTAINER]}},
        },
    }
    cluster.apply(theirs)
    cluster.apply(pool("llama", namespace, group("both", "Both")))
    wait_condition(cluster, namespace, "llama", "DevicesReady", status="False", reason="ChildConflict")

    assert replicas(cluster, namespace) == {"llama-both": 0}


def deployment(name: str, namespace: str, count: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [CONTAINER]}},
        },
    }


def test_a_target_has_one_master(cluster: Cluster, namespace: str, node: str) -> None:
    """The older of two pools scales it, and an autoscaler has precedence over both."""
    cluster.kubectl("create", "-f", "-", stdin=_text(deployment("engine", namespace, 1)))
    target = group(
        "both", "Both", 3, 3, template=None, scaleTargetRef={"kind": "Deployment", "name": "engine"}
    )
    scaling = {"interval": "1s"}
    cluster.apply(pool("first", namespace, target, scaling=scaling))
    until(lambda: replicas(cluster, namespace) == {"engine": 3}, what="three replicas")
    until(
        lambda: cluster.get("hawkpool", "first", "-n", namespace)["status"]["prefill"] == 3,
        what="three ready",
    )
    second = {**target, "replicas": {"min": 5, "max": 5}}
    cluster.apply(pool("second", namespace, second, scaling=scaling))
    found = wait_condition(cluster, namespace, "second", "Scaling", status="False", reason="Conflicted")
    assert "first" in found["message"]
    assert replicas(cluster, namespace) == {"engine": 3}

    cluster.apply(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "rival", "namespace": namespace},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "engine"},
                "maxReplicas": 9,
            },
        }
    )
    found = wait_condition(cluster, namespace, "first", "Scaling", status="False", reason="Conflicted")
    assert "HorizontalPodAutoscaler rival" in found["message"]
    cluster.kubectl("scale", "deployment/engine", "--replicas=2", "-n", namespace)
    looks = cluster.get("hawkpool", "first", "-n", namespace)["metadata"]["resourceVersion"]
    until(
        lambda: cluster.get("hawkpool", "first", "-n", namespace)["metadata"]["resourceVersion"] != looks,
        what="the pool to see two",
    )
    assert replicas(cluster, namespace) == {"engine": 2}


def test_a_pool_that_no_node_can_take_says_so_and_asks_for_no_more(
    cluster: Cluster, namespace: str, node: str
) -> None:
    devices = group("both", "Both", 1, 4, acceleratorClass="h100-sxm5", acceleratorsPerReplica=999)
    cluster.apply(pool("big", namespace, devices, scaling={"interval": "1s"}))
    found = wait_condition(cluster, namespace, "big", "DevicesReady", status="False", reason="Unschedulable")

    assert "nvidia.com/gpu" in found["message"]
    assert "both" in found["message"]


def _text(body: dict[str, Any]) -> str:
    import json

    return json.dumps(body)
