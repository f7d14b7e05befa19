"""Install, upgrade from an older API, remove, install again: fields arrive, pools stay."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from hawk_kube.kinds import ACCELERATOR_CLASS, LEASE
from tests.cluster.cluster import Cluster, CommandError

from .release import CHART, NAMESPACE, Release, documents

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

POOL = {
    "apiVersion": "hawkpool.dev/v1alpha1",
    "kind": "HawkPool",
    "metadata": {"name": "llama", "namespace": "default"},
    "spec": {
        "model": {"preset": "llama-3.1-8b"},
        "groups": [
            {
                "name": role.lower(),
                "role": role,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": role.lower()},
            }
            for role in ("Prefill", "Decode")
        ],
    },
}
FIRST_VALUES = Path(__file__).with_name("first_values.yaml")
OUTSIDE = "--set=operator.enabled=false,agent.enabled=false"


@pytest.fixture
def older(tmp_path):
    """The chart with the first one's values; its API has budgets without `usdPerHour`, and no rules."""
    chart = tmp_path / "hawk"
    shutil.copytree(CHART, chart)  # follows the link to the generated CRDs
    shutil.copy(FIRST_VALUES, chart / "values.yaml")
    file = chart / "files" / "crds" / "hawkpools.yaml"
    crd = yaml.safe_load(file.read_text())
    pool = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    drop_rules(pool)
    del pool["properties"]["spec"]["properties"]["scaling"]["properties"]["budget"]["properties"][
        "usdPerHour"
    ]
    del pool["properties"]["status"]["properties"]["decode"]
    file.write_text(yaml.safe_dump(crd, sort_keys=False))
    return chart


def drop_rules(schema):
    if isinstance(schema, dict):
        schema.pop("x-kubernetes-validations", None)
    for below in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(below, dict | list):
            drop_rules(below)


@pytest.fixture
def own():
    """A control plane a test: one in which CRDs went and came again is no sound start for the next."""
    if os.environ.get("HAWK_TEST_KUBECONFIG"):
        pytest.skip("needs a control plane of its own: it removes CRDs, and every pool with them")
    with Cluster.running() as cluster:
        yield cluster


@pytest.fixture
def release(own):
    """The chart's release, not installed yet."""
    return Release(own, "hawk", NAMESPACE)


def budget(own):
    return own.get("hawkpool", "llama", "-n", "default")["spec"]["scaling"]["budget"]


def test_an_upgrade_brings_new_fields_to_an_older_api(own, release, older):
    """With CRDs in helm's crds/ folder the old schema would stay, and drop the new limit in silence."""
    limited = {**POOL, "spec": {**POOL["spec"], "scaling": {"budget": {"usdPerHour": "120"}}}}
    release.install(OUTSIDE, chart=older)
    with pytest.raises(CommandError, match="usdPerHour"):
        own.apply(limited)
    own.apply(POOL)
    before = own.get("hawkpool", "llama", "-n", "default")

    release.upgrade()

    after = own.get("hawkpool", "llama", "-n", "default")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    own.apply(limited)
    assert budget(own) == {"usdPerHour": "120"}
    status = {"status": {"decode": 3}}
    patch = ["hawkpool", "llama", "-n", "default", "--subresource=status", "--type=merge", "-p"]
    own.kubectl("patch", *patch, yaml.safe_dump(status))
    assert own.get("hawkpool", "llama", "-n", "default")["status"]["decode"] == 3


def test_removal_keeps_pools_and_a_new_installation_takes_them_over(own, release):
    release.install(OUTSIDE)
    own.apply(POOL)
    before = own.get("hawkpool", "llama", "-n", "default")

    release.uninstall()

    assert own.get("hawkpool", "llama", "-n", "default") == before
    ours = ["-l", "app.kubernetes.io/name=hawk"]
    left = own.get("all,secret,configmap,sa,role,rolebinding", "-n", NAMESPACE, *ours)
    assert left["items"] == []
    cluster_wide = "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding"
    assert own.get(cluster_wide, *ours)["items"] == []

    release.install(OUTSIDE)
    after = own.get("hawkpool", "llama", "-n", "default")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_release_of_another_name_takes_the_api_over_when_told_to(own, release):
    release.install(OUTSIDE)
    release.uninstall()
    other = Release(own, "other", "elsewhere")

    with pytest.raises(CommandError, match="ownership"):
        other.install(OUTSIDE)
    own.helm("uninstall", "other", "-n", "elsewhere", "--ignore-not-found")
    other.install(OUTSIDE, "--take-ownership")

    other.uninstall()


def test_an_upgrade_leaves_the_authority_alone(own, release):
    """The Secret is born empty and filled by the operator: helm must not empty it again."""
    release.install(OUTSIDE)
    patch = '{"data": {"signing.key": "c2VjcmV0"}}'
    own.kubectl("patch", "secret", "hawk-agent-ca", "-n", NAMESPACE, "--type=merge", "-p", patch)

    release.upgrade("--set=operator.replicas=3")

    assert own.get("secret", "hawk-agent-ca", "-n", NAMESPACE)["data"] == {"signing.key": "c2VjcmV0"}


def test_everything_that_the_chart_can_render_is_accepted_by_the_api_server(own, release):
    """Deployment, DaemonSet, policies and all: a dry run alone, because no node runs them here."""
    for values in (
        "scope=cluster",
        "networkPolicy.enabled=true,agent.rdma.hostDevices=true,agent.rdma.networks=a",
        "agent.rdma.resources.hugepages-2Mi=1Gi,agent.rdma.resources.rdma/hca=1,agent.updateStrategy=OnDelete",
        "scope=namespace,crds.install=false",
        "scope=namespace,nodes.manage=true",
    ):
        arguments = ["hawk", CHART, "-n", "default", f"--set={values},monitoring.dashboard.enabled=true"]
        own.helm("install", *arguments, "--dry-run=server")
        text = own.helm("template", *arguments, "--skip-tests")
        objects = documents(text)
        own.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(objects))


def test_every_expression_of_the_admission_policy_type_checks(own, release):
    release.install(OUTSIDE)

    (policy,) = own.get("validatingadmissionpolicy", "-l", "app.kubernetes.io/name=hawk")["items"]

    assert policy["spec"]["failurePolicy"] == "Fail"
    assert "expressionWarnings" not in policy.get("status", {}).get("typeChecking", {})


def test_what_outlives_a_release_is_removed_by_one_command_with_the_rights_of_its_hook(own, release, render):
    """The job that runs the command needs a node; its account and rights are here, and its command line."""
    from hawk_api import labels
    from hawk_cli.commands.cleanup import remove_leftovers

    release.install(OUTSIDE)
    node = {"apiVersion": "hawkpool.dev/v1alpha1", "kind": "HawkNode", "metadata": {"name": "node-a"}}
    shipped = {
        "metadata": {"name": "ours", "labels": {labels.SHIPPED: "true"}},
        "spec": {"resourceName": "x.com/gpu"},
    }
    own.apply(node)
    with closing(own.client(manager="hawk-agent")) as agent, closing(own.client()) as somebody:
        for api, name in ((agent, "node-a"), (somebody, "foreign")):
            api.apply(LEASE, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {}})
        for name, body in (("ours", shipped), ("theirs", {**shipped, "metadata": {"name": "theirs"}})):
            somebody.apply(ACCELERATOR_CLASS, {**body, "metadata": {**body["metadata"], "name": name}})
    release.uninstall()
    hooks = [item for item in render("--skip-tests") if item["metadata"]["name"].endswith("-cleanup")]
    own.apply(*(item for item in hooks if item["kind"] != "Job"))
    kubeconfig = own.service_account_kubeconfig(NAMESPACE, "hawk-cleanup")

    with closing(own.client(kubeconfig)) as api:
        removed = remove_leftovers(api, NAMESPACE, nodes=True)
        again = remove_leftovers(api, NAMESPACE, nodes=True)

    assert (removed.leases, removed.hawk_nodes, removed.accelerator_classes) == (
        ["node-a"],
        ["node-a"],
        ["ours"],
    )
    assert (again.leases, again.hawk_nodes, again.accelerator_classes) == ([], [], [])
    assert own.get("hawknodes")["items"] == []
    assert [item["metadata"]["name"] for item in own.get("acceleratorclasses")["items"]] == ["theirs"]
    assert [item["metadata"]["name"] for item in own.get("leases", "-n", NAMESPACE)["items"]] == ["foreign"]
