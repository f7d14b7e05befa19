"""`kubectl drain` of a node whose worker holds a lease: its request is served, and then the worker goes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.support.waiting import until

from .pools import Pool, group

if TYPE_CHECKING:
    from .rig import Rig

PATIENT = {"terminationGracePeriodSeconds": 90}


def test_a_drained_nodes_worker_serves_the_lease_that_it_holds(rig: Rig, pool: Pool) -> None:
    cluster = rig.cluster
    pool.apply(
        group("prefill", "Prefill", nodes={"side": "prefill"}),
        group("decode", "Decode", nodes={"side": "decode"}, spec=PATIENT),
    )
    pool.wait()
    [prefill], [decode] = pool.workers("prefill"), pool.workers("decode")
    name, node = decode["metadata"]["name"], decode["spec"]["nodeName"]
    request, ticket = pool.reserve(decode)
    budget = cluster.get("poddisruptionbudget", f"{pool.name}-decode", "-n", pool.namespace)
    chosen = f"--pod-selector=hawkpool.dev/pool={pool.name}"
    words = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", chosen, "--timeout=80s")
    try:
        with ThreadPoolExecutor(1) as other:
            draining = other.submit(cluster.kubectl, *words, timeout=90)
            until(
                lambda: cluster.get("pod", name, "-n", pool.namespace)["metadata"].get("deletionTimestamp"),
                what="the eviction",
                timeout=30,
            )
            answer = pool.finish(prefill, decode, request, ticket)
            drained = draining.result()
    finally:
        cluster.kubectl("uncordon", node)

    assert answer.right, answer
    assert f"pod/{name} evicted" in drained
    assert budget["status"]["disruptionsAllowed"] == 1, json.dumps(budget)
