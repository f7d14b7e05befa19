"""The main job in pods: installed as documented, memory registered, KV moved from pod to pod."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import CommandError

from .pools import Pool, group
from .release import NAMESPACE, Release


def test_kv_goes_from_pod_to_pod(pool: Pool) -> None:
    pool.apply(
        group("prefill", "Prefill", nodes={"side": "prefill"}),
        group("decode", "Decode", workers=2, nodes={"side": "decode"}),
    )
    pool.wait()
    [prefill] = pool.workers("prefill")
    decodes = pool.workers("decode")
    answers = [pool.transfer(prefill, decode, seed=seed) for seed, decode in enumerate(decodes)]

    assert len(answers) == 2
    assert all(answer.right for answer in answers), answers


def test_the_operators_watches_run_though_its_user_has_no_name(hawk: Release, pool: Pool) -> None:
    leader = hawk.leader()
    asked = "import os, pwd; pwd.getpwuid(os.getuid())"
    with pytest.raises(CommandError, match="uid not found: 65532"):
        hawk.cluster.kubectl(
            "exec", "-n", NAMESPACE, leader["metadata"]["name"], "--", "python3", "-c", asked
        )

    before = hawk.metric(leader, 'hawk_operator_watch_events_total{resource="hawkpools"}')
    pool.apply(group("prefill", "Prefill"), group("decode", "Decode"))
    pool.wait("LayoutsCompatible")

    assert hawk.metric(leader, 'hawk_operator_watch_events_total{resource="hawkpools"}') > before
    assert hawk.metric(leader, "hawk_operator_watch_restarts_total") == 0
