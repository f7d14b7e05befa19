"""Operator and agents run under the chart's own accounts, lack no right, and have none to spare.

The processes run outside the cluster with real tokens: the operator's is its account's, an agent's is bound
to a pod on its node. What they asked the API server is read from its audit log.
"""

from __future__ import annotations

import itertools
import sys
import uuid

import pytest

from tests.cluster.cluster import CommandError
from tests.cluster.operator import running as operators
from tests.support.ports import Ports
from tests.support.waiting import until

from . import rights
from .release import NAMESPACE, Release

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NOT_HERE = {
    rights.Right("list", "keda.sh", "scaledobjects"): "KEDA is not installed in this cluster",
    rights.Right("get", "leaderworkerset.x-k8s.io", "leaderworkersets/scale"): "nor is LeaderWorkerSet",
    rights.Right("patch", "leaderworkerset.x-k8s.io", "leaderworkersets/scale"): "nor is LeaderWorkerSet",
    rights.Right("get", "apps", "statefulsets/scale"): "the scenario's own target is a Deployment",
    rights.Right("patch", "apps", "statefulsets/scale"): "the scenario's own target is a Deployment",
}
"""Rights that this scenario can't use, and why."""

_numbers = itertools.count()


def start_operator(own, processes, port, *arguments, namespace=NAMESPACE):
    """An operator with the arguments that the chart gives, under the chart's account."""
    log = processes.folder / f"operator-{next(_numbers)}.log"
    command = operators.command(namespace, port, "--resync=2", *arguments)
    kubeconfig = own.service_account_kubeconfig(namespace, "hawk-operator")
    process = processes.spawn(command, name=log.stem, log=log, env={"KUBECONFIG": str(kubeconfig)})
    found = operators.Running(process, port, log)
    until(found.leads, what="the operator to lead", ignore=(OSError,))
    return found


def start_agent(processes, kubeconfig, node):
    """An agent that gets its certificate from the cluster."""
    folder = processes.folder / node
    folder.mkdir()
    command = [sys.executable, "-m", "hawk_agent.main", "--node", node, "--system-namespace", NAMESPACE]
    command += ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--advertise", "127.0.0.1"]
    command += ["--socket", str(folder / "agent.sock"), "--identity", "kubernetes"]
    command += ["--tls-cert", str(folder / "tls.crt"), "--tls-key", str(folder / "tls.key")]
    command += ["--tls-ca", str(folder / "ca.crt")]
    return processes.spawn(command, name=node, env={"KUBECONFIG": str(kubeconfig)})


def target(name, namespace):
    """A Deployment that somebody else made."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [operators.CONTAINER]}},
        },
    }


def ready(own, namespace, name):
    def probe():
        found = own.get("hawkpool", name, "-n", namespace)["status"]["groups"]
        assert found
        assert all(group["ready"] == group["desired"] for group in found), found
        return found

    missing = (AssertionError, KeyError)
    return until(probe, what=f"groups of {name} to be ready", ignore=missing)


def exercise(own, namespace, nodes, start):
    """Use all that pools can ask of an operator: children, a foreign target, their own model, a drain."""
    first = start()
    config = '{"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,'
    config += ' "hidden_size": 512, "intermediate_size": 1024, "vocab_size": 1000, "model_type": "llama"}'
    own.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "tiny", "namespace": namespace},
            "data": {"config.json": config},
        },
        target("elsewhere", namespace),
    )
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "elsewhere"}
    foreign = operators.group("decode", "Decode", 3, 3, template=None, scaleTargetRef=reference)
    tiny = {"configMapRef": {"name": "tiny", "key": "config.json"}}
    own.apply(
        shrinking(namespace, nodes, 2),
        operators.pool("foreign", namespace, operators.group("prefill", "Prefill"), foreign),
        operators.pool("tiny", namespace, model=tiny),
    )
    for name in ("made", "foreign", "tiny"):
        ready(own, namespace, name)
    alone = operators.pool("tiny", namespace, operators.group("both", "Both"), model=tiny)
    own.apply(alone)
    resize(own, namespace, nodes, 1)
    first.process.stop()
    start()  # does not know what the first has said: the same event is counted up
    resize(own, namespace, nodes, 2)
    resize(own, namespace, nodes, 1)
    until(
        lambda: not operators.exists(own, "deployment", "tiny-prefill", "-n", namespace),
        what="the child of a group that is gone to go",
    )


def resize(own, namespace, nodes, decode):
    own.apply(shrinking(namespace, nodes, decode))
    until(
        lambda: operators.replicas(own, namespace)["made-decode"] == decode,
        what=f"decode to have {decode}",
    )
    ready(own, namespace, "made")


def shrinking(namespace, nodes, decode):
    """A pool that is quick to do what it is told, prefill on the first node and decode on the second."""
    templates = [
        {"spec": {"containers": [operators.CONTAINER], "nodeSelector": {"kubernetes.io/hostname": node}}}
        for node in nodes
    ]
    return operators.pool(
        "made",
        namespace,
        operators.group("prefill", "Prefill", template=templates[0]),
        operators.group("decode", "Decode", decode, decode, template=templates[1]),
        scaling={"interval": "1s", "behavior": {"scaleDown": {"stabilizationWindow": "0s"}}},
        drain={"timeout": "2s"},
    )


@pytest.fixture
def ports():
    with Ports() as reserved:
        yield reserved


@pytest.fixture
def workspace(own):
    name = f"team-{uuid.uuid4().hex[:6]}"
    own.kubectl("create", "namespace", name)
    yield name
    own.kubectl("delete", "namespace", name, "--wait=false")


def verified(own, node, peer):
    def probe():
        status = own.get("hawknode", node).get("status", {})
        proved = set(status.get("verifiedPeers") or ())  # its own too where both sides of a pool are on it
        assert {peer} <= proved <= {node, peer}, status
        return status

    missing = (AssertionError, CommandError)
    return until(probe, what=f"the link from {node} to {peer}", ignore=missing)


def ready_of(own, node):
    conditions = own.get("hawknode", node)["status"]["conditions"]
    return next(item["status"] for item in conditions if item["type"] == "Ready")


def compare(own, release, mark, account):
    """Fails with what was refused, with what a role lacks, and with what nobody used."""
    events = list(own.audit_events(mark))
    user = rights.account(release.namespace, account)
    asked = rights.used(rights.asked(events, user))
    given = rights.granted(release.objects(), release.namespace, account)
    assert rights.refused(events, user) == []
    assert asked - given == set(), "asked for, and in no role of this component"
    assert given - asked - set(NOT_HERE) == set(), "in a role of this component, and never used"
    assert set(NOT_HERE) & asked == set(), "used after all"


def test_both_components_use_their_whole_role_and_nothing_beside_it(
    own, release, nodes, agent_kubeconfig, processes, ports, workspace
):
    # An operator that ran before in this control plane left its Lease, and then nobody makes one.
    own.kubectl("delete", "lease", "leader.hawkpool.dev", "-n", release.namespace, "--ignore-not-found")
    mark = own.audit_mark()
    agents = [start_agent(processes, agent_kubeconfig(node), node) for node in nodes]
    exercise(own, workspace, nodes, lambda: start_operator(own, processes, ports.reserve()))

    for node, peer in itertools.permutations(nodes):
        verified(own, node, peer)
    agents[0].stop()
    until(lambda: ready_of(own, nodes[0]) == "Unknown", what="an agent taken for lost")

    compare(own, release, mark, "hawk-agent")
    compare(own, release, mark, "hawk-operator")


@pytest.fixture
def tenant(own, release, workspace):
    """A second release, for one namespace, beside the one for the whole cluster."""
    installed = Release(own, "hawk", workspace)
    installed.install("--set=operator.enabled=false,scope=namespace,crds.install=false")
    yield installed
    installed.uninstall()


def test_roles_in_one_namespace_suffice_and_no_other_namespace_is_looked_at(
    own, tenant, processes, ports, nodes
):
    namespace = tenant.namespace
    bound = [item for item in tenant.objects() if item["kind"].startswith("Cluster")]
    assert bound == []
    own.apply(operators.pool("not-ours", "default"))
    before = own.get("hawkpool", "not-ours", "-n", "default")
    mark = own.audit_mark()

    def start():
        only = f"--namespace={namespace}"
        return start_operator(own, processes, ports.reserve(), only, namespace=namespace)

    exercise(own, namespace, nodes, start)

    compare(own, tenant, mark, "hawk-operator")
    assert own.get("hawkpool", "not-ours", "-n", "default") == before
    own.kubectl("delete", "hawkpool", "not-ours", "-n", "default")
