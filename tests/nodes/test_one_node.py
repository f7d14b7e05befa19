"""Both sides of a pool on one node, alone and mixed with others: every pair hands over, and Wired says so."""

from __future__ import annotations

from .pools import Pool, group


def test_two_workers_on_one_node_hand_over_and_the_link_is_proved(pool: Pool) -> None:
    here = {"kubernetes.io/hostname": "n1"}
    pool.apply(group("prefill", "Prefill", nodes=here), group("decode", "Decode", nodes=here))
    ready = pool.wait()
    wired = pool.conditions()["Wired"]
    [prefill], [decode] = pool.workers("prefill"), pool.workers("decode")
    answer = pool.transfer(prefill, decode)

    assert ready["status"] == wired["status"] == "True"
    assert "1 of 1 links are verified" in wired["message"]
    assert answer.right, answer
    assert answer.transport == "shm"


def test_every_pair_hands_over_where_only_some_are_on_one_node(pool: Pool) -> None:
    spread = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    chosen = {"matchLabels": {"hawkpool.dev/group": "decode", "hawkpool.dev/pool": pool.name}}
    spec = {"topologySpreadConstraints": [{**spread, "labelSelector": chosen}]}
    pool.apply(
        group("prefill", "Prefill", nodes={"side": "prefill"}),
        group("decode", "Decode", workers=3, spec=spec),
    )
    pool.wait()
    [prefill] = pool.workers("prefill")
    decodes = pool.workers("decode")
    answers = {decode["spec"]["nodeName"]: pool.transfer(prefill, decode) for decode in decodes}

    assert set(answers) == {"n1", "n2", "n3"}
    assert all(answer.right for answer in answers.values()), answers
