"""Whole test sessions and the command line: what they leave, whom they use, what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import until

from .test_supervisor import ROOT, gone, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster
    from tests.cluster.fixtures import StartPrometheus

pytestmark = pytest.mark.cluster

HANGS = """
import json, os, time
def test_hangs(cluster, processes):
    plane = cluster.plane
    child = processes.spawn(["sleep", "600"])
    pids = [os.getpid(), child.pid, processes.pid, *(p.pid for p in plane.processes.values())]
    with open(os.environ["FACTS"] + ".draft", "w") as file:
        json.dump(dict(pids=pids, ports=plane.addresses.ports, folder=str(plane.folder.parent)), file)
    os.rename(os.environ["FACTS"] + ".draft", os.environ["FACTS"])
    time.sleep(600)
"""
USES = """
def test_works(cluster, namespace):
    assert cluster.get("namespace", namespace)["status"]["phase"] == "Active"
    cluster.kubectl("create", "configmap", "left", "-n", namespace)

def test_needs_a_fake_node(fake_node):
    assert fake_node()

def test_needs_the_audit_log(cluster):
    assert cluster.audit_mark() > 0
"""


def pytest_command(file: Path, *words: str) -> list[str]:
    """Return the command that runs one file as the suite would run it."""
    options = [
        "-q",
        "-ra",
        "-p",
        "tests.conftest",
        "--rootdir",
        str(ROOT),
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    return [sys.executable, "-m", "pytest", *options, str(file), *words]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_session_leaves_no_process_port_or_folder(
    cluster: Cluster, tmp_path: Path, number: int
) -> None:
    cluster.own_files  # noqa: B018  # the programs are there
    file = tmp_path / "test_hangs.py"
    file.write_text(HANGS)
    told = tmp_path / "facts.json"
    environment = {**os.environ, "FACTS": str(told), "HAWK_TEST_KUBECONFIG": ""}
    with (
        (tmp_path / "output.txt").open("w") as output,
        subprocess.Popen(
            pytest_command(file), cwd=ROOT, env=environment, stdout=output, stderr=output
        ) as session,
    ):
        try:
            until(lambda: told.exists() or session.poll() is not None, what="the session's cluster")
            assert told.exists(), (tmp_path / "output.txt").read_text()
            facts = json.loads(told.read_text())
            assert all(map(running, facts["pids"]))
            session.send_signal(number)
            session.wait(60)
        finally:
            session.kill()

    until(lambda: gone(facts), what=f"everything of {facts} gone")


def test_suite_runs_on_a_cluster_of_the_users_choice(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "test_uses.py"
    file.write_text(USES)
    # Elsewhere than among our own files, as a user's would be.
    chosen = tmp_path / "kubeconfig"
    shutil.copy(cluster.kubeconfig, chosen)
    environment = {**os.environ, "HAWK_TEST_KUBECONFIG": str(chosen), "CI": "true"}
    done = subprocess.run(
        pytest_command(file),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "1 passed, 2 skipped" in done.stdout
    assert len(re.findall(r"SKIPPED .*needs our own control plane", done.stdout)) >= 1
    assert "starting etcd" not in done.stdout
    left = [entry["metadata"]["name"] for entry in cluster.get("namespaces")["items"]]
    assert not [name for name in left if name.startswith("test-works-")]


def test_a_kubeconfig_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "test_uses.py"
    file.write_text(USES)
    environment = {**os.environ, "HAWK_TEST_KUBECONFIG": str(tmp_path / "none")}
    done = subprocess.run(
        pytest_command(file),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert done.returncode == 1
    assert re.search(r"HAWK_TEST_KUBECONFIG: .*none is no file; name a cluster's kubeconfig", done.stdout)


@pytest.fixture
def name() -> Iterator[str]:
    """A cluster's name for the command line; the cluster is stopped afterwards."""
    name = f"rig-{uuid.uuid4().hex[:8]}"
    yield name
    hawk_cluster("down", "--name", name)


def hawk_cluster(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.cluster", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)


def test_detached_cluster_serves_a_session_with_everything_until_it_is_stopped(
    cluster: Cluster, name: str, tmp_path: Path
) -> None:
    cluster.own_files  # noqa: B018
    started = hawk_cluster("up", "--detach", "--name", name)
    assert started.returncode == 0, started.stderr
    kubeconfig = Path(hawk_cluster("kubeconfig", "--name", name).stdout.strip())
    assert started.stdout.strip() == f"export KUBECONFIG={kubeconfig}"
    again = hawk_cluster("up", "--detach", "--name", name)
    assert again.returncode == 1
    assert f"cluster '{name}' runs already" in again.stderr
    assert name in hawk_cluster("status").stdout
    file = tmp_path / "test_uses.py"
    file.write_text(USES)
    environment = {**os.environ, "HAWK_TEST_KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(
        pytest_command(file),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert "3 passed" in done.stdout

    assert hawk_cluster("down", "--name", name).returncode == 0

    assert not kubeconfig.parent.parent.exists()
    assert name not in hawk_cluster("status").stdout
    missing = hawk_cluster("kubeconfig", "--name", name)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert f"no cluster '{name}' runs; start one" in missing.stderr


def test_ctrl_c_stops_a_cluster_in_the_foreground(cluster: Cluster, name: str) -> None:
    cluster.own_files  # noqa: B018
    command = [sys.executable, "-m", "tests.cluster", "up", "--name", name]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            folder = Path("/")
            for line in process.stderr:
                if match := re.search(r"export KUBECONFIG=(.*)/cluster-", line):
                    folder = Path(match[1])
                if "Ctrl-C stops it" in line:
                    break
            assert folder.exists()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert not folder.exists()


def test_prometheus_scrapes_targets_that_come_and_go(prometheus: StartPrometheus) -> None:
    from prometheus_client import CollectorRegistry, Gauge, start_http_server

    registry = CollectorRegistry()
    Gauge("hawk_rig_value", "For this test.", registry=registry).set(2.5)
    exporter, thread = start_http_server(0, "127.0.0.1", registry=registry)
    try:
        server = prometheus(jobs=["engines", "others"])
        assert server.query("hawk_rig_value") == []
        server.targets("engines", [f"127.0.0.1:{exporter.server_port}"], {"pool": "llama"})
        [sample] = until(lambda: server.query("hawk_rig_value"), what="a sample")
        assert sample["value"][1] == "2.5"
        assert {"job": "engines", "pool": "llama"}.items() <= sample["metric"].items()

        server.targets("engines", [])

        until(lambda: not server.query("up{job='engines'}"), what="the target gone")
    finally:
        exporter.shutdown()
        exporter.server_close()
        thread.join(10)
    pid, folder = server.process.pid, server.folder
    server.stop()
    assert not running(pid)
    assert folder.exists(), "its log stays until the test ends"
