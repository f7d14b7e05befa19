"""Peers in HawkNodes; the test plays the agents, whose part is their status and their Leases."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until

from .running import group, pool, wait_condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster
    from tests.cluster.fixtures import AddNode

    from .conftest import StartOperator

pytestmark = pytest.mark.cluster

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "AsExpected",
    "message": "",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}


class FakeAgent:
    """Write as an agent does: its HawkNode's status and its Lease."""

    def __init__(self, cluster: Cluster, node: str, namespace: str) -> None:
        self.cluster, self.node, self.namespace = cluster, node, namespace
        self.epoch = f"{node}-1"
        self.status: dict[str, Any] = {}
        cluster.apply({"apiVersion": "hawkpool.dev/v1alpha1", "kind": "HawkNode", "metadata": {"name": node}})

    def report(self, **changes: Any) -> None:
        self.status.update(
            epoch=self.epoch, protocol=1, address=f"{self.node}.example:7443", version="0.1.0", **changes
        )
        body = {
            "apiVersion": "hawkpool.dev/v1alpha1",
            "kind": "HawkNode",
            "metadata": {"name": self.node},
            "status": self.status,
        }
        self.cluster.kubectl(
            "apply", "--server-side", "--force-conflicts", "--field-manager=hawk-agent",
            "--subresource=status", "-f", "-", stdin=_text(body),
        )  # fmt: skip

    def beat(self, seconds: int = 3600) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.cluster.apply(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.node, "namespace": self.namespace},
                "spec": {"holderIdentity": self.epoch, "renewTime": now, "leaseDurationSeconds": seconds},
            }
        )

    def peers(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.cluster.get("hawknode", self.node).get("spec", {}).get("peers", [])
        return found

    def ready(self) -> tuple[str, str]:
        [found] = self.cluster.get("hawknode", self.node)["status"]["conditions"]
        return found["status"], found["reason"]

    def version(self) -> str:
        found: str = self.cluster.get("hawknode", self.node)["metadata"]["resourceVersion"]
        return found


@pytest.fixture
def agents(
    cluster: Cluster, crds: list[str], namespace: str, fake_node: AddNode
) -> Iterator[tuple[FakeAgent, FakeAgent]]:
    """Two agents on two nodes, each of which only one role's pods may use."""
    del crds
    made = []
    for role in ("left", "right"):
        node = fake_node(f"{role}-{uuid.uuid4().hex[:6]}", labels={"side": role})
        made.append(FakeAgent(cluster, node, namespace))
    yield made[0], made[1]
    for agent in made:
        cluster.kubectl("delete", "hawknode", agent.node, "--ignore-not-found")


def on(side: str) -> dict[str, Any]:
    return {
        "spec": {
            "nodeSelector": {"side": side},
            "containers": [{"name": "engine", "image": "example/engine:1"}],
        }
    }


def test_agents_are_wired_proved_lost_and_wired_again(
    cluster: Cluster, operator: StartOperator, namespace: str, agents: tuple[FakeAgent, FakeAgent]
) -> None:
    left, right = agents
    operator("--resync=2")
    groups = (
        group("prefill", "Prefill", template=on("left")),
        group("decode", "Decode", template=on("right")),
    )
    cluster.apply(pool("llama", namespace, *groups, scaling={"interval": "1s"}))
    wait_condition(cluster, namespace, "llama", "Wired", status="False", reason="NoAgent")

    for agent, name in ((left, "prefill"), (right, "decode")):
        agent.beat()
        agent.report(
            regions=[
                {
                    "pool": f"{namespace}/llama",
                    "group": name,
                    "worker": "w",
                    "layout": "f",
                    "bytes": 1,
                    "epoch": "w-1",
                }
            ]
        )
    until(lambda: [peer["node"] for peer in left.peers()] == [right.node], what="the left one's peer")
    until(lambda: [peer["node"] for peer in right.peers()] == [left.node], what="the right one's peer")
    assert left.peers() == [
        {"node": right.node, "address": f"{right.node}.example:7443", "epoch": right.epoch}
    ]
    assert cluster.get("hawknode", left.node)["spec"]["expectedEpoch"] == left.epoch
    wait_condition(cluster, namespace, "llama", "Wired", status="Unknown", reason="Waiting")

    left.report(verifiedPeers=[right.node], links={"up": 1, "down": 0, "verified": 1})
    right.report(verifiedPeers=[left.node], links={"up": 1, "down": 0, "verified": 1})
    wait_condition(cluster, namespace, "llama", "Wired", status="True", reason="AsExpected")
    wait_condition(cluster, namespace, "llama", "TransferVerified", status="True", reason="Verified")
    wait_condition(cluster, namespace, "llama", "Ready", status="True", reason="AsExpected")
    counts = cluster.get("hawkpool", "llama", "-n", namespace)["status"]["groups"]
    assert [item["capacity"] for item in counts] == [item["ready"] for item in counts]

    right.report(conditions=[READY])
    right.beat(seconds=1)  # and never again
    wait_condition(cluster, namespace, "llama", "Wired", status="False", reason="AgentLost")
    until(lambda: right.ready() == ("Unknown", "AgentLost"), what="no Ready of an agent that is lost")
    wait_condition(cluster, namespace, "llama", "Ready", status="False", reason="NoAgent")
    untouched = left.version()

    right.epoch = f"{right.node}-2"
    right.beat()

    def reported() -> bool:
        """Report as an agent does: again where the operator, which hadn't seen the beat, wrote after it."""
        right.report(verifiedPeers=[], links={"up": 0, "down": 0, "verified": 0})
        return bool(right.ready() == ("True", "AsExpected"))

    until(reported, what="Ready of the new incarnation")
    until(lambda: left.peers()[0]["epoch"] == right.epoch, what="the new incarnation at the other end")
    assert left.version() != untouched
    left.report(verifiedPeers=[right.node])
    right.report(verifiedPeers=[left.node])
    wait_condition(cluster, namespace, "llama", "Ready", status="True", reason="AsExpected")

    cluster.kubectl("delete", "hawkpool", "llama", "-n", namespace, "--timeout=120s")
    until(lambda: left.peers() == right.peers() == [], what="no peers")


def test_the_status_schema_holds_every_key_that_is_written(
    cluster: Cluster, operator: StartOperator, namespace: str, agents: tuple[FakeAgent, FakeAgent]
) -> None:
    """The API server stored all that was sent: nothing was pruned."""
    left, _ = agents
    running = operator()
    mark = cluster.audit_mark()
    left.beat()
    left.report()
    cluster.apply(
        pool("llama", namespace, group("both", "Both", template=on("left")), scaling={"interval": "1s"})
    )
    wait_condition(cluster, namespace, "llama", "DevicesReady", status="True", reason="AsExpected")
    until(lambda: running.metric("hawk_operator_queue_keys", state="busy") == 0, what="rest")
    sent = [
        event["requestObject"]
        for event in cluster.audit_events(mark)
        if event.get("objectRef", {}).get("subresource") == "status"
        and event["objectRef"].get("resource") == "hawkpools"
        and event["objectRef"].get("namespace") == namespace
        and "requestObject" in event
    ]
    stored = cluster.get("hawkpool", "llama", "-n", namespace)["status"]

    assert sent
    assert paths(sent[-1]["status"]) <= paths(stored) | {
        path for path in paths(sent[-1]["status"]) if path.endswith("{}")
    }


def paths(value: Any, where: str = "") -> set[str]:
    """Every key path; list items are one."""
    if isinstance(value, dict):
        if not value:
            return {f"{where}{{}}"}
        return {found for key, part in value.items() for found in paths(part, f"{where}.{key}")}
    if isinstance(value, list):
        return {found for part in value for found in paths(part, f"{where}[]")}
    return {where}


def _text(body: dict[str, Any]) -> str:
    import json

    return json.dumps(body)
