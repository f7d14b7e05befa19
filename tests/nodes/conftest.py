"""Real nodes with the chart on them, for all tests of this folder; they are skipped where nodes can't run."""

from __future__ import annotations

import uuid
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.errors import MissingToolError
from tests.support.progress import Progress

from .pools import Pool
from .release import Release
from .rig import Rig, build

if TYPE_CHECKING:
    from collections.abc import Iterator

SECURITY = "pod-security.kubernetes.io/enforce"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test, where no test's time limit runs yet."""
    wanted = any("rig" in getattr(item, "fixturenames", ()) for item in session.items)
    if session.config.option.collectonly or not wanted:
        return
    with _screen(session.config) as progress:
        try:
            build(progress)
        except MissingToolError as error:
            progress.say(f"missing tool: {error}")  # the tests say so again, each as it is skipped


@pytest.fixture(scope="package")
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """A control plane and three nodes: n1 for prefill, n2 and n3 for decode."""
    with ExitStack() as stack:
        with _screen(request.config) as progress:
            try:
                found = stack.enter_context(Rig.running(progress))
            except MissingToolError as error:
                pytest.skip(f"missing tool: {error}")
        yield found


@pytest.fixture(scope="package")
def hawk(rig: Rig, request: pytest.FixtureRequest) -> Release:
    """The chart, installed as docs/install.md says, and ready."""
    with _screen(request.config) as progress, progress.step("installing the chart"):
        release = Release(rig)
        release.install()
        release.wait()
    return release


@pytest.fixture
def pool(rig: Rig, hawk: Release, request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool to apply, in a namespace of its own; both begin to go after the test.

    The namespace enforces PodSecurity's level `privileged`, or the one that the mark `level` names.
    """
    name = f"team-{uuid.uuid4().hex[:6]}"
    mark = request.node.get_closest_marker("level")
    labels = {SECURITY: mark.args[0] if mark else "privileged"}
    rig.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    yield Pool(rig.cluster, name, "demo")
    rig.cluster.kubectl("delete", "namespace", name, "--wait=false")


@contextmanager
def _screen(config: pytest.Config) -> Iterator[Progress]:
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else ExitStack():
        yield Progress()
