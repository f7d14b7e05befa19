"""Which API server and which login: kubeconfigs, pods and credential plugins."""

from __future__ import annotations

import base64
import json
import stat
import sys

import pytest
import yaml

from hawk_kube import config
from hawk_kube.credentials import Login, Plugin, TokenFile
from hawk_kube.errors import ConfigError

VERSION = "client.authentication.k8s.io/v1"


def written(path, user=None, cluster=None, context=None, **more):
    """A kubeconfig with one of each; its path."""
    body = {
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "current-context": "x",
        **more,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(body))
    return path


@pytest.fixture
def pod(tmp_path):
    """Environment and mount of a pod."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    for name, text in (("token", "one\n"), ("ca.crt", "PEM"), ("namespace", "hawk-system")):
        (folder / name).write_text(text)
    return {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}, folder


# Where it is looked for


def test_the_first_rule_that_applies(tmp_path, pod):
    environ, folder = pod
    named = written(tmp_path / "named", context={"namespace": "n"})
    written(tmp_path / ".kube" / "config", cluster={"server": "https://home:1"})
    home = {"HOME": str(tmp_path)}

    chosen = config.load_config({**environ, **home, "KUBECONFIG": str(named)}, folder)
    assert (chosen.server, chosen.namespace) == ("https://10.0.0.1:6443", "n")
    chosen = config.load_config({**environ, **home}, folder)
    assert (chosen.server, chosen.namespace) == ("https://10.96.0.1:443", "hawk-system")
    assert config.load_config(home, folder).server == "https://home:1"
    with pytest.raises(ConfigError, match="no pod, and there is no"):
        config.load_config({"HOME": str(tmp_path / "nobody")}, folder)
    with pytest.raises(ConfigError, match="no such file"):
        config.load_config({**environ, **home, "KUBECONFIG": str(tmp_path / "absent")}, folder)


def test_several_files_are_merged_and_the_first_wins(tmp_path):
    users = [{"name": "u", "user": {"token": "first"}}]
    first = written(tmp_path / "a" / "one", users=users, clusters=[], contexts=[])
    cluster = {"certificate-authority": "ca.crt"}
    second = written(tmp_path / "b" / "two", {"token": "second"}, cluster, **{"current-context": "y"})
    (tmp_path / "b" / "ca.crt").write_text("PEM")

    chosen = config.load_config({"KUBECONFIG": f"{first}:{tmp_path / 'absent'}:{second}"})
    assert chosen.credentials.login() == Login("Bearer first")
    assert chosen.authority == b"PEM"  # beside the file that names it


def test_a_pod_ignores_proxies_and_has_an_address_by_ip_version(pod):
    environ, folder = pod
    found = config.load_config({**environ, "HTTPS_PROXY": "http://proxy:3128"}, folder)
    assert (found.proxy, found.authority) == ("", b"PEM")
    found = config.load_config({**environ, "KUBERNETES_SERVICE_HOST": "fd00::1"}, folder)
    assert found.server == "https://[fd00::1]:443"


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_pod_without_its_mount_is_told_the_file(name, pod):
    environ, folder = pod
    (folder / name).unlink()
    with pytest.raises(ConfigError, match=f"{folder}/{name}: No such file"):
        config.load_config(environ, folder).credentials.login()


@pytest.mark.parametrize(
    ("server", "cluster", "proxy"),
    [
        ("https://10.0.0.1", {}, None),
        ("https://127.0.0.1:6443", {}, ""),
        ("https://[::1]:6443", {}, ""),
        ("http://localhost:8080", {}, ""),
        ("https://127.0.0.1:6443", {"proxy-url": "http://p:1"}, "http://p:1"),
    ],
)
def test_which_proxy(server, cluster, proxy, tmp_path):
    path = written(tmp_path / "config", cluster={"server": server, **cluster})
    assert config.from_files([path]).proxy == proxy


def test_what_a_cluster_says_of_tls(tmp_path):
    data = base64.b64encode(b"PEM").decode()
    cluster = {
        "certificate-authority-data": data,
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kubernetes",
    }
    found = config.from_files([written(tmp_path / "config", cluster=cluster)])
    assert (found.authority, found.verify, found.server_name) == (b"PEM", False, "kubernetes")


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"client-certificate-data": "UEVN"}, "user u: client-certificate and client-key"),
        ({"client-certificate-data": "!", "client-key-data": "UEVN"}, "user u.client-certificate-data"),
        ({"client-certificate": "absent", "client-key": "absent"}, "user u.client-certificate: .*absent"),
        ({"auth-provider": {"name": "oidc"}}, "user u.auth-provider: isn't supported"),
        ({"token": "t", "as": "admin"}, "user u.as: isn't supported"),
        ({"exec": {"command": "x"}}, "user u.exec.apiVersion: missing"),
        ({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "give client"),
        ({"exec": {"apiVersion": VERSION}}, "user u.exec.command: missing"),
    ],
)
def test_users_that_are_no_use_are_told_the_field(user, words, tmp_path):
    with pytest.raises(ConfigError, match=rf"kubeconfig: .*{words}"):
        config.from_files([written(tmp_path / "config", user)])


def test_a_context_without_user_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"contexts\[x\].context has no user; set one with kubectl"):
        config.from_files([written(tmp_path / "config", context={"user": ""})])


# Logins


@pytest.mark.parametrize(
    ("user", "login"),
    [
        ({}, Login()),
        ({"token": "t"}, Login("Bearer t")),
        ({"token": "t", "tokenFile": "absent"}, Login("Bearer t")),
        ({"tokenFile": "token"}, Login("Bearer from-file")),
        ({"username": "me", "password": "pw"}, Login("Basic bWU6cHc=")),
        ({"client-certificate": "cert", "client-key-data": "S0VZ"}, Login("", b"CERT", b"KEY")),
        (
            {"tokenFile": "token", "client-certificate": "cert", "client-key-data": "S0VZ"},
            Login("Bearer from-file", b"CERT", b"KEY"),
        ),
    ],
)
def test_a_users_fields_are_its_login(user, login, tmp_path):
    (tmp_path / "token").write_text("from-file\n")
    (tmp_path / "cert").write_text("CERT")
    assert config.from_files([written(tmp_path / "config", user)]).credentials.login() == login


def test_a_token_file_is_read_again(tmp_path):
    path, now = tmp_path / "token", [0.0]
    source = TokenFile("pod", path, clock=lambda: now[0])
    with pytest.raises(ConfigError, match=r"pod: .*token: No such file"):
        source.login()
    path.write_text("")
    with pytest.raises(ConfigError, match="it is empty"):
        source.login()

    path.write_text("one\n")
    assert source.login().authorization == "Bearer one"
    path.write_text("two\n")
    now[0] = 59.0
    assert source.login().authorization == "Bearer one"
    now[0] = 60.0
    assert source.login().authorization == "Bearer two"
    path.write_text("three")
    source.refused()
    assert source.login().authorization == "Bearer three"
    path.unlink()
    source.refused()
    assert source.login().authorization == "Bearer three"


def plugin(tmp_path, script, **more):
    program = tmp_path / "plugin"
    program.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    settings = {"apiVersion": VERSION, "command": "./plugin", **more.pop("settings", {})}
    return Plugin("user u.exec", settings, tmp_path, more.pop("cluster", {}), **more)


def answer(**status):
    return f"print(json.dumps({ {'apiVersion': VERSION, 'kind': 'ExecCredential', 'status': status} }))"


def test_a_plugin_runs_when_its_answer_has_ended(tmp_path):
    now, counter = [0.0], tmp_path / "runs"
    script = (
        f"runs = open({str(counter)!r}, 'a+'); runs.write('x'); runs.seek(0); count = len(runs.read())\n"
        "status = {'token': f't{count}', 'expirationTimestamp': '1970-01-01T00:01:40Z'}\n"
        f"print(json.dumps({{'apiVersion': {VERSION!r}, 'kind': 'ExecCredential', 'status': status}}))"
    )
    source = plugin(tmp_path, script, clock=lambda: now[0])
    assert [source.login().authorization for _ in range(3)] == ["Bearer t1"] * 3
    now[0] = 100.0
    assert source.login().authorization == "Bearer t2"
    now[0] = 0.0
    source.refused()
    assert source.login().authorization == "Bearer t3"


def test_a_plugin_is_told_arguments_environment_and_cluster(tmp_path):
    script = (
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "token = json.dumps([sys.argv[1:], os.environ['REGION'], info['spec']])\n"
        "print(json.dumps({'apiVersion': info['apiVersion'], 'status': {'token': token}}))"
    )
    settings = {
        "args": ["get", "token"],
        "env": [{"name": "REGION", "value": "r"}],
        "provideClusterInfo": True,
    }
    source = plugin(tmp_path, script, settings=settings, cluster={"server": "https://a"})
    said = json.loads(source.login().authorization.removeprefix("Bearer "))
    assert said == [["get", "token"], "r", {"interactive": False, "cluster": {"server": "https://a"}}]


def test_a_plugin_may_give_a_certificate(tmp_path):
    source = plugin(tmp_path, answer(clientCertificateData="CERT", clientKeyData="KEY"))
    assert source.login() == Login("", b"CERT", b"KEY")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("sys.exit('no\\nsession')", "ended with 1: no session"),
        ("print('hello')", "printed no ExecCredential"),
        ("print('[]')", "printed no ExecCredential"),
        (answer(), "gave neither a token nor a certificate"),
        (answer(clientCertificateData="CERT"), "gave neither a token nor a certificate"),
        (answer(token="t", expirationTimestamp="soon"), "printed no ExecCredential"),
        (answer(token="t").replace("k8s.io/v1", "k8s.io/v1beta1"), "answered in .*v1beta1, asked for"),
    ],
)
def test_a_plugin_that_fails_is_an_error_with_its_words(script, words, tmp_path):
    with pytest.raises(ConfigError, match=f"user u.exec: .*plugin {words}"):
        plugin(tmp_path, script).login()


def test_a_plugin_that_hangs_or_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("hawk_kube.credentials._PLUGIN_SECONDS", 0.1)
    with pytest.raises(ConfigError, match="gave nothing in 0"):
        plugin(tmp_path, "time.sleep(5)").login()
    settings = {"apiVersion": VERSION, "command": "hawk-no-such-plugin", "installHint": "get it there"}
    with pytest.raises(ConfigError, match=r"no-such-plugin: No such file or directory; get it there"):
        Plugin("user u.exec", settings, tmp_path, {}).login()
