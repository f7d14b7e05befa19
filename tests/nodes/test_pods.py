"""The main job in pods: installed as documented, memory registered, KV moved from pod to pod."""

from __future__ import annotations

from .pools import Pool, group


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
