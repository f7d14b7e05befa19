"""The operator as a process against a real API server."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.scale.soak import install_crds
from tests.support.errors import MissingToolError
from tests.support.ports import Ports
from tests.support.supervisor import Supervisor
from tests.support.waiting import until

from .proxy import Proxy
from .running import Running, command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.fixtures import AddNode


class StartOperator(Protocol):
    """Starts an operator and waits until it leads."""

    def __call__(self, *arguments: str, kubeconfig: Path | None = None, wait: bool = True) -> Running:
        """Return the running operator; it serves the test's namespace alone."""


@pytest.fixture
def operator(
    cluster: Cluster, crds: list[str], namespace: str, processes: Supervisor
) -> Iterator[StartOperator]:
    """Starts operators for this test's namespace, which end with the test."""
    del crds
    with Ports() as ports:
        count = 0

        def start(*arguments: str, kubeconfig: Path | None = None, wait: bool = True) -> Running:
            nonlocal count
            count += 1
            port = ports.reserve()
            log = processes.folder / f"operator-{count}.log"
            process = processes.spawn(
                command(namespace, port, f"--namespace={namespace}", *arguments),
                name=f"operator-{count}",
                log=log,
                env={"KUBECONFIG": str(kubeconfig or cluster.kubeconfig)},
            )
            running = Running(process, port, log)
            if wait:
                until(running.leads, what="the operator to lead")
            return running

        yield start
        for number in range(1, count + 1):  # shown with a failure
            log = processes.folder / f"operator-{number}.log"
            print(f"---- {log.name}\n{log.read_text(errors='replace')[-8000:]}")


@pytest.fixture(scope="module")
def shared_operator(cluster: Cluster, crds: list[str]) -> Iterator[Running]:
    """One operator that serves every namespace while a module's tests run."""
    del crds
    system = f"shared-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", system)
    with Supervisor() as processes, Ports() as ports:
        port = ports.reserve()
        log = processes.folder / "operator.log"
        process = processes.spawn(
            command(system, port),
            name="operator",
            log=log,
            env={"KUBECONFIG": str(cluster.kubeconfig)},
        )
        running = Running(process, port, log)
        until(running.leads, what="the operator to lead")
        yield running
        print(f"---- operator\n{running.text()[-8000:]}")
    cluster.kubectl("delete", "namespace", system, "--wait=false")


@pytest.fixture
def bare_plane() -> Iterator[Cluster]:
    """A control plane of this test's own, without our CRDs."""
    try:
        with Cluster.running() as plane:
            yield plane
    except MissingToolError as error:
        pytest.skip(f"missing tool: {error}")


@pytest.fixture
def fresh_plane(bare_plane: Cluster) -> Cluster:
    """A control plane of this test's own, with our CRDs and nothing else."""
    install_crds(bare_plane)
    return bare_plane


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """A proxy that misbehaves on demand, with the administrator's rights."""
    with Proxy(cluster.kubeconfig) as running:
        yield running


@pytest.fixture
def node(fake_node: AddNode) -> str:
    """A node with room for everything and sixteen GPUs."""
    return fake_node(capacity={"nvidia.com/gpu": "16"})
