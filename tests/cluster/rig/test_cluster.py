"""The control plane behaves like a cluster: RBAC, tokens, signing, nodes, audit, Prometheus."""

from __future__ import annotations

import base64
import datetime
import json
from typing import TYPE_CHECKING

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from tests.cluster import binaries, pki
from tests.cluster.cluster import Cluster, CommandError
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.cluster.fixtures import AddNode

pytestmark = pytest.mark.cluster


def deployment(namespace: str, replicas: int, **pod_annotations: str) -> dict[str, object]:
    labels = {"app": "sleeper"}
    container = {"name": "main", "image": "none", "resources": {"limits": {"example.com/device": "2"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "sleeper", "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": pod_annotations},
                "spec": {"containers": [container]},
            },
        },
    }


def test_server_and_clients_are_the_pinned_version(cluster: Cluster) -> None:
    cluster.own_files  # noqa: B018
    versions = json.loads(cluster.kubectl("version", "-o", "json"))

    assert versions["serverVersion"]["gitVersion"] == f"v{binaries.kubernetes_version()}"
    assert versions["clientVersion"]["gitVersion"] == f"v{binaries.kubernetes_version()}"
    assert cluster.helm("version", "--short").startswith("v4.")


def test_service_account_may_do_only_what_a_role_grants(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "serviceaccount", "reader", "-n", namespace)
    reader = cluster.service_account_kubeconfig(namespace, "reader")
    with pytest.raises(CommandError, match=r"Forbidden.*cannot list resource \"configmaps\""):
        cluster.get("configmaps", kubeconfig=reader)

    cluster.kubectl("create", "role", "read", "--verb=list", "--resource=configmaps", "-n", namespace)
    cluster.kubectl(
        "create",
        "rolebinding",
        "read",
        "--role=read",
        f"--serviceaccount={namespace}:reader",
        "-n",
        namespace,
    )

    until(lambda: cluster.get("configmaps", kubeconfig=reader), what="the new right", ignore=(CommandError,))
    with pytest.raises(CommandError, match="Forbidden"):
        cluster.kubectl("delete", "configmaps", "--all", kubeconfig=reader)


def test_token_bound_to_a_pod_ends_with_the_pod(cluster: Cluster, namespace: str, fake_node: AddNode) -> None:
    fake_node(capacity={"example.com/device": "2"})
    cluster.kubectl("create", "serviceaccount", "agent", "-n", namespace)
    pod = deployment(namespace, 1)["spec"]["template"]["spec"]  # type: ignore[index]
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "agent", "namespace": namespace},
            "spec": {"serviceAccountName": "agent", **pod},
        }
    )
    cluster.kubectl("wait", "pod/agent", "-n", namespace, "--for=condition=Ready", "--timeout=120s")
    agent = cluster.service_account_kubeconfig(namespace, "agent", bound_pod="agent")
    user = json.loads(cluster.kubectl("auth", "whoami", "-o", "json", kubeconfig=agent))["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{namespace}:agent"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["agent"]

    cluster.kubectl("delete", "pod", "agent", "-n", namespace)

    def refused() -> bool:
        try:
            cluster.kubectl("auth", "whoami", kubeconfig=agent)
        except CommandError as error:
            return "Unauthorized" in str(error)
        return False

    # The API server remembers a good token for ten seconds.
    until(refused, what="the token of a deleted pod refused", interval=0.5)


def test_node_may_not_change_another_node(cluster: Cluster, fake_node: AddNode) -> None:
    ours, other = fake_node(), fake_node()
    as_node = [f"--as=system:node:{ours}", "--as-group=system:nodes"]

    patch = '--patch={"metadata":{"annotations":{"example.com/a":"b"}}}'
    cluster.kubectl("patch", "node", ours, patch, *as_node)
    with pytest.raises(CommandError, match=r"cannot (modify|read)|not allowed"):
        cluster.kubectl("patch", "node", other, patch, *as_node)


def test_approved_certificate_request_is_signed(cluster: Cluster) -> None:
    key = pki.new_key()
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    pem = request.public_bytes(serialization.Encoding.PEM)
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    cluster.apply({**kind, "metadata": {"name": "somebody"}, "spec": spec})
    try:
        cluster.kubectl("certificate", "approve", "somebody")
        signed = until(
            lambda: cluster.get("csr", "somebody")["status"].get("certificate"), what="a signed certificate"
        )
    finally:
        cluster.kubectl("delete", "csr", "somebody")

    certificate = x509.load_pem_x509_certificate(base64.b64decode(signed))
    assert certificate.subject == subject
    assert certificate.not_valid_after_utc > datetime.datetime.now(datetime.UTC)


def test_pods_run_where_devices_are_and_wait_where_not(
    cluster: Cluster, namespace: str, fake_node: AddNode
) -> None:
    node = fake_node(capacity={"example.com/device": "4"})
    cluster.apply(deployment(namespace, 3))

    def phases() -> list[str]:
        return sorted(pod["status"]["phase"] for pod in cluster.get("pods", "-n", namespace)["items"])

    until(lambda: phases() == ["Pending", "Running", "Running"], what="two of three pods running")
    running = [
        pod for pod in cluster.get("pods", "-n", namespace)["items"] if pod["status"]["phase"] == "Running"
    ]
    assert {pod["spec"]["nodeName"] for pod in running} == {node}

    fake_node(capacity={"example.com/device": "2"})

    until(lambda: phases() == ["Running"] * 3, what="the third pod running on the second node")


def test_pod_is_ready_no_sooner_than_its_annotation_says(
    cluster: Cluster, namespace: str, fake_node: AddNode
) -> None:
    fake_node(capacity={"example.com/device": "4"})
    cluster.apply(deployment(namespace, 1, **{"test.hawkpool.dev/ready-after": "2s"}))
    cluster.kubectl(
        "wait", "deployment/sleeper", "-n", namespace, "--for=condition=Available", "--timeout=120s"
    )

    [pod] = cluster.get("pods", "-n", namespace)["items"]
    at = {entry["type"]: entry["lastTransitionTime"] for entry in pod["status"]["conditions"]}
    parsed = {kind: datetime.datetime.fromisoformat(text) for kind, text in at.items()}
    assert parsed["Ready"] - parsed["PodScheduled"] >= datetime.timedelta(seconds=1)


def test_audit_log_holds_the_bodies_of_our_groups_writes_and_no_others(
    cluster: Cluster, namespace: str
) -> None:
    mark = cluster.audit_mark()
    cluster.kubectl("create", "configmap", "secretive", "--from-literal=a=b", "-n", namespace)
    crd = yaml.safe_load(THINGS)
    cluster.apply(crd)
    cluster.kubectl("wait", f"crd/{crd['metadata']['name']}", "--for=condition=Established", "--timeout=120s")
    try:
        thing = {"apiVersion": "hawkpool.dev/v1test", "kind": "RigThing", "spec": {"size": 3}}
        cluster.apply({**thing, "metadata": {"name": "thing", "namespace": namespace}})
        writes = [
            event
            for event in cluster.audit_events(mark)
            if event["verb"] in {"create", "patch"}
            and event.get("objectRef", {}).get("namespace") == namespace
        ]
    finally:
        cluster.kubectl("delete", "crd", crd["metadata"]["name"])

    by_resource = {event["objectRef"]["resource"]: event for event in writes}
    assert "requestObject" not in by_resource["configmaps"]
    assert by_resource["rigthings"]["requestObject"]["spec"] == {"size": 3}
    assert by_resource["rigthings"]["user"]["username"] == "admin"
    assert by_resource["rigthings"]["responseStatus"]["code"] == 201


THINGS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rigthings.hawkpool.dev}
spec:
  group: hawkpool.dev
  scope: Namespaced
  names: {kind: RigThing, plural: rigthings}
  versions:
    - name: v1test
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {size: {type: integer}}}}
"""


def test_two_clusters_side_by_side_share_nothing(cluster: Cluster, namespace: str) -> None:
    cluster.own_files  # noqa: B018
    with Cluster.running() as other:
        assert (
            other.get("namespaces", "kube-system")["metadata"]["uid"]
            != (cluster.get("namespaces", "kube-system")["metadata"]["uid"])
        )
        with pytest.raises(CommandError, match=f'namespaces "{namespace}" not found'):
            other.get("namespace", namespace)
        mixed = json.loads(other.kubeconfig.read_text())
        mixed["users"] = json.loads(cluster.kubeconfig.read_text())["users"]
        foreign = other.folder / "foreign.kubeconfig"
        foreign.write_text(json.dumps(mixed))
        with pytest.raises(CommandError, match=r"Unauthorized|must be logged in"):
            other.get("namespaces", kubeconfig=foreign)
        folder = other.folder

    assert not folder.exists()
    assert cluster.get("namespace", namespace)["status"]["phase"] == "Active"


def test_a_fake_node_renews_its_lease_as_a_kubelet_does(cluster: Cluster, fake_node: AddNode) -> None:
    """Else the controller manager would call the node, and its pods, NotReady a minute later."""
    node = fake_node()

    def renewed() -> str:
        lease = cluster.get("lease", node, "-n", "kube-node-lease")
        return str(lease["spec"]["renewTime"])

    first = until(renewed, what="the node's Lease", ignore=(CommandError,))
    until(lambda: renewed() != first, what="a renewal")
