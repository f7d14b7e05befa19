"""`agent.engineAuth=token` in pods: agents ask the API server who an engine is, with their own account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .pools import Pool, group

if TYPE_CHECKING:
    from .release import Release


def test_engines_are_known_by_the_tokens_of_their_pods(hawk: Release, pool: Pool) -> None:
    hawk.upgrade("--set", "agent.engineAuth=token")
    try:
        pool.apply(
            group("prefill", "Prefill", nodes={"side": "prefill"}),
            group("decode", "Decode", nodes={"side": "decode"}),
        )
        pool.wait()
        [prefill], [decode] = pool.workers("prefill"), pool.workers("decode")
        answer = pool.transfer(prefill, decode)
    finally:
        hawk.upgrade("--set", "agent.engineAuth=none")

    assert answer.right, answer
