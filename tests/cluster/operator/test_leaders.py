"""Two processes, one writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import until

from .running import pool, replicas

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

    from .conftest import StartOperator

pytestmark = pytest.mark.cluster


def test_a_standby_watches_nothing_and_takes_over(
    cluster: Cluster, operator: StartOperator, namespace: str, node: str
) -> None:
    first = operator("--identity=first", "--lease-duration=4", "--renew-deadline=2")
    second = operator("--identity=second", "--lease-duration=4", "--renew-deadline=2", wait=False)
    until(second.healthy, what="the standby to be healthy")
    cluster.apply(pool("llama", namespace))
    until(lambda: len(replicas(cluster, namespace)) == 2, what="two children")

    assert second.metric("hawk_operator_leading") == 0
    assert second.metric("hawk_operator_watch_events_total") == 0
    assert second.metric("hawk_operator_writes_total") == 0
    assert "standby" in second.ask("/healthz")[1]

    first.process.kill()
    until(second.leads, what="the standby to lead")
    lease = cluster.get("lease", "leader.hawkpool.dev", "-n", namespace)
    assert lease["spec"]["holderIdentity"] == "second"


def test_who_loses_the_lease_ends_at_once_and_not_with_success(
    cluster: Cluster, operator: StartOperator, namespace: str
) -> None:
    running = operator("--identity=first")
    cluster.kubectl(
        "patch", "lease", "leader.hawkpool.dev", "-n", namespace, "--type=merge",
        "-p", '{"spec": {"holderIdentity": "usurper", "renewTime": "2100-01-01T00:00:00.000000Z"}}',
    )  # fmt: skip

    assert running.process.wait(30) == 3
    assert "usurper holds it now" in running.text()
    assert cluster.get("lease", "leader.hawkpool.dev", "-n", namespace)["spec"]["holderIdentity"] == "usurper"
