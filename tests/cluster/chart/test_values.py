"""The chart's values and what it renders from them, without a cluster."""

from __future__ import annotations

import json
import runpy
import shutil

import pytest
import yaml

from . import rights
from .release import CHART, RenderError, helm, named

pytestmark = pytest.mark.cluster

REFUSED = {
    "scope=all": "/scope",
    "operator.replicas=0": "/operator/replicas",
    "operator.replicas=two": "/operator/replicas",
    "operator.replica=2": "replica",
    "operator.runAsUser=0": "/operator/runAsUser",
    "operator.resyncSeconds=0": "/operator/resyncSeconds",
    "operator.resources.limits.memory=lots": "/operator/resources/limits/memory",
    "operator.extraArgs[0]=verbose": "/operator/extraArgs/0",
    "operator.scaleTargets[0].resources[0]=*": "/operator/scaleTargets/0/resources/0",
    "agent.port=70000": "/agent/port",
    "agent.socketDirectory=run": "/agent/socketDirectory",
    "agent.memlock=Yes": "/agent/memlock",
    "agent.maxUnavailable=0": "/agent/maxUnavailable",
    "agent.runAsUser=1000": "agent.runAsUser: 1000",
    "agent.createNamespace=true": "agent.createNamespace",
    "agent.serviceAccount.create=false": "agent.serviceAccount.name",
    "operator.serviceAccount.create=false": "operator.serviceAccount.name",
    "image.digest=sha256:12": "/image/digest",
    "operator.image.repository=": "/operator/image/repository",
    "image.registry=example.com/": "/image/registry",
    "agent.rdma.resources.nic=1": "'nic' does not match",
    "agent.rdma.resourceClaims[0].name=nic": "/agent/rdma/resourceClaims/0",
    "agent.updateStrategy=Recreate": "/agent/updateStrategy",
    "agent.terminationGracePeriodSeconds=0": "/agent/terminationGracePeriodSeconds",
    "operator.extraVolumeMounts[0].name=x": "mountPath",
    "networkPolicy.metricsFrom[0].pods=x": "/networkPolicy/metricsFrom/0",
    "monitoring.podMonitor.workerPath=metrics": "/monitoring/podMonitor/workerPath",
    "trust.mode=None": "/trust/mode",
    "trust.mode=Files": "trust.volume",
    "trust.volume.emptyDir.medium=Memory": "trust.volume",
    "nodes.manage=maybe": "/nodes/manage",
    "monitoring.serviceMonitor.interval=5x": "/monitoring/serviceMonitor/interval",
    "fullnameOverride=Hawk_1": "/fullnameOverride",
}


@pytest.mark.parametrize(("value", "named_value"), REFUSED.items(), ids=REFUSED)
def test_a_wrong_value_is_refused_by_name(render, value, named_value):
    with pytest.raises(RenderError) as refusal:
        render(f"--set={value}")

    assert named_value in str(refusal.value)


def test_the_schema_knows_every_value_and_its_default(render):
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def unknown(part, values, path=""):
        for key, value in values.items():
            below = part["properties"].get(key)
            if below and "$ref" in below:
                below = schema["definitions"][below["$ref"].rpartition("/")[2]]
            if below is None:
                yield f"{path}{key}"
            elif isinstance(value, dict) and below.get("properties"):
                yield from unknown(below, value, f"{path}{key}.")

    assert list(unknown(schema, values)) == []
    assert set(schema["properties"]) - set(values) == {"global"}
    assert render() != []


def test_lint_finds_nothing_even_when_strict(clients, tmp_path):
    done = helm(clients.helm, tmp_path, "lint", "--strict", CHART)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


def test_the_table_of_values_is_current():
    table = runpy.run_path(str(CHART.parent / "values_table.py"))

    assert table["main"](["--check"]) == 0


def test_a_value_without_a_description_fails_the_table():
    table = runpy.run_path(str(CHART.parent / "values_table.py"))

    with pytest.raises(table["UndescribedError"], match=r"operator\.port"):
        table["rows"]("operator:\n  # -- The name.\n  name: x\n  port: 1\n")


def test_the_packed_chart_holds_the_generated_crds_and_nothing_foreign(clients, tmp_path):
    done = helm(clients.helm, tmp_path, "package", CHART, "-d", tmp_path)
    assert done.returncode == 0, done.stderr
    shutil.unpack_archive(next(tmp_path.glob("*.tgz")), tmp_path / "out")

    packed = tmp_path / "out" / "hawk"
    generated = sorted((CHART.parents[1] / "crds" / "hawk_api" / "crds").glob("*.yaml"))
    assert len(generated) == 3
    for file in generated:
        assert (packed / "files" / "crds" / file.name).read_bytes() == file.read_bytes()
    top = {path.name for path in packed.iterdir()} - {".helmignore", "README.md"}
    assert top == {"Chart.yaml", "files", "templates", "values.schema.json", "values.yaml"}


def test_crds_are_rendered_as_generated_and_kept_on_removal(render):
    rendered = named(render(), "CustomResourceDefinition")

    files = sorted((CHART / "files" / "crds").glob("*.yaml"))
    assert len(rendered) == len(files) == 3
    for file in files:
        generated = yaml.safe_load(file.read_text())
        crd = rendered[generated["metadata"]["name"]]
        assert crd["spec"] == generated["spec"]
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert named(render("--set=crds.install=false"), "CustomResourceDefinition") == {}


def test_scope_namespace_has_roles_alone(render):
    kinds = {item["kind"] for item in render("--set=scope=namespace,crds.install=false")}

    assert kinds == {
        "Deployment",
        "Job",
        "Pod",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    }


def test_no_webhook_is_installed_and_the_policy_sees_agents_alone(render):
    """Nothing of HawkPool can be down and block somebody else's write."""
    objects = render()

    assert not [item for item in objects if item["kind"].endswith("WebhookConfiguration")]
    (policy,) = named(objects, "ValidatingAdmissionPolicy").values()
    (condition,) = policy["spec"]["matchConditions"]
    account = "system:serviceaccount:hawk-system:hawk-agent"
    assert condition["expression"] == f"request.userInfo.username == '{account}'"


def rules(objects):
    return [
        (item["metadata"]["name"], rule)
        for item in objects
        if item["kind"] in {"Role", "ClusterRole"}
        for rule in item["rules"]
    ]


@pytest.mark.parametrize(
    "values", ["scope=cluster", "scope=namespace", "trust.mode=Files,agent.enabled=false"]
)
def test_no_rule_has_a_wildcard_and_secrets_are_named(render, values):
    found = rules(render(f"--set={values}"))

    assert found
    for name, rule in found:
        assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"], name
        if "secrets" in rule["resources"]:
            assert rule["resourceNames"] == ["hawk-agent-ca"]
            assert rule["verbs"] == ["get", "update"]


def test_two_releases_do_not_meet_in_cluster_scoped_names(clients, render):
    names = [
        {
            (item["kind"], item["metadata"]["name"])
            for item in render("--set=crds.install=false", *where)
            if "namespace" not in item["metadata"]
        }
        for where in (("-n", "one"), ("-n", "two"))
    ]

    assert names[0]
    assert not names[0] & names[1]


def test_the_agent_locks_memory_in_a_way_that_works(render):
    """IPC_LOCK has an effect for root alone, so the two come together or not at all."""

    def rights(*arguments):
        pod = named(render(*arguments), "DaemonSet")["hawk-agent"]["spec"]["template"]["spec"]
        return pod["securityContext"]["runAsUser"], pod["containers"][0]["securityContext"]["capabilities"]

    assert rights() == (0, {"drop": ["ALL"], "add": ["IPC_LOCK"]})
    assert rights("--set=agent.memlock=Runtime,agent.runAsUser=1000") == (1000, {"drop": ["ALL"]})


def test_certificates_from_elsewhere_take_away_every_right_to_sign(render):
    objects = render("--set=trust.mode=Files,trust.volume.hostPath.path=/etc/hawk/tls")

    touched = {resource for _, rule in rules(objects) for resource in rule["resources"]}
    assert not touched & {"secrets", "signers", "certificatesigningrequests"}
    assert named(objects, "Secret") == {}
    pod = named(objects, "DaemonSet")["hawk-agent"]["spec"]["template"]["spec"]
    assert {"name": "tls", "hostPath": {"path": "/etc/hawk/tls"}} in pod["volumes"]
    assert "--identity=files" in pod["containers"][0]["args"]


def test_the_image_is_pinned_by_digest_where_one_is_given(render):
    digest = "sha256:" + "0" * 64
    components = (("operator", "Deployment", "hawk-operator"), ("agent", "DaemonSet", "hawk-agent"))
    plain = render("--set=image.registry=example.com/ai")
    pinned = render(*(f"--set={name}.image.digest={digest}" for name, _, _ in components))
    common = render(f"--set=image.digest={digest},image.repository=one,image.registry=example.com")
    for name, kind, workload in components:
        assert container(plain, kind, workload)["image"] == f"example.com/ai/hawkpool-{name}:0.1.0"
        assert container(pinned, kind, workload)["image"] == f"hawkpool-{name}@{digest}"
        assert container(common, kind, workload)["image"] == f"example.com/one@{digest}"
    with pytest.raises(RenderError, match=r"image\.digest: names one image"):
        render(f"--set=image.digest={digest}")


def container(objects, kind, name):
    return named(objects, kind)[name]["spec"]["template"]["spec"]["containers"][0]


def test_the_operator_accepts_the_arguments_that_the_chart_gives(render):
    """A flag that the process does not know would be found by a crash loop otherwise."""
    from hawk_operator.runtime.settings import OperatorSettings

    parsed = OperatorSettings.read(container(render(), "Deployment", "hawk-operator")["args"])

    assert (parsed.system_namespace, parsed.metrics_port, parsed.resync) == ("hawk-system", 8080, 30.0)


def test_the_readme_links_to_files_that_exist():
    import re

    for target in re.findall(r"\]\(([^)#]+)\)", (CHART / "README.md").read_text()):
        assert (CHART / target).exists(), target


def test_every_template_is_rendered_by_some_values(render):
    """Guards that are never true would hide dead templates."""
    parts = ("serviceMonitor", "prometheusRule", "dashboard")
    values = [f"monitoring.{part}.enabled=true" for part in parts]
    values += ["monitoring.podMonitor.agents=true", "monitoring.podMonitor.workers=true"]
    values += ["agent.namespace=hawk-agents", "agent.createNamespace=true", "networkPolicy.enabled=true"]
    kinds = {item["kind"] for item in render(f"--set={','.join(values)}")}

    assert kinds >= {"ServiceMonitor", "Namespace", "DaemonSet", "Deployment", "Secret", "ConfigMap"}
    assert kinds >= {"PodMonitor", "NetworkPolicy", "ResourceQuota", "Job", "Pod"}


def test_the_agent_accepts_the_arguments_that_the_chart_gives(render):
    from hawk_agent.service.settings import AgentSettings

    given = container(render(), "DaemonSet", "hawk-agent")["args"]
    given = [word.replace("$(NODE_NAME)", "node-a").replace("$(POD_IP)", "10.0.0.1") for word in given]
    parsed = AgentSettings.read(given)

    assert (parsed.kube, parsed.identity, parsed.system_namespace) == (True, "kubernetes", "hawk-system")
    assert (parsed.node, parsed.advertise, parsed.listen) == ("node-a", "10.0.0.1", "0.0.0.0:7400")
    assert (parsed.metrics, parsed.data_port) == ("0.0.0.0:9400", 7401)
    assert str(parsed.socket) == "/run/hawk/agent.sock"


def test_each_component_is_given_its_own_rights_and_not_the_others(render):
    """A comparison with the union of both would hide that one lacks what the other has."""
    objects = render()

    operator = rights.granted(objects, "hawk-system", "hawk-operator")
    agent = rights.granted(objects, "hawk-system", "hawk-agent")
    assert ("create", "hawkpool.dev", "hawknodes") in agent - operator
    assert ("patch", "hawkpool.dev", "hawkpools/status") in operator - agent
    assert rights.granted(objects, "elsewhere", "hawk-agent") == set()


def test_what_was_asked_is_read_from_the_audit_log():
    def event(verb, resource, code, user="u", subresource=""):
        about = {"resource": resource, "apiGroup": "g", "subresource": subresource}
        status = {"code": code, "message": "no"}
        return {
            "user": {"username": user},
            "verb": verb,
            "objectRef": about,
            "responseStatus": status,
            "requestURI": "/x",
        }

    events = [
        event("list", "pools", 200),
        event("patch", "pools", 201),
        event("patch", "pools", 200, subresource="status"),
        event("get", "secrets", 403),
        event("delete", "pools", 200, user="another"),
    ]

    assert rights.asked(events, "u") == {
        ("list", "g", "pools"),
        ("patch", "g", "pools"),
        ("create", "g", "pools"),
        ("patch", "g", "pools/status"),
        ("get", "g", "secrets"),
    }
    assert rights.refused(events, "u") == ["get /x: no"]
