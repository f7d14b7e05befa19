"""Other values of the chart in pods: tokens, engines without rights, an operator whose user has no name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cluster import CommandError

from .pools import Pool, group
from .release import NAMESPACE, Release

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES = {
    "agent.engineAuth": ("token", "none"),
    "agent.socketAccess": ("DevicePlugin", "HostPath"),
    "agent.socketMode": ("0666", "0660"),
    "operator.runAsUser": ("4711", "65532"),
}
RESTRICTED = {
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
}
POWERLESS = {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}


@pytest.fixture(scope="module")
def changed(hawk: Release) -> Iterator[Release]:
    """The release with these values, all agents at once."""

    def upgrade(which: int) -> None:
        given = [f"--set-string={path}={values[which]}" for path, values in VALUES.items() if "Mode" in path]
        given += [f"--set={path}={values[which]}" for path, values in VALUES.items() if "Mode" not in path]
        hawk.upgrade(*given, "--set=agent.maxUnavailable=100%")

    upgrade(0)
    hawk.wait()
    yield hawk
    upgrade(1)


def test_engines_are_known_by_the_tokens_of_their_pods(changed: Release, pool: Pool) -> None:
    """Agents ask the API server who an engine is, with their own account."""
    pool.apply(
        group("prefill", "Prefill", nodes={"side": "prefill"}),
        group("decode", "Decode", nodes={"side": "decode"}),
    )
    pool.wait()
    [prefill], [decode] = pool.workers("prefill"), pool.workers("decode")
    answer = pool.transfer(prefill, decode)

    assert answer.right, answer
    arguments = [pod["spec"]["containers"][0]["args"] for pod in changed.agents().values()]
    assert all("--engine-auth=token" in words for words in arguments)


@pytest.mark.level("restricted")
def test_where_restricted_is_enforced_an_engine_without_rights_hands_over(
    changed: Release, pool: Pool
) -> None:
    pool.apply(
        group("prefill", "Prefill", nodes={"side": "prefill"}, spec=RESTRICTED, container=POWERLESS),
        group("decode", "Decode", nodes={"side": "decode"}, spec=RESTRICTED, container=POWERLESS),
    )
    pool.wait()
    [prefill], [decode] = pool.workers("prefill"), pool.workers("decode")
    answer = pool.transfer(prefill, decode)

    assert answer.right, answer
    assert not [volume for volume in decode["spec"]["volumes"] if "hostPath" in volume]


def test_the_operators_watches_run_though_its_user_has_no_name(changed: Release, pool: Pool) -> None:
    leader = changed.leader()
    asked = "import os, pwd; pwd.getpwuid(os.getuid())"
    with pytest.raises(CommandError, match="uid not found: 4711"):
        changed.cluster.kubectl(
            "exec", "-n", NAMESPACE, leader["metadata"]["name"], "--", "python3", "-c", asked
        )

    series = 'hawk_operator_watch_events_total{resource="hawkpools"}'
    before = changed.metric(leader, series)
    pool.apply(group("prefill", "Prefill"), group("decode", "Decode"))
    pool.wait("LayoutsCompatible")

    assert changed.metric(leader, series) > before
    assert changed.metric(leader, "hawk_operator_watch_restarts_total") == 0
