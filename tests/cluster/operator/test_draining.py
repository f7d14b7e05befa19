"""Who goes when a group shrinks: emptied first, and from the top where a set has ordinals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until

from .running import CONTAINER, group, pool, replicas, wait_condition
from .test_peers import FakeAgent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster
    from tests.cluster.fixtures import AddNode

    from .conftest import StartOperator

pytestmark = pytest.mark.cluster

SCALING = {"interval": "1s", "behavior": {"scaleDown": {"stabilizationWindow": "1s"}}}


def stateful(name: str, namespace: str, count: int) -> dict[str, Any]:
    marks = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "serviceName": name,
            "replicas": count,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": marks},
            "template": {"metadata": {"labels": marks}, "spec": {"containers": [CONTAINER]}},
        },
    }


@pytest.fixture
def agent(cluster: Cluster, crds: list[str], namespace: str, fake_node: AddNode) -> Iterator[FakeAgent]:
    """The only node, with an agent that the test plays."""
    del crds
    made = FakeAgent(cluster, fake_node(), namespace)
    made.beat()
    yield made
    cluster.kubectl("delete", "hawknode", made.node, "--ignore-not-found")


def bounded(cluster: Cluster, namespace: str, body: dict[str, Any], count: int) -> None:
    groups = [{**item, "replicas": {"min": count, "max": count}} for item in body["spec"]["groups"]]
    cluster.apply({**body, "spec": {**body["spec"], "groups": groups}})


def region(namespace: str, worker: str, **more: Any) -> dict[str, Any]:
    made = {"pool": f"{namespace}/llama", "group": "both", "worker": worker, "layout": "f", "bytes": 1}
    return {**made, "epoch": "w-1", **more}


def asked(cluster: Cluster, node: str) -> list[str]:
    pools = cluster.get("hawknode", node).get("spec", {}).get("pools", [])
    return [name for entry in pools for name in entry.get("draining", [])]


def draining(cluster: Cluster, namespace: str) -> set[str]:
    items = cluster.get("pods", "-n", namespace, "-l", "hawkpool.dev/draining=true")["items"]
    return {item["metadata"]["name"] for item in items}


def test_the_highest_ordinal_is_emptied_and_goes_when_its_leases_have_ended(
    cluster: Cluster, operator: StartOperator, namespace: str, agent: FakeAgent
) -> None:
    operator("--resync=2")
    cluster.kubectl("create", "-f", "-", stdin=_text(stateful("engine", namespace, 3)))
    target = group("both", "Both", 3, 3, template=None, scaleTargetRef={
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "engine",
    })  # fmt: skip
    body = pool("llama", namespace, target, scaling=SCALING, drain={"timeout": "1h"})
    cluster.apply(body)
    agent.report(regions=[region(namespace, f"engine-{index}") for index in range(3)])
    wait_condition(cluster, namespace, "llama", "DevicesReady", status="True", reason="AsExpected")

    bounded(cluster, namespace, body, 2)
    found = wait_condition(cluster, namespace, "llama", "Draining", status="True", reason="WaitingForLeases")
    assert "engine-2" in found["message"]
    assert draining(cluster, namespace) == {"engine-2"}
    until(lambda: asked(cluster, agent.node) == ["both"], what="the agent to be asked about the group")
    busy = [region(namespace, f"engine-{index}", busy=index == 2) for index in range(3)]
    agent.report(regions=busy)
    until(
        lambda: "leases or transfers" in _message(cluster, namespace, "Draining"),
        what="the reason to be told",
    )
    assert replicas(cluster, namespace, "statefulsets") == {"engine": 3}

    agent.report(regions=[{**item, "busy": False} for item in busy])
    until(
        lambda: replicas(cluster, namespace, "statefulsets") == {"engine": 2},
        what="two replicas, long before the time-out",
    )
    until(lambda: asked(cluster, agent.node) == [], what="the agent to be asked no more")
    wait_condition(cluster, namespace, "llama", "Draining", status="False", reason="Idle")
    pods = {item["metadata"]["name"] for item in cluster.get("pods", "-n", namespace)["items"]}
    assert {"engine-0", "engine-1"} <= pods
    told = cluster.get("hawknode", agent.node)["spec"]["pools"]
    assert [entry["pool"] for entry in told] == [f"{namespace}/llama"]
    assert told[0]["verify"] == "Sampled"


def test_a_hand_edit_of_replicas_is_corrected(
    cluster: Cluster, operator: StartOperator, namespace: str, agent: FakeAgent
) -> None:
    operator("--resync=2")
    cluster.apply(pool("llama", namespace, group("both", "Both", 2, 2), scaling=SCALING))
    wait_condition(cluster, namespace, "llama", "DevicesReady", status="True", reason="AsExpected")
    cluster.kubectl("scale", "deployment/llama-both", "--replicas=5", "-n", namespace)

    until(lambda: replicas(cluster, namespace) == {"llama-both": 2}, what="two again")


def _message(cluster: Cluster, namespace: str, kind: str) -> str:
    conditions = cluster.get("hawkpool", "llama", "-n", namespace)["status"]["conditions"]
    return next(str(item["message"]) for item in conditions if item["type"] == kind)


def _text(body: dict[str, Any]) -> str:
    import json

    return json.dumps(body)


def test_evictions_take_one_worker_of_a_group_at_a_time(
    cluster: Cluster, operator: StartOperator, namespace: str, agent: FakeAgent
) -> None:
    """Its template has a worker wait for its leases; the group's budget has the others serve meanwhile."""
    del agent
    operator("--resync=2")
    cluster.apply(pool("llama", namespace, group("prefill", "Prefill"), group("decode", "Decode", 3, 3)))

    def counted() -> dict[str, Any]:
        items = cluster.get("poddisruptionbudgets", "-n", namespace)["items"]
        found = {item["metadata"]["name"]: item for item in items}
        assert set(found) == {"llama-prefill", "llama-decode"}
        assert found["llama-decode"]["status"]["currentHealthy"] == 3
        return found

    budgets = until(counted, what="the budgets of both groups", ignore=(AssertionError, KeyError))
    decode = cluster.get("deployment", "llama-decode", "-n", namespace)

    assert budgets["llama-decode"]["status"]["disruptionsAllowed"] == 1
    assert budgets["llama-decode"]["spec"]["selector"] == decode["spec"]["selector"]
    hook = decode["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]
    assert hook["exec"]["command"][:3] == ["python3", "-m", "hawk_agent.client.leave"]

    cluster.kubectl("delete", "hawkpool", "llama", "-n", namespace, "--timeout=60s")
    until(
        lambda: not cluster.get("poddisruptionbudgets", "-n", namespace)["items"],
        what="the budgets to go with their groups",
    )
