"""Groups of pods that one replica stands for: a LeaderWorkerSet, whose controller the test plays.

The CRD has the real one's group, version, kind and scale subresource. As the real one does, its selector for
autoscalers chooses leaders alone, and pods are called SET-GROUP and SET-GROUP-WORKER.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until

from .running import CONTAINER, group, pool, wait_condition
from .test_draining import SCALING, asked, bounded, draining, region
from .test_peers import FakeAgent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster
    from tests.cluster.fixtures import AddNode

    from .conftest import StartOperator

pytestmark = pytest.mark.cluster

GROUP, SET = "leaderworkerset.x-k8s.io", "engine"
CRD_NAME = f"leaderworkersets.{GROUP}"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": CRD_NAME},
    "spec": {
        "group": GROUP,
        "names": {"kind": "LeaderWorkerSet", "plural": "leaderworkersets", "singular": "leaderworkerset"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": OPEN, "status": OPEN}}
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.hpaPodSelector",
                    },
                },
            }
        ],
    },
}


class Groups:
    """Three groups of a leader on one node and a worker on another, and what the controller does to them."""

    def __init__(self, cluster: Cluster, namespace: str, leads: FakeAgent, follows: FakeAgent) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.leads, self.follows = leads, follows
        marks = f"leaderworkerset.sigs.k8s.io/name={SET},leaderworkerset.sigs.k8s.io/worker-index=0"
        cluster.apply(
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": "LeaderWorkerSet",
                "metadata": {"name": SET, "namespace": namespace},
                "spec": {"replicas": 3, "leaderWorkerTemplate": {"size": 2}},
            }
        )
        status = json.dumps({"status": {"replicas": 3, "hpaPodSelector": marks}})
        cluster.kubectl(
            "patch",
            "leaderworkerset",
            SET,
            "-n",
            namespace,
            "--subresource=status",
            "--type=merge",
            "-p",
            status,
        )
        cluster.apply(*(self._pod(index, worker) for index in range(3) for worker in range(2)))
        self.report()

    def _pod(self, index: int, worker: int) -> dict[str, Any]:
        labels = {
            "leaderworkerset.sigs.k8s.io/name": SET,
            "leaderworkerset.sigs.k8s.io/group-index": str(index),
            "leaderworkerset.sigs.k8s.io/worker-index": str(worker),
        }
        node = (self.follows if worker else self.leads).node
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{SET}-{index}-{worker}" if worker else f"{SET}-{index}",
                "namespace": self.namespace,
                "labels": labels,
            },
            "spec": {"nodeName": node, "containers": [CONTAINER]},
        }

    def report(self, **told: bool) -> None:
        """Both agents tell of the groups' memory; with `busy`, whether the last worker's is in use."""
        idle = {"busy": False} if told else {}
        self.leads.report(regions=[region(self.namespace, f"{SET}-{i}", **idle) for i in range(3)])
        rest = [region(self.namespace, f"{SET}-{i}-1", **idle) for i in range(2)]
        self.follows.report(regions=[*rest, region(self.namespace, f"{SET}-2-1", **told)])

    def replicas(self) -> int:
        """The replicas asked for."""
        found: int = self.cluster.get("leaderworkerset", SET, "-n", self.namespace)["spec"]["replicas"]
        return found

    def leaders(self) -> set[str]:
        """The pods that stand for the groups."""
        chosen = "leaderworkerset.sigs.k8s.io/worker-index=0"
        items = self.cluster.get("pods", "-n", self.namespace, "-l", chosen)["items"]
        return {item["metadata"]["name"] for item in items}

    def end(self, index: int) -> None:
        """A group goes, as a whole."""
        chosen = f"leaderworkerset.sigs.k8s.io/group-index={index}"
        self.cluster.kubectl(
            "delete", "pods", "-n", self.namespace, "-l", chosen, "--grace-period=0", "--force"
        )


@pytest.fixture
def groups(cluster: Cluster, crds: list[str], namespace: str, fake_node: AddNode) -> Iterator[Groups]:
    """Three groups on two nodes with agents, in a cluster that serves LeaderWorkerSets."""
    del crds
    cluster.apply(CRD)
    cluster.kubectl("wait", f"crd/{CRD_NAME}", "--for=condition=Established", "--timeout=120s")
    agents = [FakeAgent(cluster, fake_node(f"{side}-{uuid.uuid4().hex[:6]}"), namespace) for side in "ab"]
    for agent in agents:
        agent.beat()
    yield Groups(cluster, namespace, *agents)
    for agent in agents:
        cluster.kubectl("delete", "hawknode", agent.node, "--ignore-not-found")


def shrunk(cluster: Cluster, namespace: str, groups: Groups) -> None:
    """A pool of the three groups that is told to have two, up to where it waits for the third's leases."""
    reference = {"apiVersion": f"{GROUP}/v1", "kind": "LeaderWorkerSet", "name": SET}
    target = group("both", "Both", 3, 3, template=None, scaleTargetRef=reference)
    body = pool("llama", namespace, target, scaling=SCALING, drain={"timeout": "1h"})
    cluster.apply(body)
    wait_condition(cluster, namespace, "llama", "DevicesReady", status="True", reason="AsExpected")
    bounded(cluster, namespace, body, 2)
    wait_condition(cluster, namespace, "llama", "Draining", status="True", reason="WaitingForLeases")
    assert draining(cluster, namespace) == {f"{SET}-2"}
    for agent in (groups.leads, groups.follows):
        until(
            lambda agent=agent: asked(cluster, agent.node) == ["both"],
            what="every member's agent to be asked",
        )


def test_the_highest_group_is_emptied_on_all_its_nodes_and_then_goes(
    cluster: Cluster, operator: StartOperator, namespace: str, groups: Groups
) -> None:
    operator("--resync=2")
    shrunk(cluster, namespace, groups)
    groups.report(busy=True)

    def told() -> bool:
        found = wait_condition(
            cluster, namespace, "llama", "Draining", status="True", reason="WaitingForLeases"
        )
        return f"leases or transfers on {groups.follows.node}" in found["message"]

    until(told, what="the worker's leases to be named")
    assert groups.replicas() == 3

    groups.report(busy=False)
    until(lambda: groups.replicas() == 2, what="two replicas, long before the time-out")
    groups.end(2)
    wait_condition(cluster, namespace, "llama", "Draining", status="False", reason="Idle")
    assert groups.leaders() == {f"{SET}-0", f"{SET}-1"}
    assert "OtherWorkerWent" not in reasons(cluster, namespace)


def test_a_controller_that_takes_another_group_is_reported(
    cluster: Cluster, operator: StartOperator, namespace: str, groups: Groups
) -> None:
    operator("--resync=2")
    shrunk(cluster, namespace, groups)
    groups.report(busy=False)
    until(lambda: groups.replicas() == 2, what="two replicas")
    groups.end(0)

    until(lambda: "OtherWorkerWent" in reasons(cluster, namespace), what="the event")


def reasons(cluster: Cluster, namespace: str) -> set[str]:
    """Return the events' messages."""
    return {item["reason"] for item in cluster.get("events", "-n", namespace)["items"]}
