"""An API server that says wait, falls silent, or refuses one of two writes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until

from .running import condition, group, pool, replicas, wait_condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.cluster import Cluster

    from .conftest import StartOperator
    from .proxy import Proxy, Seen

pytestmark = pytest.mark.cluster


def test_a_storm_of_429_is_waited_out(
    cluster: Cluster, operator: StartOperator, proxy: Proxy, namespace: str, node: str
) -> None:
    running = operator("--resync=2", kubeconfig=proxy.kubeconfig(cluster.folder))
    cluster.apply(pool("before", namespace, scaling={"interval": "1s"}))
    wait_condition(cluster, namespace, "before", "DevicesReady", status="True", reason="AsExpected")
    proxy.faults.retry_after = 3
    proxy.faults.throttled = True
    until(lambda: running.ask("/readyz")[0] == 503, what="readiness to say degraded")
    begun = len(proxy.requests)
    cluster.apply(pool("during", namespace))
    time.sleep(12)
    asked = len(proxy.requests) - begun
    assert running.process.poll() is None, "the process lives"
    assert running.ask("/healthz")[0] == 200, "a restart would help nobody"
    assert running.metric("hawk_operator_leading") == 0, "nothing is written without a renewed Lease"
    proxy.faults.throttled = False
    until(lambda: "during-prefill" in replicas(cluster, namespace), what="the new pool's child")

    # Five watches that kopf retries, and our own calls: a handful each time that the server lets us ask.
    assert asked < 80, f"{asked} requests in twelve seconds of 'wait three seconds'"
    assert running.metric("hawk_operator_api_throttled_total") >= 2
    until(lambda: running.ask("/readyz")[0] == 200, what="readiness")


def test_silent_watches_cost_latency_and_nothing_else(
    cluster: Cluster, operator: StartOperator, proxy: Proxy, namespace: str, node: str
) -> None:
    running = operator("--resync=2", kubeconfig=proxy.kubeconfig(cluster.folder))
    until(lambda: sum(seen.watch for seen in proxy.requests) >= 4, what="the watches")
    proxy.faults.mute_watches = True
    cluster.apply(pool("llama", namespace, scaling={"interval": "2s"}))
    wait_condition(cluster, namespace, "llama", "DevicesReady", status="True", reason="AsExpected")

    assert running.metric("hawk_operator_watch_events_total", resource="hawkpools") == 0, "no watch said so"
    cluster.kubectl("delete", "hawkpool", "llama", "-n", namespace, "--timeout=120s")
    until(
        lambda: running.metric("hawk_operator_pool_condition", pool="llama") == 0,
        what="the pool to be forgotten",
    )


def test_watches_that_are_torn_or_too_old_are_begun_anew(
    cluster: Cluster, operator: StartOperator, proxy: Proxy, namespace: str, node: str
) -> None:
    """No list helps here: the next one is ten minutes away."""
    running = operator("--resync=600", kubeconfig=proxy.kubeconfig(cluster.folder))

    def watches() -> int:
        return sum(seen.watch for seen in proxy.requests)

    def lives(name: str) -> None:
        body = pool(name, namespace, group("both", "Both"), scaling={"interval": "600s"})
        cluster.apply(body)
        wait_condition(cluster, namespace, name, "DevicesReady", status="True", reason="AsExpected")

    until(lambda: watches() >= 4, what="the watches")
    lives("before")
    before = watches()
    proxy.reset_watches()
    until(lambda: watches() >= before + 4, what="the watches after a reset")
    lives("after-reset")

    proxy.faults.expired = True
    before = watches()
    proxy.reset_watches()
    until(lambda: watches() >= before + 4, what="watches that hear 410")
    cluster.apply(pool("meanwhile", namespace, group("both", "Both"), scaling={"interval": "600s"}))
    proxy.faults.expired = False
    wait_condition(cluster, namespace, "meanwhile", "DevicesReady", status="True", reason="AsExpected")
    cluster.kubectl("delete", "hawkpool", "before", "-n", namespace, "--timeout=120s")
    until(
        lambda: running.metric("hawk_operator_pool_condition", pool="before") == 0,
        what="the deleted pool to be forgotten",
    )
    lives("after-expiry")


def total(cluster: Cluster, namespace: str) -> int:
    return sum(replicas(cluster, namespace).values())


def move_one(cluster: Cluster, namespace: str) -> None:
    """Turn four to four into five to three."""
    cluster.kubectl(
        "annotate", "hawkpool", "llama", "-n", namespace, "--overwrite", "hawkpool.dev/force-ratio=5:3"
    )


@pytest.mark.parametrize("kill", [False, True], ids=["conflict clears", "killed between the two writes"])
def test_a_move_within_the_budget_never_exceeds_it(
    cluster: Cluster, operator: StartOperator, proxy: Proxy, namespace: str, node: str, kill: bool
) -> None:
    """Prefill can only grow when decode has shrunk, and decode's write is refused at first."""
    running = operator("--identity=the-same", kubeconfig=proxy.kubeconfig(cluster.folder))
    groups = (
        group("prefill", "Prefill", 3, 5, acceleratorClass="h100-sxm5"),
        group("decode", "Decode", 3, 5, acceleratorClass="h100-sxm5"),
    )
    scaling = {"interval": "1s", "budget": {"devices": 8}, "startupRatio": "1:1"}
    annotations = {"hawkpool.dev/force-ratio": "1:1"}
    cluster.apply(pool("llama", namespace, *groups, scaling=scaling, annotations=annotations))
    cluster.kubectl(
        "patch", "hawkpool", "llama", "-n", namespace, "--type=merge",
        "-p", '{"spec": {"groups": [' + ",".join(_bounded(g, 4, 4) for g in groups) + "]}}",
    )  # fmt: skip
    until(
        lambda: replicas(cluster, namespace) == {"llama-prefill": 4, "llama-decode": 4},
        what="4 and 4",
    )
    wait_condition(cluster, namespace, "llama", "DevicesReady", status="True", reason="AsExpected")

    proxy.faults.refuse = conflict_on("deployments/llama-decode")
    cluster.kubectl(
        "patch", "hawkpool", "llama", "-n", namespace, "--type=merge",
        "-p", '{"spec": {"groups": [' + _bounded(groups[0], 5, 5) + "," + _bounded(groups[1], 3, 3) + "]}}",
    )  # fmt: skip
    move_one(cluster, namespace)
    said = until(
        lambda: _scaling_says(cluster, namespace, "decode is outstanding"),
        what="the half to be named",
    )
    assert said["status"] == "False"
    assert replicas(cluster, namespace) == {"llama-prefill": 4, "llama-decode": 4}
    if kill:
        running.process.kill()
        proxy.faults.refuse = lambda _: None
        # The Lease is still its own: it goes on at once.
        operator("--identity=the-same", kubeconfig=proxy.kubeconfig(cluster.folder), wait=False)
    else:
        proxy.faults.refuse = lambda _: None
    seen = set()

    def arrived() -> bool:
        seen.add(total(cluster, namespace))
        return replicas(cluster, namespace) == {"llama-prefill": 5, "llama-decode": 3}

    until(arrived, what="5 and 3")
    assert max(seen) <= 8


def _bounded(body: dict[str, Any], least: int, most: int) -> str:
    import json

    return json.dumps({**body, "replicas": {"min": least, "max": most}})


def _scaling_says(cluster: Cluster, namespace: str, words: str) -> dict[str, Any]:
    found = condition(cluster, namespace, "llama", "Scaling")
    assert words in found.get("message", ""), found
    return found


def conflict_on(path: str) -> Callable[[Seen], int | None]:
    """409 for writes to one object."""
    return lambda seen: 409 if seen.write and seen.path.endswith(path) else None
