"""Whose memory it is: engines pay for their caches, and no engine can make the agent of its node pay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.waiting import until

from .pools import Pool, call, group

if TYPE_CHECKING:
    from .release import Release

PREFILL = {"side": "prefill"}
HUGE_TOKENS = str((1 << 30) // (4 * 2 * 2 * 64 * 2))
"""Tokens of the reference engine's cache that make a gibibyte."""
ROOM = 64 << 20


def restarts(pod: dict[str, Any]) -> int:
    return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


def test_a_gibibyte_that_its_engine_never_touched_is_refused_and_the_agent_lives(
    hawk: Release, pool: Pool
) -> None:
    before = restarts(hawk.agents()["n1"])
    sparse = {"POPULATE": "no", "TOKENS": HUGE_TOKENS}
    pool.apply(group("prefill", "Prefill", nodes=PREFILL, env=sparse), group("decode", "Decode"))

    def refused() -> str:
        [pod] = [pod for pod in pool.workers("prefill") if pod["status"].get("podIP")]
        return str(call(pod, "/")["error"])

    said = until(refused, what="the agent's refusal", timeout=90, ignore=(OSError, ValueError))

    assert "no page was ever written" in said
    assert restarts(hawk.agents()["n1"]) == before


def test_a_gibibyte_that_its_engine_populated_is_charged_to_the_engine(hawk: Release, pool: Pool) -> None:
    agent = hawk.agents()["n1"]
    before, started = hawk.charge("n1", agent), restarts(agent)
    pool.apply(
        group("prefill", "Prefill", nodes=PREFILL, env={"TOKENS": HUGE_TOKENS}),
        group("decode", "Decode", nodes={"side": "decode"}),
    )
    pool.wait()
    [prefill], [decode] = pool.workers("prefill"), pool.workers("decode")
    answer = pool.transfer(prefill, decode)
    agent = hawk.agents()["n1"]

    assert answer.right, answer
    assert hawk.charge("n1", prefill) >= 1 << 30
    assert hawk.charge("n1", agent) - before < ROOM
    assert restarts(agent) == started
