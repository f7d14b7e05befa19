"""Which PodSecurity level each component needs, told by the admission plugin itself."""

from __future__ import annotations

import json
import uuid
from contextlib import closing

import pytest

from tests.cluster.cluster import CommandError
from tests.support.waiting import until

from .release import named

pytestmark = pytest.mark.cluster


def pod(objects, kind, name):
    template = named(objects, kind)[name]["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "labels": template["metadata"]["labels"]},
        "spec": {**template["spec"], "serviceAccountName": "default", "priorityClassName": ""},
    }


@pytest.fixture
def namespace_of(own):
    """Makes a namespace that enforces a level."""
    made = []

    def make(level):
        name = f"{level}-{uuid.uuid4().hex[:6]}"
        labels = {
            "pod-security.kubernetes.io/enforce": level,
            "pod-security.kubernetes.io/enforce-version": "latest",
        }
        own.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        made.append(name)
        return name

    yield make
    for name in made:
        own.kubectl("delete", "namespace", name, "--wait=false")


def admit(own, namespace, body):
    own.kubectl("create", "-n", namespace, "--dry-run=server", "-f", "-", stdin=json.dumps(body))


@pytest.mark.parametrize(
    "values", ["operator.replicas=2", "operator.runAsUser=null", "scope=namespace,operator.replicas=1"]
)
def test_the_operator_is_admitted_where_restricted_is_enforced(own, render, namespace_of, values):
    admit(own, namespace_of("restricted"), pod(render(f"--set={values}"), "Deployment", "hawk-operator"))


def test_what_helm_runs_is_admitted_where_restricted_is_enforced(own, render, namespace_of):
    objects = render()
    namespace = namespace_of("restricted")
    job = pod(objects, "Job", "hawk-cleanup")
    test = named(objects, "Pod")["hawk-test"]

    admit(own, namespace, job)
    admit(own, namespace, {**test, "metadata": {"name": "probe"}})


def test_nodes_own_devices_are_admitted_at_the_privileged_level(own, render, namespace_of):
    body = pod(render("--set=agent.rdma.hostDevices=true"), "DaemonSet", "hawk-agent")

    admit(own, namespace_of("privileged"), body)


def test_the_agents_need_the_privileged_level_as_documented(own, render, namespace_of):
    body = pod(render(), "DaemonSet", "hawk-agent")

    with pytest.raises(CommandError, match=r"hostPath") as refusal:
        admit(own, namespace_of("baseline"), body)
    assert "IPC_LOCK" in str(refusal.value)
    admit(own, namespace_of("privileged"), body)


def test_without_the_capability_only_the_socket_directory_needs_that_level(own, render, namespace_of):
    body = pod(render("--set=agent.memlock=Runtime"), "DaemonSet", "hawk-agent")

    with pytest.raises(CommandError, match=r"hostPath") as refusal:
        admit(own, namespace_of("baseline"), body)
    assert "capabilities" not in str(refusal.value)


def test_the_namespace_that_the_chart_makes_for_agents_admits_them(own, render, namespace_of):
    objects = render("--set=agent.namespace=hawk-agents,agent.createNamespace=true")
    namespace = named(objects, "Namespace")["hawk-agents"]
    assert named(objects, "DaemonSet")["hawk-agent"]["metadata"]["namespace"] == "hawk-agents"

    own.apply({**namespace, "metadata": {"name": "made", "labels": namespace["metadata"]["labels"]}})
    try:
        admit(own, "made", pod(objects, "DaemonSet", "hawk-agent"))
    finally:
        own.kubectl("delete", "namespace", "made", "--wait=false")


def quota(own, namespace):
    """A quota that admits no pod of the agents' priority class."""
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
    spec = {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [scope]}}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": spec}
    own.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(body))
    until(
        lambda: own.get("resourcequota", "none", "-n", namespace).get("status", {}).get("used"),
        what="the quota's count",
    )


@pytest.mark.parametrize(("level", "words"), [("baseline", "violates PodSecurity"), ("privileged", "quota")])
def test_pods_of_agents_that_are_refused_are_explained(own, render, namespace_of, nodes, level, words):
    """The DaemonSet's controller hears the refusal; the operator reads it from there."""
    from hawk_operator.reconcile import agent_pods

    namespace = namespace_of(level)
    if level == "privileged":
        quota(own, namespace)
    objects = render(f"--set=agent.namespace={namespace}")
    daemons = named(objects, "DaemonSet")["hawk-agent"]
    del daemons["spec"]["template"]["spec"]["nodeSelector"]  # nodes here carry no label of a system
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "hawk-agent"}}
    own.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(account))
    with closing(own.client()) as api:
        assert agent_pods.refused_agent_pods(api, namespace, "hawk-agent") == "", "there is none"
        own.kubectl("create", "-f", "-", stdin=json.dumps(daemons))
        said = until(lambda: agent_pods.refused_agent_pods(api, namespace, "hawk-agent"), what="the refusal")

    assert words in said
    assert f"{namespace}/hawk-agent" in said
