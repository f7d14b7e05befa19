"""Processes in a pod: environment and mounted service account are all that they have, in every mode."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from hawk_agent.client import AgentClient
from hawk_agent.errors import EngineRefusedError
from hawk_agent.kube.tokens import AUDIENCE
from tests.cluster.cluster import CommandError
from tests.cluster.kube.pod import Pod
from tests.support.waiting import until

from .release import NAMESPACE, Release
from .test_trust import signing

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.cluster

START = (
    "import pathlib, sys; from hawk_kube import config; config.SERVICE_ACCOUNT = pathlib.Path(sys.argv[1]); "
    "from {module} import main; main(sys.argv[2:])"
)


@pytest.fixture(scope="module")
def release(own):
    """The chart with the rights to review engines' tokens."""
    installed = Release(own, "hawk", NAMESPACE)
    installed.install("--set=operator.enabled=false,agent.enabled=false,agent.engineAuth=token")
    yield installed
    installed.uninstall()


@pytest.fixture
def start(processes, own, release, monkeypatch, tmp_path):
    """Starts a process as if in the pod whose kubeconfig is given."""
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def begin(module, kubeconfig, *arguments):
        pod = Pod.of(own, kubeconfig, tmp_path / "mount")
        command = [sys.executable, "-c", START.format(module=module), str(pod.folder), *arguments]
        return processes.spawn(command, name=module, env=pod.environ)

    return begin


def engine_token(own, node: str, folder: Path, audience: str = AUDIENCE) -> Path:
    """The file with a token of an engine's pod on a node."""
    spec = {"nodeName": node, "containers": [{"name": "engine", "image": "none"}]}
    metadata = {"name": "decode-0", "namespace": "default"}
    own.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    bound = ("--bound-object-kind=Pod", "--bound-object-name=decode-0")
    token = own.kubectl("create", "token", "default", "-n", "default", f"--audience={audience}", *bound)
    path = folder / audience.replace("/", "-")
    path.write_text(token)
    return path


@pytest.mark.parametrize(
    "mode",
    [
        ("--insecure",),
        ("--insecure", "--engine-auth=token"),
        ("--insecure", "--engine-auth=token", "--no-kube"),
        ("--identity=kubernetes",),
        ("--identity=kubernetes", "--engine-auth=token"),
    ],
    ids=" ".join,
)
def test_an_agent_in_a_pod_works_in_every_mode(mode, own, release, nodes, agent_kubeconfig, start, tmp_path):
    node, socket = nodes[0], tmp_path / "agent.sock"
    arguments = [
        "--node",
        node,
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--socket",
        str(socket),
    ]
    arguments += ["--system-namespace", release.namespace, *mode]
    if "--insecure" not in mode:
        for option in ("cert", "key", "ca"):
            arguments += [f"--tls-{option}", str(tmp_path / f"{option}.pem")]
    with signing(own, release):
        process = start("hawk_agent.main", agent_kubeconfig(node), *arguments)
        until(lambda: process.check() or socket.exists(), what="the agent's socket", timeout=60)
        if "--no-kube" not in mode:
            until(
                lambda: own.get("hawknode", node)["status"]["epoch"],
                what="its HawkNode",
                ignore=(CommandError, KeyError),
            )
    if "--engine-auth=token" not in mode:
        AgentClient(socket).close()
        return
    AgentClient(socket, token_file=engine_token(own, node, tmp_path)).close()
    with pytest.raises(EngineRefusedError, match="refused"):
        AgentClient(socket, token_file=engine_token(own, node, tmp_path, "https://kubernetes.default.svc"))


def test_an_operator_in_a_pod_takes_the_lease(own, release, start):
    kubeconfig = own.service_account_kubeconfig(release.namespace, "hawk-operator")
    process = start(
        "hawk_operator.main", kubeconfig, "--system-namespace", release.namespace, "--metrics-port=0"
    )

    def held():
        process.check()
        return own.get("lease", "leader.hawkpool.dev", "-n", release.namespace)["spec"]["holderIdentity"]

    assert until(held, what="the Lease", timeout=60, ignore=(CommandError, KeyError))
