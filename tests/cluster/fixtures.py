"""pytest fixtures for tests against a real API server; see the docstring of each.

`HAWK_TEST_KUBECONFIG` names a cluster to use instead of our own control plane. Tests that need what only
our own has (fake nodes, audit log) are skipped there. The whole suite loads this (tests/conftest.py), so it
imports nothing heavy before a fixture is used.
"""

from __future__ import annotations

import os
import re
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from tests.support.progress import Progress
    from tests.support.supervisor import Supervisor

    from .cluster import Cluster
    from .prometheus import Prometheus

ROOT = Path(__file__).parents[2]
TOGETHER = {
    "a control plane and releases": (
        "chart/test_admission.py",
        "chart/test_pod_security.py",
        "chart/test_trust.py",
    ),
    "a release": ("chart/test_rights.py",),
    "an operator for life": ("operator/test_life.py",),
    "an operator for refusals": ("operator/test_refusals.py",),
}
"""Files whose tests share what is slow to start, by what that is."""


class StartPrometheus(Protocol):
    """Starts a Prometheus; the arguments are those of `Prometheus.start`."""

    def __call__(
        self,
        *,
        jobs: Sequence[str] = ("engines",),
        scrape_interval: str = "1s",
        configuration: Mapping[str, Any] | None = None,
    ) -> Prometheus:
        """Return it when it is ready."""


class AddNode(Protocol):
    """Adds a fake node; the arguments are those of `Cluster.node`."""

    def __call__(
        self,
        name: str | None = None,
        *,
        capacity: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
    ) -> str:
        """Return its name when it is Ready."""


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster of this test session: our own control plane, or the one HAWK_TEST_KUBECONFIG names."""
    from .cluster import Cluster

    with ExitStack() as stack:
        with _screen(request.config) as progress, _missing_tools_skip():
            entered = Cluster.chosen(chosen, progress) if (chosen := _chosen()) else Cluster.running(progress)
            found = stack.enter_context(entered)
        yield found


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of this test's own, deleted afterwards with all that is in it."""
    words = re.sub("[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].rstrip("-")
    name = f"{words}-{uuid.uuid4().hex[:6]}"
    cluster.kubectl("create", "namespace", name)
    yield name
    # Our own control plane is thrown away; a cluster that stays is left as it was found.
    cluster.kubectl("delete", "namespace", name, f"--wait={'true' if _chosen() else 'false'}")


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> list[str]:
    """The generated CRDs, applied and established; the fixture's value is their names."""
    files = [
        file
        for file in sorted((ROOT / "crds").rglob("*.yaml"))
        if "CustomResourceDefinition" in file.read_text()
    ]
    assert files, "crds/ holds no CustomResourceDefinition; run: make crds"
    arguments = [word for file in files for word in ("-f", str(file))]
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=test", *arguments)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", *arguments)
    return cluster.kubectl("get", "-o", "name", *arguments).split()


@pytest.fixture
def fake_node(cluster: Cluster) -> Iterator[AddNode]:
    """Adds nodes without a kubelet, on which pods run in name only; removed after the test."""
    names: list[str] = []

    def add(name: str | None = None, **details: Any) -> str:
        names.append(cluster.node(name, **details))
        return names[-1]

    yield add
    for name in names:
        cluster.delete_node(name)


@pytest.fixture
def processes() -> Iterator[Supervisor]:
    """Starts processes (operator, agents) that end with the test, whatever becomes of it."""
    from tests.support.supervisor import Supervisor

    with Supervisor() as supervisor:
        yield supervisor


@pytest.fixture
def prometheus(processes: Supervisor, request: pytest.FixtureRequest) -> Iterator[StartPrometheus]:
    """Starts a real Prometheus; stopped after the test."""
    from .prometheus import Prometheus, find_prometheus

    with _screen(request.config) as progress, _missing_tools_skip():
        program = find_prometheus(progress)
    with ExitStack() as stack:

        def start(**details: Any) -> Prometheus:
            server = Prometheus.start(program, processes, **details)
            stack.callback(server.stop)
            return server

        yield start


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker a test at a time, but the whole of a file whose tests share what is slow to start."""
    if config.getvalue("dist") != "loadgroup":
        return None
    # xdist's own groups are marks that it writes into node ids, which pytest 9 doesn't let it do.
    from xdist.scheduler import LoadScopeScheduling

    class FilesTogether(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return next((name for name, files in TOGETHER.items() if file.endswith(files)), nodeid)

    return FilesTogether(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Side by side, begin with the slow tests: one that begins last would be waited for alone."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the collected tests need before the first of them, where no test's time limit runs yet."""
    wanted = {
        name for item in session.items if isinstance(item, pytest.Function) for name in item.fixturenames
    }
    if session.config.option.collectonly or "cluster" not in wanted or _chosen():
        return
    from tests.support.errors import MissingToolError

    from . import binaries

    with _screen(session.config) as progress:
        try:
            binaries.programs(progress)
            binaries.clients(progress)
        except MissingToolError as error:
            progress.say(
                f"missing tool: {error}"
            )  # the tests that need it say so again, each as it is skipped


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Skip a test that asks for what the chosen cluster lacks."""
    from tests.support.errors import NotHereError

    try:
        return (yield)
    except NotHereError as error:
        pytest.skip(str(error))


pytest_runtest_setup = pytest_runtest_call


def _chosen() -> Path | None:
    text = os.environ.get("HAWK_TEST_KUBECONFIG")
    return Path(text).expanduser() if text else None


@contextmanager
def _screen(config: pytest.Config) -> Iterator[Progress]:
    """Show progress in spite of pytest's capture of output."""
    from tests.support.progress import Progress

    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else ExitStack():
        yield Progress()


@contextmanager
def _missing_tools_skip() -> Iterator[None]:
    from tests.support.errors import MissingToolError

    try:
        yield
    except MissingToolError as error:
        pytest.skip(f"missing tool: {error}")
