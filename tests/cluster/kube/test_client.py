"""Calls, watches and logins of the Kubernetes client, answered by a real API server."""

from __future__ import annotations

import base64
import json
import stat
import sys
import threading
from contextlib import closing

import pytest
import yaml
from urllib3.exceptions import InsecureRequestWarning

from hawk_kube import client, config
from hawk_kube.errors import ConflictError, NotFoundError, RejectedError, UnavailableError
from hawk_kube.kinds import ACCESS_REVIEW, CONFIG_MAP, DEPLOYMENT, LEASE, POD, SUBJECT_REVIEW, TOKEN_REVIEW
from tests.cluster.cluster import client_of
from tests.support.waiting import until

from .pod import Pod

pytestmark = pytest.mark.cluster


def connected(kubeconfig, manager="test"):
    return closing(client_of(kubeconfig, manager))


@pytest.fixture
def api(cluster):
    with connected(cluster.kubeconfig) as found:
        yield found


def config_map(namespace, name="one", **data):
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


# Calls


def test_objects_are_made_changed_and_removed(api, namespace):
    made = api.create(CONFIG_MAP, config_map(namespace, a="1"))
    with pytest.raises(ConflictError) as taken:
        api.create(CONFIG_MAP, config_map(namespace))
    assert taken.value.reason == "AlreadyExists"

    assert api.patch(CONFIG_MAP, "one", namespace, {"data": {"b": "2"}})["data"] == {"a": "1", "b": "2"}
    with pytest.raises(ConflictError) as stale:
        api.replace(CONFIG_MAP, made)
    assert stale.value.reason == "Conflict"
    current = api.get(CONFIG_MAP, "one", namespace)
    assert api.replace(CONFIG_MAP, {**current, "data": {"c": "3"}})["data"] == {"c": "3"}

    api.delete(CONFIG_MAP, "one", namespace)
    api.delete(CONFIG_MAP, "one", namespace)
    with pytest.raises(NotFoundError, match="get configmaps/one"):
        api.get(CONFIG_MAP, "one", namespace)


def test_apply_takes_fields_over_and_a_dry_run_changes_nothing(cluster, api, namespace):
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", **config_map(namespace, a="theirs", b="theirs")})

    tried = api.apply(CONFIG_MAP, config_map(namespace, a="ours"), dry_run=True)
    assert tried["data"]["a"] == "ours"
    assert api.get(CONFIG_MAP, "one", namespace)["data"]["a"] == "theirs"
    with connected(cluster.kubeconfig, "another-manager") as other:
        applied = other.apply(CONFIG_MAP, config_map(namespace, a="ours"))
    assert applied["data"] == {"a": "ours", "b": "theirs"}
    assert {entry["manager"] for entry in applied["metadata"]["managedFields"]} == {"test", "another-manager"}


def test_a_rejection_names_the_fields(api, namespace):
    lease = {"metadata": {"name": "l", "namespace": namespace}, "spec": {"leaseDurationSeconds": -1}}
    with pytest.raises(RejectedError) as rejected:
        api.create(LEASE, lease)
    assert (rejected.value.status, rejected.value.reason) == (422, "Invalid")
    assert rejected.value.fields == ("spec.leaseDurationSeconds",)


def test_scale_and_what_it_selects(api, namespace):
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "example/c"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    api.apply(DEPLOYMENT, {"metadata": {"name": "d", "namespace": namespace}, "spec": spec})

    assert api.scale_of(DEPLOYMENT, namespace, "d") == (1, "app=a")
    api.scale(DEPLOYMENT, namespace, "d", 2)
    assert api.scale_of(DEPLOYMENT, namespace, "d") == (2, "app=a")
    pods = until(lambda: p if len(p := api.list(POD, namespace, "app=a")) == 2 else None, what="two pods")
    assert api.list(POD, namespace, {"app": "b"}) == []
    assert len(api.list(POD, namespace, fields={"metadata.name": pods[0]["metadata"]["name"]})) == 1

    api.delete(DEPLOYMENT, "d", namespace)
    until(lambda: not api.list(POD, namespace, "app=a"), what="its pods to go with it", timeout=60)


def test_lists_come_in_pages_of_one_version(api, namespace, monkeypatch):
    monkeypatch.setattr(client, "_PAGE", 3)
    names = [f"n{index}" for index in range(7)]
    for name in names:
        api.create(CONFIG_MAP, config_map(namespace, name, marked="yes"))

    pages = list(api.pages(CONFIG_MAP, namespace))
    assert len({version for version, _ in pages}) == 1
    assert len(pages) == 3
    found = [item["metadata"]["name"] for _, items in pages for item in items]
    assert [name for name in found if name in names] == names


def test_discovery_openapi_and_reviews(api):
    assert "deployments/scale" in {item["name"] for item in api.document(DEPLOYMENT.prefix)["resources"]}
    assert "components" in api.document(f"/openapi/v3{DEPLOYMENT.prefix}")
    assert api.review(SUBJECT_REVIEW, {})["userInfo"]["username"]
    asked = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    assert api.review(ACCESS_REVIEW, asked)["allowed"] is True
    assert "error" in api.review(TOKEN_REVIEW, {"token": "none"})


# Watches


def test_a_watch_tells_changes_and_ends_from_either_side(api, namespace):
    first = api.create(CONFIG_MAP, config_map(namespace, a="1"))
    version = first["metadata"]["resourceVersion"]

    def watch(seconds):
        fields = {"metadata.name": "one"}
        return api.watch(CONFIG_MAP, namespace, version=version, seconds=seconds, fields=fields)

    events = watch(60)
    api.patch(CONFIG_MAP, "one", namespace, {"data": {"a": "2"}})
    api.delete(CONFIG_MAP, "one", namespace)
    seen = [next(events) for _ in range(2)]
    assert [(kind, body["data"]["a"]) for kind, body in seen] == [("MODIFIED", "2"), ("DELETED", "2")]
    closing_soon = threading.Timer(0.2, events.close)  # while the reader waits for bytes
    closing_soon.start()
    assert list(events) == []
    closing_soon.join()

    assert len(list(watch(1))) == 2  # the server's own end


# Logins


@pytest.fixture
def account(cluster, namespace):
    """A kubeconfig of a service account that may do nothing."""
    cluster.kubectl("create", "serviceaccount", "worker", "-n", namespace)
    return cluster.service_account_kubeconfig(namespace, "worker")


def with_user(kubeconfig, path, user):
    body = json.loads(kubeconfig.read_text())
    body["users"][0]["user"] = user
    path.write_text(yaml.safe_dump(body))
    return path


def whoami(api):
    return api.review(SUBJECT_REVIEW, {})["userInfo"]["username"]


def token_of(kubeconfig):
    return json.loads(kubeconfig.read_text())["users"][0]["user"]["token"]


def test_a_certificate_and_a_token_are_logins(cluster, account, namespace):
    with connected(cluster.kubeconfig) as api:
        assert not whoami(api).startswith("system:serviceaccount:")
    with connected(account) as api:
        assert whoami(api) == f"system:serviceaccount:{namespace}:worker"
        assert api.namespace == namespace
        with pytest.raises(RejectedError) as forbidden:
            api.list(POD, namespace)
        assert (forbidden.value.status, forbidden.value.reason) == (403, "Forbidden")


def test_a_token_file_that_is_replaced(account, namespace, tmp_path):
    (tmp_path / "token").write_text("eyJhbGciOiJSUzI1NiJ9.e30.none")
    path = with_user(account, tmp_path / "config", {"tokenFile": "token"})
    with connected(path) as api:
        with pytest.raises(UnavailableError) as refused:
            whoami(api)
        assert refused.value.status == 401
        (tmp_path / "token").write_text(token_of(account))
        assert whoami(api) == f"system:serviceaccount:{namespace}:worker"


@pytest.mark.parametrize("gives", ["token", "certificate"])
def test_a_plugin_logs_in(cluster, account, namespace, gives, tmp_path):
    if gives == "token":
        status, expected = {"token": token_of(account)}, f"system:serviceaccount:{namespace}:worker"
    else:
        login = config.from_files([cluster.kubeconfig]).credentials.login()
        status = {"clientCertificateData": login.certificate.decode(), "clientKeyData": login.key.decode()}
        with connected(cluster.kubeconfig) as api:
            expected = whoami(api)
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!{sys.executable}\nprint({json.dumps(answer)!r})\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": version, "command": "./plugin"}}
    with connected(with_user(account, tmp_path / "config", user)) as api:
        assert whoami(api) == expected


def test_a_pod_logs_in_and_follows_its_token(cluster, account, namespace, tmp_path):
    pod = Pod.of(cluster, account, tmp_path / "mount")
    with closing(client.connect_client("test", endpoint=config.load_config(pod.environ, pod.folder))) as api:
        assert whoami(api) == f"system:serviceaccount:{namespace}:worker"
        assert api.namespace == namespace

    good = (pod.folder / "token").read_text()
    (pod.folder / "token").write_text(good[:-8] + "AAAAAAAA")
    with closing(client.connect_client("test", endpoint=config.load_config(pod.environ, pod.folder))) as api:
        with pytest.raises(UnavailableError) as refused:
            whoami(api)
        assert refused.value.status == 401
        (pod.folder / "token").write_text(good)
        assert whoami(api) == f"system:serviceaccount:{namespace}:worker"


def test_a_server_of_another_authority_is_not_believed(cluster, account, tmp_path):
    """And neither is one of another name, unless tls-server-name says which."""
    body = json.loads(account.read_text())
    entry = body["clusters"][0]["cluster"]
    path = tmp_path / "config"

    def server_seen(**changed):
        entry.update(changed)
        path.write_text(json.dumps(body))
        with connected(path) as api:
            return whoami(api)

    with pytest.raises(UnavailableError, match=r"(?i)certificate"):
        server_seen(**{"tls-server-name": "elsewhere.example"})
    assert server_seen(**{"tls-server-name": "kubernetes.default.svc"})
    other = base64.b64encode(another_authority()).decode()
    with pytest.raises(UnavailableError, match=r"(?i)certificate"):
        server_seen(**{"certificate-authority-data": other})
    with pytest.warns(InsecureRequestWarning):
        assert server_seen(**{"certificate-authority-data": "", "insecure-skip-tls-verify": True})


def another_authority():
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "another")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)
