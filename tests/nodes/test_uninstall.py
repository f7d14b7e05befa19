"""Removal and return: nothing tells of agents that are gone, and workers go on all the while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .pools import Pool, group
from .release import NAMESPACE

if TYPE_CHECKING:
    from .release import Release

HAWK = "app.kubernetes.io/name=hawk"
CLUSTER_WIDE = "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding"


def lives(pods: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """Who the pods are, and how often their containers were started again."""
    return {
        (pod["metadata"]["uid"], sum(status["restartCount"] for status in pod["status"]["containerStatuses"]))
        for pod in pods
    }


def test_what_the_release_made_goes_with_it_and_workers_stay(hawk: Release, pool: Pool) -> None:
    hawk.wait()  # an operator with other values, of a test before, would make workers of another template
    pool.apply(
        group("prefill", "Prefill", nodes={"side": "prefill"}),
        group("decode", "Decode", nodes={"side": "decode"}),
    )
    pool.wait()
    before = lives(pool.workers("prefill") + pool.workers("decode"))
    hawk.uninstall()
    cluster = hawk.cluster
    left = {
        "hawknodes": cluster.get("hawknodes")["items"],
        "leases": cluster.get("leases", "-n", NAMESPACE)["items"],
        "classes": cluster.get("acceleratorclasses")["items"],
        "objects": cluster.get("all,sa,role,rolebinding,secret,cm", "-n", NAMESPACE, "-l", HAWK)["items"],
        "cluster": cluster.get(CLUSTER_WIDE, "-l", HAWK)["items"],
    }
    during = lives(pool.workers("prefill") + pool.workers("decode"))
    hawk.install()
    hawk.wait()
    pool.wait(timeout=60)
    [prefill], [decode] = pool.workers("prefill"), pool.workers("decode")
    answer = pool.transfer(prefill, decode)

    assert {kind: names(items) for kind, items in left.items()} == {kind: [] for kind in left}
    assert during == before
    assert lives([prefill, decode]) == before
    assert answer.right, answer


def names(items: list[dict[str, Any]]) -> list[str]:
    return [f"{item['kind']}/{item['metadata']['name']}" for item in items]
