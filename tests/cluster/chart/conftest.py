"""A control plane for the chart alone: what it installs belongs to the whole cluster."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import binaries
from tests.cluster.cluster import Cluster
from tests.support.errors import MissingToolError
from tests.support.progress import Silent

from .release import CHART, NAMESPACE, Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def clients() -> binaries.Clients:
    """kubectl and helm."""
    try:
        return binaries.clients(Silent())
    except MissingToolError as error:
        pytest.skip(f"missing tool: {error}")


@pytest.fixture(scope="package")
def own() -> Iterator[Cluster]:
    """A control plane of our own. The chart's tests install, break and remove CRDs and cluster roles."""
    chosen = os.environ.get("HAWK_TEST_KUBECONFIG")
    try:
        with Cluster.chosen(Path(chosen)) if chosen else Cluster.running() as cluster:
            cluster.own_files  # noqa: B018 - never the user's cluster: skipped there
            yield cluster
    except MissingToolError as error:
        pytest.skip(f"missing tool: {error}")


@pytest.fixture(scope="module")
def release(own: Cluster) -> Iterator[Release]:
    """The chart for the whole cluster, its processes left to run outside."""
    installed = Release(own, "hawk", NAMESPACE)
    installed.install("--set=operator.enabled=false,agent.enabled=false")
    yield installed
    installed.uninstall()


@pytest.fixture(scope="module")
def nodes(own: Cluster) -> Iterator[tuple[str, str]]:
    """Two nodes without a kubelet."""
    names = (own.node(f"node-a-{uuid.uuid4().hex[:6]}"), own.node(f"node-b-{uuid.uuid4().hex[:6]}"))
    yield names
    for name in names:
        own.delete_node(name)


@pytest.fixture(scope="module")
def agent_pod(own: Cluster, release: Release) -> Callable[[str], str]:
    """Makes a pod of the agents' account on a node, as the DaemonSet would, and gives its name."""

    def make(node: str, account: str = "hawk-agent") -> str:
        name = f"agent-{uuid.uuid4().hex[:8]}"
        own.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": release.namespace},
                "spec": {
                    "nodeName": node,
                    "serviceAccountName": account,
                    "containers": [{"name": "agent", "image": "none"}],
                    "tolerations": [{"operator": "Exists"}],
                },
            }
        )
        return name

    return make


@pytest.fixture(scope="module")
def agent_kubeconfig(
    own: Cluster, release: Release, agent_pod: Callable[[str], str]
) -> Callable[[str], Path]:
    """A kubeconfig with a real token that is bound to an agent's pod on a node."""

    def make(node: str) -> Path:
        pod = agent_pod(node)
        return own.service_account_kubeconfig(release.namespace, "hawk-agent", bound_pod=pod)

    return make


@pytest.fixture(scope="session")
def render(clients: binaries.Clients, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Any]]:
    """Render the chart without a cluster; the objects."""
    from .release import render_chart

    home = tmp_path_factory.mktemp("helm")
    return lambda *arguments: render_chart(clients.helm, home, CHART, *arguments)
