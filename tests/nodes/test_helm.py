"""`helm test`, which users run after an installation: it passes, and it fails for what isn't ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cluster import CommandError

from .release import NAMESPACE

if TYPE_CHECKING:
    from .release import Release
    from .rig import Rig


def test_it_passes_where_operator_and_agents_are_ready(hawk: Release) -> None:
    said = hawk.cluster.helm("test", "hawk", "-n", NAMESPACE, "--timeout=60s", timeout=90)

    assert "Succeeded" in said


def test_it_fails_where_an_agent_is_not(rig: Rig, hawk: Release) -> None:
    """A process that is stopped answers no probe, and its address stays in the service."""
    agent = hawk.agents()["n1"]
    node = rig.nodes["n1"]
    [pid] = node.run("pgrep", "-f", "-o", "hawk-agent --node=n1").split()
    node.run("kill", "-STOP", pid)
    try:
        with pytest.raises(CommandError, match="hawk-test"):
            hawk.cluster.helm("test", "hawk", "-n", NAMESPACE, "--timeout=60s", timeout=90)
        said = hawk.cluster.kubectl("logs", "hawk-test", "-n", NAMESPACE)
    finally:
        node.run("kill", "-CONT", pid)
        hawk.cluster.kubectl("delete", "pod", "hawk-test", "-n", NAMESPACE, "--ignore-not-found")
        hawk.wait()

    assert f"{agent['status']['podIP']}: " in said
    assert said.count(": ready") == 4
