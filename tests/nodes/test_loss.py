"""A node that loses its power, and comes back: what tells of it follows, and nobody has to do anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.waiting import until

from .pools import Pool, group

if TYPE_CHECKING:
    from .rig import Rig

LOST = "n3"


def test_a_lost_node_is_told_from_a_rollout_and_serves_again_when_it_is_back(rig: Rig, pool: Pool) -> None:
    def agent() -> tuple[str, str]:
        conditions = rig.cluster.get("hawknode", LOST)["status"]["conditions"]
        [ready] = [item for item in conditions if item["type"] == "Ready"]
        return ready["status"], ready["reason"]

    pool.apply(
        group("prefill", "Prefill", nodes={"side": "prefill"}),
        group("decode", "Decode", nodes={"kubernetes.io/hostname": LOST}),
    )
    pool.wait()
    rig.nodes[LOST].lose()
    try:
        until(lambda: agent() == ("Unknown", "AgentLost"), what="no Ready of the lost agent", timeout=90)
        until(
            lambda: pool.conditions()["DevicesReady"]["reason"] == "AgentLost",
            what="the reason that workers aren't ready",
            timeout=90,
        )
        devices = pool.conditions()["DevicesReady"]
    finally:
        rig.start(LOST)
    pool.wait()
    [prefill], [decode] = pool.workers("prefill"), pool.workers("decode")
    answer = pool.transfer(prefill, decode)

    assert devices["status"] == "False"
    assert devices["message"].endswith(LOST)
    assert agent() == ("True", "AsExpected")
    assert answer.right, answer
