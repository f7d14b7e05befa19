"""An agent's token lets it write its own node's objects and no other, told by the API server."""

from __future__ import annotations

from contextlib import closing

import pytest

from hawk_kube.errors import ApiError
from hawk_kube.kinds import CERTIFICATE_REQUEST, HAWK_NODE, LEASE, SECRET

pytestmark = pytest.mark.cluster


def hawk_node(name, **more):
    return {
        "apiVersion": "hawkpool.dev/v1alpha1",
        "kind": "HawkNode",
        **more,
        "metadata": {"name": name, **more.get("metadata", {})},
    }


def lease(name, namespace):
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15},
    }


@pytest.fixture(scope="module")
def agent(own, release, nodes, agent_kubeconfig):
    """The agent of the first node."""
    with closing(own.client(agent_kubeconfig(nodes[0]), "hawk-agent")) as client:
        yield client


@pytest.fixture
def clean(own, nodes):
    yield
    for name in nodes:
        own.kubectl("delete", "hawknode", name, "--ignore-not-found")


def refused(message):
    return pytest.raises(ApiError, match=message)


def test_it_makes_and_reports_its_own_node(own, agent, nodes, clean):
    uid = own.get("node", nodes[0])["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": nodes[0], "uid": uid}

    agent.apply(HAWK_NODE, hawk_node(nodes[0], metadata={"ownerReferences": [owner]}))
    agent.apply(HAWK_NODE, hawk_node(nodes[0], status={"epoch": "e1"}), subresource="status")

    assert own.get("hawknode", nodes[0])["status"]["epoch"] == "e1"


def test_it_cannot_make_or_report_another_node(own, agent, nodes, clean):
    with refused(f"agent on node {nodes[0]} may write only.*not {nodes[1]}"):
        agent.apply(HAWK_NODE, hawk_node(nodes[1]))

    own.apply(hawk_node(nodes[1]))
    with refused(f"not {nodes[1]}"):
        agent.apply(HAWK_NODE, hawk_node(nodes[1], status={"epoch": "forged"}), subresource="status")
    with refused(f"not {nodes[1]}"):
        agent.apply(HAWK_NODE, hawk_node(nodes[1], metadata={"labels": {"a": "b"}}))
    assert "status" not in own.get("hawknode", nodes[1])


def test_it_cannot_choose_its_peers(own, agent, nodes, clean):
    spec = {"peers": [{"node": "evil", "address": "10.0.0.1:1", "epoch": "e"}]}

    with refused("spec of a HawkNode is the operator's"):
        agent.apply(HAWK_NODE, hawk_node(nodes[0], spec=spec))

    own.apply(hawk_node(nodes[0], spec=spec))
    moved = {"peers": [{"node": "evil", "address": "10.0.0.2:1", "epoch": "e"}]}
    with refused("spec of a HawkNode is the operator's"):
        agent.apply(HAWK_NODE, hawk_node(nodes[0], spec=moved))
    with refused("spec of a HawkNode is the operator's"):
        agent.apply(HAWK_NODE, hawk_node(nodes[0], spec={"expectedEpoch": "mine"}))
    agent.apply(HAWK_NODE, hawk_node(nodes[0], status={"epoch": "e1"}), subresource="status")
    assert own.get("hawknode", nodes[0])["spec"] == {**spec, "pools": []}


def test_its_node_may_own_its_object_and_nothing_else(own, agent, nodes, clean):
    uid = own.get("node", nodes[1])["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": nodes[1], "uid": uid}

    with refused("owned by its own Node only"):
        agent.apply(HAWK_NODE, hawk_node(nodes[0], metadata={"ownerReferences": [owner]}))


def test_it_renews_its_own_lease_and_no_other(own, release, agent, nodes):
    agent.apply(LEASE, lease(nodes[0], release.namespace))
    agent.apply(LEASE, lease(nodes[0], release.namespace))

    for other in (nodes[1], "leader.hawkpool.dev"):
        with refused(f"not {other}"):
            agent.apply(LEASE, lease(other, release.namespace))
    with refused("forbidden"):
        agent.apply(LEASE, lease(nodes[0], "default"))
    own.kubectl("delete", "lease", nodes[0], "-n", release.namespace)


def test_a_token_that_is_not_bound_to_a_pod_writes_nothing(own, release, nodes):
    kubeconfig = own.service_account_kubeconfig(release.namespace, "hawk-agent")

    with closing(own.client(kubeconfig, "hawk-agent")) as unbound, refused("must be bound to its pod"):
        unbound.apply(HAWK_NODE, hawk_node(nodes[0]))


def test_it_cannot_ask_another_signer(own, agent, nodes):
    from tests.unit.trust import requests as make

    body = {
        "metadata": {"generateName": "hawk-agent-"},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "request": make.base64.b64encode(make.pem()).decode(),
            "usages": ["client auth"],
        },
    }
    with refused("signer hawkpool.dev/agent only"):
        agent.create(CERTIFICATE_REQUEST, body)


def test_it_reads_no_secret_and_changes_no_pool(own, release, agent, nodes):
    with refused("forbidden"):
        agent.get(SECRET, "hawk-agent-ca", release.namespace)
    with refused("forbidden"):
        agent.list(SECRET, release.namespace)


def test_everybody_else_is_left_alone(own, nodes, clean):
    """An administrator writes any HawkNode and any Lease; the policy's condition does not match."""
    own.apply(hawk_node(nodes[1], spec={"expectedEpoch": "e"}), lease("anything", "default"))

    assert own.get("hawknode", nodes[1])["spec"]["expectedEpoch"] == "e"
    own.kubectl("delete", "lease", "anything", "-n", "default")
