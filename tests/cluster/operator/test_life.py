"""From apply to delete: what becomes of a pool, whatever it is like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import until

from .running import condition, dumps, exists, group, pool, replicas, wait_condition

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

    from .running import Running

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("shared_operator")]


def test_a_pool_becomes_workers_and_goes_with_them(cluster: Cluster, namespace: str, node: str) -> None:
    groups = (
        group("prefill", "Prefill", 1, 2, acceleratorClass="h100-sxm5", acceleratorsPerReplica=2),
        group("decode", "Decode", 2, 4, kvLayout={"preset": "tiles-16x16"}),
    )
    cluster.apply(pool("llama", namespace, *groups))
    wait_condition(cluster, namespace, "llama", "DevicesReady", status="True", reason="AsExpected")
    child = cluster.get("deployment", "llama-prefill", "-n", namespace)

    assert child["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    resources = child["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"] == {"nvidia.com/gpu": "2"}
    assert child["metadata"]["labels"]["hawkpool.dev/role"] == "Prefill"
    assert child["metadata"]["ownerReferences"][0]["kind"] == "HawkPool"
    found = cluster.get("hawkpool", "llama", "-n", namespace)
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert found["status"]["ratio"] == "1:4"
    kinds = {item["type"]: item["status"] for item in found["status"]["conditions"]}
    assert kinds["LayoutsCompatible"] == "True"
    assert kinds["Ready"] == "False", "a pod without an agent is no capacity"
    assert kinds["TransferVerified"] == "Unknown", "nothing was proved"
    assert [item["capacity"] for item in found["status"]["groups"]] == [0, 0]
    assert "finalizers" not in found["metadata"]

    cluster.kubectl("delete", "hawkpool", "llama", "-n", namespace, "--timeout=120s")
    until(lambda: not replicas(cluster, namespace), what="the children to go")


def test_another_ones_finalizer_is_not_disturbed(cluster: Cluster, namespace: str, node: str) -> None:
    body = pool("llama", namespace, scaling={"interval": "1s"})
    body["metadata"]["finalizers"] = ["example.com/hold"]
    for _ in range(5):
        cluster.apply(body)
        until(lambda: len(replicas(cluster, namespace)) == 2, what="two children")
        cluster.kubectl("delete", "hawkpool", "llama", "-n", namespace, "--wait=false")
        held = cluster.get("hawkpool", "llama", "-n", namespace)
        assert held["metadata"]["finalizers"] == ["example.com/hold"]
        cluster.kubectl(
            "patch", "hawkpool", "llama", "-n", namespace, "--type=json",
            "-p", '[{"op": "remove", "path": "/metadata/finalizers"}]',
        )  # fmt: skip
        until(
            lambda: not exists(cluster, "hawkpool", "llama", "-n", namespace),
            what="the pool to go",
        )
    until(lambda: not replicas(cluster, namespace), what="the children to go")


def test_a_large_template_can_be_created_changed_and_deleted(
    cluster: Cluster, namespace: str, node: str
) -> None:
    environment = [{"name": f"VARIABLE_{index}", "value": "x" * 80} for index in range(2600)]
    large = {"spec": {"containers": [{"name": "engine", "image": "example/engine:1", "env": environment}]}}
    body = pool("large", namespace, group("prefill", "Prefill", template=large), group("decode", "Decode"))
    assert len(dumps(body)) > 300_000
    cluster.kubectl("create", "-f", "-", stdin=dumps(body))
    wait_condition(cluster, namespace, "large", "DevicesReady", status="True", reason="AsExpected")

    path = "/spec/groups/0/template/spec/containers/0/image"
    change = f'[{{"op": "replace", "path": "{path}", "value": "example/engine:2"}}]'
    cluster.kubectl("patch", "hawkpool", "large", "-n", namespace, "--type=json", "-p", change)

    def image() -> str:
        child = cluster.get("deployment", "large-prefill", "-n", namespace)
        found: str = child["spec"]["template"]["spec"]["containers"][0]["image"]
        return found

    until(lambda: image() == "example/engine:2", what="the new image")
    cluster.kubectl("delete", "hawkpool", "large", "-n", namespace, "--timeout=120s")
    until(lambda: not replicas(cluster, namespace), what="the children to go")


def test_long_names_make_children_that_differ(cluster: Cluster, namespace: str, node: str) -> None:
    names = ["x" * 120 + "-a", "x" * 120 + "-b"]
    groups = (group("p" * 40 + "-prefill", "Prefill"), group("p" * 40 + "-decode", "Decode"))
    for name in names:
        cluster.apply(pool(name, namespace, *groups))
    for name in names:
        wait_condition(cluster, namespace, name, "DevicesReady", status="True", reason="AsExpected")

    assert len(replicas(cluster, namespace)) == 4
    for name in names:
        cluster.kubectl("delete", "hawkpool", name, "-n", namespace, "--timeout=120s")
    until(lambda: not replicas(cluster, namespace), what="the children to go")


def test_a_group_that_leaves_the_spec_takes_its_workload_along(
    cluster: Cluster, namespace: str, node: str
) -> None:
    both = group("both", "Both")
    cluster.apply(pool("llama", namespace, both, group("extra", "Decode")))
    until(lambda: len(replicas(cluster, namespace)) == 2, what="two children")
    cluster.apply(pool("llama", namespace, both))

    until(lambda: list(replicas(cluster, namespace)) == ["llama-both"], what="one child")


def test_a_workload_that_was_changed_by_hand_is_put_right(
    cluster: Cluster, namespace: str, node: str
) -> None:
    cluster.apply(pool("llama", namespace))
    until(lambda: len(replicas(cluster, namespace)) == 2, what="two children")
    cluster.kubectl("set", "image", "deployment/llama-decode", "engine=example/other:9", "-n", namespace)

    def image() -> str:
        child = cluster.get("deployment", "llama-decode", "-n", namespace)
        found: str = child["spec"]["template"]["spec"]["containers"][0]["image"]
        return found

    until(lambda: image() == "example/engine:1", what="the image of the spec")


def test_a_paused_pool_is_only_observed(
    cluster: Cluster, namespace: str, node: str, shared_operator: Running
) -> None:
    def looks() -> float:
        return shared_operator.metric("hawk_operator_reconciles_total", kind="pool")

    paused = {"hawkpool.dev/paused": "true"}
    cluster.apply(pool("llama", namespace, annotations=paused, scaling={"interval": "1s"}))
    wait_condition(cluster, namespace, "llama", "Scaling", status="False", reason="Paused")
    begun = looks()
    until(lambda: looks() >= begun + 3, what="three more looks")

    assert replicas(cluster, namespace) == {}
    cluster.kubectl("annotate", "hawkpool", "llama", "-n", namespace, "hawkpool.dev/paused-")
    until(lambda: len(replicas(cluster, namespace)) == 2, what="two children")
    assert condition(cluster, namespace, "llama", "Scaling")["reason"] != "ScalingOff"
