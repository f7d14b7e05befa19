"""The children rendered for a group, and when they count as different from those that are there."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_agent.client.engine import TOKEN_FILE
from hawk_agent.kube.tokens import AUDIENCE
from hawk_api.catalogue import shipped
from hawk_operator.workloads.children import (
    TOKEN_DIRECTORY,
    TemplateError,
    child_differs,
    group_labels,
    missing_fields,
    name_of,
    render_budget,
    render_child,
)

from .build import group_spec, pool

H100 = shipped()["h100-sxm5"]


def rendered(**more: Any) -> dict[str, Any]:
    made = pool(group_spec("both", "Both", acceleratorClass="h100-sxm5", **more))
    return render_child(made, made.spec.groups[0], H100, 3)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_no_device_is_spare_for_a_surge(replicas):
    made = pool(group_spec("both", "Both", acceleratorClass="h100-sxm5"))
    found = render_child(made, made.spec.groups[0], H100, replicas)

    assert found["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert found["spec"]["replicas"] == replicas


def test_a_user_may_choose_the_rollout():
    found = rendered(rollout={"maxSurge": "25%", "maxUnavailable": 0})

    assert found["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": 0}


def test_the_first_container_gets_the_devices_unless_the_template_places_them():
    containers = rendered(acceleratorsPerReplica=4)["spec"]["template"]["spec"]["containers"]
    assert containers[0]["resources"]["limits"] == {"nvidia.com/gpu": "4"}

    second = [
        {"name": "proxy", "image": "x"},
        {"name": "engine", "image": "y", "resources": {"limits": {"nvidia.com/gpu": 4}}},
    ]
    placed = rendered(acceleratorsPerReplica=4, template={"spec": {"containers": second}})
    found = placed["spec"]["template"]["spec"]["containers"]
    assert [container.get("resources") for container in found] == [None, second[1]["resources"]]


@pytest.mark.parametrize("amount", ["2", "500m", "many", -1])
def test_devices_that_contradict_the_group_are_refused_by_name(amount):
    container = {"name": "engine", "image": "y", "resources": {"limits": {"nvidia.com/gpu": amount}}}
    with pytest.raises(TemplateError) as caught:
        rendered(template={"spec": {"containers": [container]}})

    assert "nvidia.com/gpu" in str(caught.value)
    assert "groups[both].template" in caught.value.field


def test_claimed_devices_are_not_counted_as_well():
    template = {
        "spec": {"containers": [{"name": "engine", "image": "y"}], "resourceClaims": [{"name": "gpu"}]}
    }
    [container] = rendered(template=template)["spec"]["template"]["spec"]["containers"]

    assert "resources" not in container


def test_the_agents_socket_is_mounted_unless_the_template_has_its_own():
    made = pool(group_spec("both", "Both"))
    spec = render_child(made, made.spec.groups[0], None, 1, "/run/hawk")["spec"]["template"]["spec"]
    assert spec["containers"][0]["volumeMounts"] == [
        {"name": "hawk-agent", "mountPath": "/run/hawk", "readOnly": True}
    ]
    assert spec["volumes"][0]["hostPath"]["path"] == "/run/hawk"

    own = {"name": "engine", "image": "x", "volumeMounts": [{"name": "mine", "mountPath": "/run/hawk/"}]}
    made = pool(group_spec("both", "Both", template={"spec": {"containers": [own], "volumes": []}}))
    spec = render_child(made, made.spec.groups[0], None, 1, "/run/hawk")["spec"]["template"]["spec"]
    assert spec["containers"][0]["volumeMounts"] == own["volumeMounts"]
    assert spec["volumes"] == []


def test_a_worker_is_told_who_it_is_unless_the_template_says_so():
    made = pool()
    container = made.spec.groups[0].template["spec"]["containers"][0]
    container["env"] = [{"name": "HAWK_GROUP", "value": "mine"}, {"name": "X", "value": "$(HAWK_WORKER)"}]
    env = render_child(made, made.spec.groups[0], None, 1, "/run/hawk")["spec"]["template"]["spec"][
        "containers"
    ][0]["env"]
    found = {
        entry["name"]: entry.get("value") or entry["valueFrom"]["fieldRef"]["fieldPath"] for entry in env
    }

    assert found == {
        "HAWK_POOL": f"{made.metadata.namespace}/{made.metadata.name}",
        "HAWK_GROUP": "mine",
        "HAWK_WORKER": "metadata.name",
        "HAWK_NODE": "spec.nodeName",
        "HAWK_AGENT_SOCKET": "/run/hawk/agent.sock",
        "X": "$(HAWK_WORKER)",
    }
    assert [entry["name"] for entry in env].index("X") == len(env) - 1


def test_rendering_leaves_the_pool_as_it_was():
    made = pool(group_spec("both", "Both", acceleratorClass="h100-sxm5"))
    before = copy.deepcopy(made.spec.groups[0].template)
    render_child(made, made.spec.groups[0], H100, 1)

    assert made.spec.groups[0].template == before


def test_marks_identify_and_own():
    found = rendered(
        template={"metadata": {"labels": {"team": "a"}}, "spec": {"containers": [{"name": "e"}]}}
    )
    pod_labels = found["spec"]["template"]["metadata"]["labels"]

    assert found["spec"]["selector"]["matchLabels"].items() <= pod_labels.items()
    assert pod_labels["team"] == "a"
    assert pod_labels["hawkpool.dev/role"] == "Both"
    [owner] = found["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("u-1", True, False)


@given(st.text("abc-.", min_size=1, max_size=253), st.text("abc-", min_size=1, max_size=63))
def test_names_and_labels_fit_whatever_the_pool_is_called(pool_name, group_name):
    assert len(name_of(pool_name, group_name)) <= 52
    assert all(len(value) <= 63 for value in group_labels(pool_name, group_name).values())


def test_only_what_is_ours_and_different_is_applied():
    wanted = rendered()
    live = copy.deepcopy(wanted)
    live["spec"]["progressDeadlineSeconds"] = 600
    live["spec"]["template"]["spec"]["containers"][0]["terminationMessagePath"] = "/dev/termination-log"
    live["spec"]["template"]["spec"]["containers"].insert(0, {"name": "sidecar"})
    assert child_differs(wanted, live) == ""

    live["spec"]["replicas"] = 9
    assert child_differs(wanted, live) == "spec.replicas"
    live["spec"]["replicas"] = 3
    live["spec"]["template"]["spec"]["containers"][1]["image"] = "other"
    assert child_differs(wanted, live) == "spec.template.spec.containers[engine].image"


def test_a_field_that_left_the_template_is_a_difference():
    before, after = rendered(), rendered(template={"spec": {"containers": [{"name": "engine"}]}})

    assert child_differs(after, before).startswith("metadata.annotations")


@pytest.mark.parametrize(
    ("wanted", "live", "where"),
    [
        ({"cpu": "1000m"}, {"cpu": "1"}, ""),
        ({"cpu": "1000m"}, {"cpu": "2"}, "cpu"),
        ({"memory": "1Gi"}, {"memory": "1024Mi"}, ""),
        ({"n": 1}, {"n": True}, "n"),
        ({"flag": False}, {}, ""),
        ({"flag": True}, {}, "flag"),
        ({"a": {}}, {}, ""),
        ({"a": None}, {}, ""),
        ({"list": [1, 2]}, {"list": [1, 3]}, "list[1]"),
        ({"list": [1, 2]}, {"list": [1, 2, 3]}, "list"),
        ({"list": [1]}, {}, "list"),
        ({"env": [{"name": "b", "value": "2"}]}, {"env": [{"name": "a"}, {"name": "b", "value": "2"}]}, ""),
        ({"env": [{"name": "b", "value": "2"}]}, {"env": [{"name": "a"}]}, "env[b]"),
        ({"a": {"b": 1}}, {"a": "text"}, "a"),
    ],
)
def test_missing(wanted, live, where):
    assert missing_fields(wanted, live) == where


JSON = st.recursive(
    st.text(max_size=3) | st.integers(-3, 3) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text("abc", min_size=1), JSON, max_size=3), JSON)
def test_a_thing_has_all_of_itself_and_more_changes_nothing(thing, more):
    assert missing_fields(thing, thing) == ""
    assert missing_fields(thing, {**thing, "zzz": more}) == ""


def test_workers_get_a_token_for_the_agent_where_agents_ask_for_it():
    made = pool(group_spec("both", "Both"))
    plain = render_child(made, made.spec.groups[0], None, 1)["spec"]["template"]["spec"]
    spec = render_child(made, made.spec.groups[0], None, 1, "/run/hawk", token=True)["spec"]["template"][
        "spec"
    ]

    assert "volumes" not in plain
    mounts = {mount["mountPath"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert set(mounts) == {"/run/hawk", TOKEN_DIRECTORY}
    assert mounts[TOKEN_DIRECTORY]["readOnly"] is True
    [source] = next(v for v in spec["volumes"] if v["name"] == "hawk-token")["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == AUDIENCE
    assert f"{TOKEN_DIRECTORY}/{source['serviceAccountToken']['path']}" == TOKEN_FILE


def stopping(timeout: str = "300s", **spec: Any) -> tuple[list[str] | None, int | None]:
    """(the command before the first container's stop, the pod's grace period)"""
    containers = spec.pop("containers", [{"name": "engine", "image": "x"}])
    template = {"spec": {"containers": containers, **spec}}
    made = pool(group_spec("both", "Both", template=template), drain={"timeout": timeout})
    pods = render_child(made, made.spec.groups[0], None, 1, "/run/hawk")["spec"]["template"]["spec"]
    hook = (pods["containers"][0].get("lifecycle") or {}).get("preStop", {})
    return hook.get("exec", {}).get("command"), pods.get("terminationGracePeriodSeconds")


def test_a_worker_waits_for_its_leases_before_it_is_stopped():
    leave = ["python3", "-m", "hawk_agent.client.leave"]

    assert stopping() == ([*leave, "300"], 330)
    assert stopping("20s", terminationGracePeriodSeconds=60) == ([*leave, "20"], 60)
    assert stopping(terminationGracePeriodSeconds=60) == ([*leave, "48"], 60)
    assert stopping(terminationGracePeriodSeconds=1) == (None, 1)


def test_a_templates_own_hook_stays():
    own = {"preStop": {"exec": {"command": ["bye"]}}}
    after = {"postStart": {"exec": {"command": ["hello"]}}}

    assert stopping(containers=[{"name": "e", "image": "x", "lifecycle": own}]) == (["bye"], None)
    command, _ = stopping(containers=[{"name": "e", "image": "x", "lifecycle": after}])
    assert command is not None


def test_a_budget_is_about_the_childs_pods_and_goes_with_the_child():
    child = rendered()
    child["metadata"]["uid"] = "u-7"
    budget = render_budget(child)

    assert budget["spec"]["selector"] == child["spec"]["selector"]
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    [owner] = budget["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Deployment", "u-7")
    assert budget["metadata"]["namespace"] == child["metadata"]["namespace"]


def test_by_the_device_plugin_a_worker_needs_nothing_of_its_node():
    given = {"name": "e", "image": "x", "resources": {"limits": {"cpu": "2"}}}
    made = pool(group_spec("both", "Both", template={"spec": {"containers": [given]}}))
    spec = render_child(made, made.spec.groups[0], H100, 1, "/run/hawk", by_resource=True)["spec"]
    pods = spec["template"]["spec"]
    [container] = pods["containers"]

    assert not pods.get("volumes")
    assert not container.get("volumeMounts")
    assert container["resources"]["limits"] == {"cpu": "2", "nvidia.com/gpu": "1", "hawkpool.dev/agent": "1"}
    assert container["resources"]["requests"] == {"nvidia.com/gpu": "1", "hawkpool.dev/agent": "1"}
    assert {"name": "HAWK_AGENT_SOCKET", "value": "/run/hawk/agent.sock"} in container["env"]
