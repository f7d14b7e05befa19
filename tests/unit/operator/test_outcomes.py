"""A decision's outcome stands beside its prediction, and is written twice, not with every look."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from hawk_api.reasons import Reason
from hawk_api.v1alpha1 import HawkPoolStatus
from hawk_operator.status import builder as status
from hawk_operator.status.facts import Facts, GroupFacts
from hawk_operator.status.outcomes import CARRIED_OUT, NEVER_READY
from hawk_planner.sizing import Decision
from hawk_planner.traffic import SideTraffic, Window, distribution, signals

from .build import pod, pods, pool

if TYPE_CHECKING:
    from hawk_api.v1alpha1.status import DecisionRecord

START = datetime(2026, 1, 1, tzinfo=UTC)


def decision(at: float, decode: int) -> Decision:
    return Decision(
        time=(START + timedelta(seconds=at)).timestamp(),
        replicas={"p": 1, "d": decode},
        reason=Reason.DEMAND,
        message="because",
        prefill=1,
        decode=decode,
        next_look=0.0,
        prediction={"ttftSeconds": 0.2},
    )


def facts(decode: int, ready: int, ttft: float = 0.25) -> Facts:
    window = Window(
        0.0,
        60.0,
        SideTraffic(arrivals=signals.value(4.0), ttft=signals.value(distribution.of({ttft: 1.0}))),
        SideTraffic(itl=signals.value(distribution.of({0.02: 1.0}))),
    )
    groups = [
        GroupFacts("p", "Prefill", 1, 1, pods("p", "Prefill", 1, pod("p-0"))),
        GroupFacts(
            "d",
            "Decode",
            1,
            decode,
            pods("d", "Decode", decode, *(pod(f"d-{i}", ready=i < ready) for i in range(decode))),
        ),
    ]
    return Facts(pool(), groups=tuple(groups), window=window)


class Life:
    """A pool's status from look to look."""

    def __init__(self) -> None:
        self.status = HawkPoolStatus()

    def look(self, at: float, found: Facts, made: Decision | None) -> tuple[DecisionRecord, ...]:
        self.status = status.build_status(found, made, self.status, START + timedelta(seconds=at))
        return self.status.decisions


def test_the_outcome_comes_a_window_after_the_replicas_are_ready_and_then_stays():
    life, made = Life(), decision(0, 2)
    assert life.look(1, facts(2, 1), made)[0].observed == {}, "one isn't ready"
    assert life.look(40, facts(2, 2), made)[0].observed == {CARRIED_OUT: "40"}
    assert life.look(99, facts(2, 2), made)[0].observed == {CARRIED_OUT: "40"}, "the window began before"
    settled = {CARRIED_OUT: "40", "ttftSeconds": "0.25", "itlSeconds": "0.02", "requestRate": "4"}
    assert life.look(100, facts(2, 2), made)[0].observed == settled
    assert life.look(200, facts(2, 2, ttft=0.5), made)[0].observed == settled, "no write for each look"


def test_a_decision_that_is_replaced_keeps_what_was_measured_last():
    life = Life()
    life.look(10, facts(2, 2), decision(0, 2))
    newest, former = life.look(90, facts(2, 2, ttft=0.5), decision(90, 3))

    assert newest.observed == {}
    assert (former.observed[CARRIED_OUT], former.observed["ttftSeconds"]) == ("10", "0.5")
    assert former.prediction == {"ttftSeconds": "0.2"}
    assert life.look(95, facts(3, 2), decision(90, 3))[1] == former, "and is closed"


def test_a_decision_that_was_never_carried_out_says_so():
    life = Life()
    life.look(1, facts(2, 1), decision(0, 2))
    _, former = life.look(30, facts(2, 1), decision(30, 1))

    assert former.observed == {CARRIED_OUT: NEVER_READY}


def test_without_metrics_only_the_readiness_is_known():
    life = Life()
    found = replace(facts(2, 2), window=None)
    life.look(5, found, decision(0, 2))

    assert life.look(500, found, decision(0, 2))[0].observed == {CARRIED_OUT: "5"}
