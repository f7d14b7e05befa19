"""Agents as processes against the real API server: their HawkNodes, Leases, and the peers they are given."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from hawk_api.v1alpha1 import HawkNode
from hawk_kube.kinds import HAWK_NODE
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.cluster import Cluster
    from tests.cluster.fixtures import AddNode
    from tests.support.supervisor import Process, Supervisor

pytestmark = pytest.mark.cluster


@pytest.fixture
def agent(
    cluster: Cluster, crds: list[str], processes: Supervisor, namespace: str
) -> Callable[[str], Process]:
    """Starts an agent process of a node."""

    def start(node: str, suffix: str = "") -> Process:
        command = [sys.executable, "-m", "hawk_agent.main", "--node", node, "--insecure", "--kube"]
        command += ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--system-namespace", namespace]
        command += ["--socket", str(processes.folder / f"{node}{suffix}.sock")]
        return processes.spawn(command, name=f"{node}{suffix}", env={"KUBECONFIG": str(cluster.kubeconfig)})

    return start


def _status(cluster: Cluster, node: str) -> dict[str, Any]:
    return cluster.get("hawknode", node)["status"]


def _published(cluster: Cluster, node: str, but: str = "") -> dict[str, Any]:
    def probe() -> dict[str, Any]:
        status = _status(cluster, node)
        assert status["epoch"] != but
        return status

    return until(probe, what=f"HawkNode {node}", ignore=(AssertionError, Exception))


def _wire(cluster: Cluster, one: str, other: str) -> None:
    status = _status(cluster, other)
    peer = {"node": other, "address": status["address"], "epoch": status["epoch"]}
    cluster.apply(
        {
            "apiVersion": "hawkpool.dev/v1alpha1",
            "kind": "HawkNode",
            "metadata": {"name": one},
            "spec": {"expectedEpoch": _status(cluster, one)["epoch"], "peers": [peer]},
        }
    )


def _verified(cluster: Cluster, one: str, other: str) -> None:
    until(lambda: _status(cluster, one).get("verifiedPeers") == [other], what=f"{one} to {other} verified")


def _written_until_renewal(cluster: Cluster, node: str, namespace: str) -> list[dict[str, Any]]:
    """The writes of HawkNodes until the node's Lease is renewed."""

    def renewed() -> Any:
        return cluster.get("lease", node, "-n", namespace)["spec"]["renewTime"]

    before, mark = renewed(), cluster.audit_mark()
    until(lambda: renewed() != before, what="a renewal")
    return [
        event
        for event in cluster.audit_events(mark)
        if event["verb"] in {"patch", "update", "create"}
        and event["objectRef"].get("resource") == "hawknodes"
    ]


def test_agents_publish_themselves_and_prove_the_links_they_are_given(
    cluster: Cluster, agent: Callable[..., Process], fake_node: AddNode, namespace: str
) -> None:
    gpu, npu = fake_node(), fake_node()
    agent(gpu)
    first = agent(npu)
    statuses = {node: _published(cluster, node) for node in (gpu, npu)}
    _wire(cluster, gpu, npu)
    _wire(cluster, npu, gpu)
    _verified(cluster, gpu, npu)
    _verified(cluster, npu, gpu)

    body = cluster.get("hawknode", gpu)
    node = HawkNode.model_validate(body)
    owner = body["metadata"]["ownerReferences"][0]
    lease = cluster.get("lease", gpu, "-n", namespace)["spec"]
    assert (owner["kind"], owner["name"]) == ("Node", gpu)
    assert node.status.links.verified == 1
    assert lease["holderIdentity"] == node.status.epoch == statuses[gpu]["epoch"]

    # Once it has said what changed, nothing changes, and nothing is written.
    until(lambda: not _written_until_renewal(cluster, gpu, namespace), what="a renewal without a write")

    # A restart at another address: the survivor says so, and is wired again without being touched.
    first.kill()

    until(lambda: [p["peer"] for p in _status(cluster, gpu)["links"]["problems"]] == [npu], what="the loss")
    agent(npu, "again")
    _published(cluster, npu, but=statuses[npu]["epoch"])
    _wire(cluster, gpu, npu)
    _verified(cluster, gpu, npu)
    assert _status(cluster, gpu)["epoch"] == statuses[gpu]["epoch"]


def test_a_removed_hawknode_comes_back_and_a_stop_gives_the_lease_up(
    cluster: Cluster, agent: Callable[..., Process], fake_node: AddNode, namespace: str
) -> None:
    node = fake_node()
    process = agent(node)
    before = _published(cluster, node)
    uid = cluster.get("hawknode", node)["metadata"]["uid"]
    cluster.kubectl("delete", "hawknode", node)
    until(
        lambda: cluster.get("hawknode", node)["metadata"]["uid"] != uid,
        what="the HawkNode again",
        ignore=(AssertionError, Exception),
    )
    assert _published(cluster, node)["epoch"] == before["epoch"]

    # Taken for lost while it lives, as after a partition: it says again that it serves.
    def ready() -> str:
        conditions = {item["type"]: item for item in _status(cluster, node)["conditions"]}
        return f"{conditions['Ready']['status']} {conditions['Ready']['reason']}"

    lost = {"type": "Ready", "status": "Unknown", "reason": "AgentLost", "message": "lost"}
    lost["lastTransitionTime"] = "2026-01-02T03:04:05Z"
    with closing(cluster.client(manager="hawk-operator")) as api:
        body = {"metadata": {"name": node}, "status": {"conditions": [lost]}}
        taken = api.apply(HAWK_NODE, body, subresource="status")
    assert lost in taken["status"]["conditions"]
    until(lambda: ready() == "True AsExpected", what="Ready again")

    assert process.stop() == 0
    assert "holderIdentity" not in cluster.get("lease", node, "-n", namespace)["spec"]
