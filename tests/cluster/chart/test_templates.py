"""Single values and what they put into the templates."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from .release import CHART, RenderError, named, render_chart

pytestmark = pytest.mark.cluster

FIRST_VALUES = Path(__file__).with_name("first_values.yaml")


def pod_of(objects, component):
    kind = {"operator": "Deployment", "agent": "DaemonSet"}[component]
    return named(objects, kind)[f"hawk-{component}"]["spec"]["template"]["spec"]


def agent_of(objects):
    """(the agents' pod template, its container)"""
    template = named(objects, "DaemonSet")["hawk-agent"]["spec"]["template"]
    return template, template["spec"]["containers"][0]


def set_json(path, value):
    return f"--set-json={path}={json.dumps(value)}"


@pytest.fixture(scope="module")
def reused(clients, tmp_path_factory):
    """Renders the chart as `helm upgrade --reuse-values` from the first chart does: with its values alone."""
    folder = tmp_path_factory.mktemp("reused")
    chart = folder / "hawk"
    shutil.copytree(CHART, chart)
    shutil.copy(FIRST_VALUES, chart / "values.yaml")
    return lambda *arguments: render_chart(clients.helm, folder / "home", chart, *arguments)


def test_the_values_of_the_first_chart_render_with_the_defaults_of_this_one(reused, render):
    changed = ("image.repository=hawkpool", "agent.port=7443", "agent.metricsPort=9464")

    assert reused() == render(f"--set={','.join(changed)}")


def test_false_zero_and_empty_of_an_older_release_are_kept(reused):
    """A deep merge would take them for missing."""
    objects = reused("--set=agent.enabled=false,crds.install=false,operator.resources.limits.memory=null")

    assert named(objects, "DaemonSet") == named(objects, "CustomResourceDefinition") == {}
    (container,) = pod_of(objects, "operator")["containers"]
    assert not container["resources"].get("limits")


def test_a_value_of_null_is_the_default_but_where_null_means_something(render):
    assert render("--set=agent.port=null,agent.rdma=null,networkPolicy=null") == render()
    pod = pod_of(render("--set=operator.runAsUser=null"), "operator")
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_every_template_fills_in_defaults_first():
    for path in (CHART / "templates").rglob("*"):
        if path.is_file() and path.name != "_helpers.tpl":
            assert path.read_text().startswith('{{- include "hawk.defaults" . -}}\n'), path


@pytest.mark.parametrize("component", ["operator", "agent"])
def test_what_is_added_to_a_pod_arrives_beside_what_is_there(render, component):
    added = {"name": "extra", "emptyDir": {}}
    mount = {"name": "extra", "mountPath": "/extra"}
    variable = {"name": "A", "value": "b"}
    plain = pod_of(render(), component)
    pod = pod_of(
        render(
            set_json(f"{component}.extraVolumes", [added]),
            set_json(f"{component}.extraVolumeMounts", [mount]),
            set_json(f"{component}.extraEnv", [variable]),
            f"--set={component}.runtimeClassName=nvidia,{component}.terminationGracePeriodSeconds=7",
            f"--set={component}.startupSeconds=61,{component}.priorityClassName=high",
        ),
        component,
    )

    (before,), (after,) = plain["containers"], pod["containers"]
    assert pod["volumes"] == [*plain["volumes"], added]
    assert after["volumeMounts"] == [*before["volumeMounts"], mount]
    assert after["env"] == [*before["env"], variable]
    assert (pod["runtimeClassName"], pod["terminationGracePeriodSeconds"]) == ("nvidia", 7)
    assert pod["priorityClassName"] == "high"
    assert (before["startupProbe"]["failureThreshold"], before["startupProbe"]["periodSeconds"]) == (90, 2)
    assert after["startupProbe"]["failureThreshold"] == 31


def test_a_spread_without_a_selector_is_about_the_operator(render):
    own = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    chosen = {**own, "labelSelector": {"matchLabels": {"a": "b"}}}

    first, second = pod_of(render(set_json("operator.topologySpreadConstraints", [own, chosen])), "operator")[
        "topologySpreadConstraints"
    ]

    assert second == chosen
    deployment = named(render(), "Deployment")["hawk-operator"]
    assert first == {**own, "labelSelector": deployment["spec"]["selector"]}


def test_update_strategies(render):
    recreate = named(render("--set=operator.updateStrategy.type=Recreate"), "Deployment")["hawk-operator"]
    by_hand = named(render("--set=agent.updateStrategy=OnDelete"), "DaemonSet")["hawk-agent"]
    default = named(render(), "DaemonSet")["hawk-agent"]

    assert recreate["spec"]["strategy"] == {"type": "Recreate"}
    assert by_hand["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert default["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 1},
    }


def test_rdma_devices_of_a_plugin_are_requested_and_limited_alike(render):
    wanted = {"rdma/hca": 1, "hugepages-2Mi": "1Gi"}
    _, container = agent_of(render(set_json("agent.rdma.resources", wanted)))

    for part, own in (("requests", {"cpu": "100m", "memory": "128Mi"}), ("limits", {"memory": "1Gi"})):
        assert container["resources"][part] == {**own, **wanted}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_rdma_devices_of_a_claim_are_the_containers_too(render):
    claim = {"name": "nic", "resourceClaimTemplateName": "rail"}
    template, container = agent_of(render(set_json("agent.rdma.resourceClaims", [claim])))

    assert template["spec"]["resourceClaims"] == [claim]
    assert container["resources"]["claims"] == [{"name": "nic"}]


def test_rdma_devices_of_the_node_take_a_privileged_container(render):
    template, container = agent_of(render("--set=agent.rdma.hostDevices=true"))

    assert container["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    path = {"path": "/dev/infiniband", "type": "Directory"}
    assert {"name": "infiniband", "hostPath": path} in template["spec"]["volumes"]
    assert {"name": "infiniband", "mountPath": "/dev/infiniband"} in container["volumeMounts"]


def test_the_device_plugin_is_told_to_both_and_gets_the_kubelets_folder(render):
    from hawk_agent.service.settings import AgentSettings
    from hawk_operator.runtime.settings import OperatorSettings

    objects = render("--set=agent.socketAccess=DevicePlugin,agent.devicePluginDirectory=/k/plugins")
    template, container = agent_of(objects)
    agent = AgentSettings.read([word.replace("$(POD_IP)", "10.0.0.1") for word in container["args"]])
    (operator,) = pod_of(objects, "operator")["containers"]

    assert str(agent.device_plugins) == "/k/plugins"
    assert OperatorSettings.read(operator["args"]).agent_access == "device-plugin"
    assert {"name": "device-plugins", "mountPath": "/k/plugins"} in container["volumeMounts"]
    assert {"path": "/k/plugins", "type": "Directory"} in [
        volume.get("hostPath") for volume in template["spec"]["volumes"]
    ]
    plain = agent_of(render())[1]
    assert not [word for word in plain["args"] if "device-plugins" in word]


def test_rails_devices_and_transports_are_told_to_the_agent(render):
    from hawk_agent.service.settings import AgentSettings

    values = "agent.transports={verbs,tcp},agent.rails=2,agent.rdma.devices={mlx5_0,mlx5_1}"
    _, container = agent_of(render(f"--set={values}"))
    read = AgentSettings.read([word.replace("$(POD_IP)", "10.0.0.1") for word in container["args"]])

    assert (read.transports, read.rails, read.rdma_device) == (("verbs", "tcp"), 2, ("mlx5_0", "mlx5_1"))


def test_networks_and_security_context_constraints_are_asked_for_by_annotations(render):
    objects = render(
        "--set=agent.rdma.networks=rdma/rail0,agent.securityContextConstraints=privileged",
        "--set=agent.podAnnotations.mine=kept",
    )
    template, _ = agent_of(objects)

    assert template["metadata"]["annotations"] == {
        "mine": "kept",
        "k8s.v1.cni.cncf.io/networks": "rdma/rail0",
        "openshift.io/required-scc": "privileged",
    }
    binding = named(objects, "RoleBinding")["hawk-agent-scc"]
    assert binding["roleRef"]["name"] == "system:openshift:scc:privileged"
    assert binding["metadata"]["namespace"] == "hawk-system"
    assert "hawk-agent-scc" not in named(render(), "RoleBinding")


def test_a_quota_admits_the_agents_priority_class_outside_kube_system(render):
    (quota,) = named(render("--set=agent.namespace=hawk-agents"), "ResourceQuota").values()

    assert quota["metadata"]["namespace"] == "hawk-agents"
    (expression,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert expression == {
        "scopeName": "PriorityClass",
        "operator": "In",
        "values": [agent_of(render())[0]["spec"]["priorityClassName"]],
    }
    for without in (
        "agent.priorityQuota.enabled=false",
        "agent.priorityClassName=high",
        "agent.namespace=kube-system",
        "agent.enabled=false",
    ):
        assert named(render(f"--set={without}"), "ResourceQuota") == {}, without


def test_the_namespace_is_labelled_for_all_that_pod_security_does(render):
    (namespace,) = named(render("--set=agent.namespace=a,agent.createNamespace=true"), "Namespace").values()

    levels = {key: value for key, value in namespace["metadata"]["labels"].items() if "pod-security" in key}
    assert levels == {
        f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "warn", "audit")
    }


def test_policies_open_the_ports_that_pods_have_and_no_more(render):
    scraper = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    objects = render("--set=networkPolicy.enabled=true", set_json("networkPolicy.metricsFrom", [scraper]))
    policies = named(objects, "NetworkPolicy")

    for component, names in (("operator", {"metrics"}), ("agent", {"peers", "data", "metrics"})):
        policy = policies[f"hawk-{component}"]["spec"]
        (container,) = pod_of(objects, component)["containers"]
        assert {entry["name"] for entry in container["ports"]} == names
        opened = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
        assert sorted(opened) == sorted(names)
        assert policy["ingress"][-1]["from"][0] == scraper
        assert policy["policyTypes"] == ["Ingress"]
    (peers,) = policies["hawk-agent"]["spec"]["ingress"][0]["from"]
    assert peers["podSelector"] == policies["hawk-agent"]["spec"]["podSelector"]
    assert named(render(), "NetworkPolicy") == {}


def test_pods_of_agents_are_scraped_once_and_workers_by_their_own_port(render):
    from hawk_api import labels

    objects = render(
        "--set=monitoring.podMonitor.agents=true,monitoring.podMonitor.workers=true",
        "--set=monitoring.serviceMonitor.enabled=true,monitoring.podMonitor.labels.team=llm",
    )
    monitors = named(objects, "PodMonitor")

    assert set(named(objects, "ServiceMonitor")) == {"hawk-operator"}
    assert set(monitors) == {"hawk-agent", "hawk-workers"}
    workers = monitors["hawk-workers"]
    assert workers["metadata"]["labels"]["team"] == "llm"
    assert workers["spec"]["namespaceSelector"] == {"any": True}
    assert workers["spec"]["selector"]["matchExpressions"] == [{"key": labels.POOL, "operator": "Exists"}]
    assert workers["spec"]["podTargetLabels"] == [labels.POOL, labels.GROUP, labels.ROLE]
    assert workers["spec"]["podMetricsEndpoints"] == [{"port": "http", "path": "/metrics", "interval": "15s"}]
    alone = render("--set=scope=namespace,monitoring.podMonitor.workers=true")
    assert "namespaceSelector" not in named(alone, "PodMonitor")["hawk-workers"]["spec"]


def test_the_test_asks_the_services_that_are_there(render):
    objects = render("--set=agent.namespace=hawk-agents")
    (container,) = named(objects, "Pod")["hawk-test"]["spec"]["containers"]
    services = {
        f"{name}.{item['metadata']['namespace']}:{item['spec']['ports'][0]['port']}"
        for name, item in named(objects, "Service").items()
    }

    assert set(container["args"][1:]) == services
    compile(container["args"][0], "test", "exec")
    assert "hawk-test" not in named(render("--set=operator.enabled=false,agent.enabled=false"), "Pod")


def test_the_cleanup_has_the_rights_that_it_needs_and_goes_with_the_release(render):
    objects = render("--set=agent.namespace=hawk-agents")
    hooks = [item for item in objects if item["metadata"]["name"].endswith("-cleanup")]

    assert len(hooks) == 6
    for item in hooks:
        annotations = item["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "post-delete", item["kind"]
        assert "hook-succeeded" in annotations["helm.sh/hook-delete-policy"]
    for without in ("uninstall.cleanup=false", "operator.enabled=false,agent.enabled=false"):
        assert named(render(f"--set={without}"), "Job") == {}, without
    (container,) = named(render("--set=scope=namespace"), "Job")["hawk-cleanup"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert "--leases-only" in container["args"]


def test_values_that_templates_name_exist():
    """A misspelt value in a template is empty and not an error."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path in (CHART / "templates").rglob("*"):
        if not path.is_file():
            continue
        for dotted in re.findall(r"\.Values((?:\.[A-Za-z]+)+)", path.read_text()):
            at = values
            for key in dotted.strip(".").split("."):
                if not isinstance(at, dict) or not at:
                    break
                assert key in at, f"{path.name}: .Values{dotted}"
                at = at[key]


def test_a_value_that_does_not_exist_is_refused_at_every_level(render):
    for path in ("agent.rdma", "agent.priorityQuota", "networkPolicy", "uninstall", "monitoring.podMonitor"):
        with pytest.raises(RenderError, match="misspelt"):
            render(f"--set={path}.misspelt=1")
