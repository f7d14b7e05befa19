"""Conditions: three values each, Ready over them, and a status that rests when nothing changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api.checks import Violation
from hawk_api.conditions import ConditionType
from hawk_api.reasons import Reason
from hawk_api.v1alpha1 import HawkPoolStatus
from hawk_operator.kube.events import condition_transitions
from hawk_operator.reconcile.agent_pods import lacks_pods, newest_message
from hawk_operator.reconcile.verdicts import current_message
from hawk_operator.status import builder
from hawk_operator.status.conditions import NEEDED_FOR_READY, judge_conditions, roll_up
from hawk_operator.status.facts import Facts, GroupFacts, Judgement
from hawk_operator.wiring.links import LinkIndex
from hawk_operator.workloads.drain import Waiting
from hawk_planner.sizing import Decision
from hawk_planner.traffic import Distribution, Signal, State, Window
from hawk_planner.traffic.window import SideTraffic

from .build import agent, pod, pods, pool

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WORKER = {"n1": agent("n1", regions=(("ns/llama", "p", "x"), ("ns/llama", "d", "x")))}


def group_facts(name: str, role: str, ready: int = 1, desired: int = 1, **more) -> GroupFacts:
    found = pods(name, role, desired, *(pod(f"{name}{i}") for i in range(ready)))
    return replace(GroupFacts(name, role, 1, desired, found), **more)


def good(**more) -> Facts:
    facts = Facts(
        pool=pool(),
        layouts=Judgement(True, Reason.AS_EXPECTED),
        groups=(group_facts("p", "Prefill"), group_facts("d", "Decode")),
        agents=WORKER,
        links=LinkIndex(1, 1, True, Reason.AS_EXPECTED, "1 of 1 links are verified"),
        scaling=Judgement(True, Reason.STEADY),
        payoff=Judgement(None, Reason.NOT_ENOUGH_KNOWN),
    )
    return replace(facts, **more)


def found(facts: Facts) -> dict[str, tuple[str, str]]:
    return {
        condition.type: (str(condition.status), str(condition.reason))
        for condition in judge_conditions(facts)
    }


def test_every_condition_is_there_and_ready_is_first():
    conditions = judge_conditions(good())

    assert next(c.type for c in conditions) == "Ready"
    assert {c.type for c in conditions} == set(ConditionType)
    assert found(good())["Ready"] == ("True", "AsExpected")
    assert all(c.observed_generation == 3 for c in conditions)
    assert all(c.message for c in conditions)


@given(st.dictionaries(st.sampled_from(list(ConditionType)), st.sampled_from([True, False, None])))
def test_ready_is_false_for_one_false_and_unknown_for_one_unknown(changes):
    states = {kind: changes.get(kind, True) for kind in ConditionType}
    needed = [states[kind] for kind in NEEDED_FOR_READY]
    verdicts = {kind: Judgement(state, Reason.WAITING, f"about {kind}") for kind, state in states.items()}
    ready = roll_up(good(), verdicts)

    assert ready.status is (False if False in needed else None if None in needed else True)
    if ready.status is not True:
        kind = next(k for k in NEEDED_FOR_READY if states[k] is ready.status)
        assert ready.message == f"{kind}: about {kind}"


AGENTLESS = {"agents": {}, "links": LinkIndex(0, 0, False, Reason.NO_AGENT, "none")}
STUCK = pods("p", "Prefill", 2, pod("p0"), pod("p1", node="", ready=False, unschedulable="0/1 nodes: no GPU"))


@pytest.mark.parametrize(
    ("change", "kind", "status", "reason"),
    [
        (
            {"violations": (Violation("spec.model", Reason.UNKNOWN_MODEL, "no such model"),)},
            "Ready",
            "False",
            "UnknownModel",
        ),
        (
            {"layouts": Judgement(False, Reason.LAYOUTS_INCOMPATIBLE, "x")},
            "Ready",
            "False",
            "LayoutsIncompatible",
        ),
        ({"groups": ()}, "DevicesReady", "Unknown", "Waiting"),
        (
            {"groups": (group_facts("p", "Prefill", trouble=(Reason.CHILD_REFUSED, "bad image")),)},
            "DevicesReady",
            "False",
            "ChildRefused",
        ),
        (
            {"groups": (group_facts("p", "Prefill", pods=STUCK, desired=2),)},
            "DevicesReady",
            "False",
            "Unschedulable",
        ),
        ({"groups": (group_facts("p", "Prefill", ready=0),)}, "DevicesReady", "False", "RollingOut"),
        (
            {"groups": (group_facts("p", "Prefill", ready=1, desired=4),)},
            "DevicesReady",
            "True",
            "RollingOut",
        ),
        (
            {
                "groups": (
                    group_facts(
                        "p",
                        "Prefill",
                        pods=pods("p", "Prefill", 1, pod("p0", ready=False, problem="CrashLoopBackOff")),
                    ),
                )
            },
            "DevicesReady",
            "False",
            "PodsNotReady",
        ),
        (AGENTLESS, "MemoryRegistered", "False", "NoAgent"),
        ({"agents": {"n1": agent("n1")}}, "MemoryRegistered", "False", "RegionMissing"),
        (
            {
                "agents": {
                    "n1": agent("n1", regions=(("ns/llama", "p", "p0"), ("ns/llama", "d", "elsewhere")))
                }
            },
            "MemoryRegistered",
            "True",
            "AsExpected",
        ),
        (
            {
                "agents": {"n1": agent("n1", regions=(("ns/llama", "p", "p0"), ("ns/llama", "d", "x")))},
                "groups": (group_facts("p", "Prefill", ready=2, desired=2), group_facts("d", "Decode")),
            },
            "MemoryRegistered",
            "False",
            "RegionMissing",
        ),
        ({"agents_known": False}, "MemoryRegistered", "Unknown", "NotObserved"),
        ({"agents_known": False}, "Wired", "Unknown", "NotObserved"),
        ({"links": LinkIndex(2, 1, False, Reason.LINKS_DOWN, "x")}, "Wired", "False", "LinksDown"),
        ({"links": LinkIndex(2, 0, None, Reason.WAITING, "x")}, "TransferVerified", "Unknown", "NoTransfers"),
        ({"links": LinkIndex(2, 0, None, Reason.WAITING, "x")}, "Ready", "Unknown", "Waiting"),
        (
            {"agents": {"n1": replace(WORKER["n1"], problems=(("n2", "CanaryFailed", "bytes differ"),))}},
            "TransferVerified",
            "False",
            "CanaryFailed",
        ),
        ({"pool": pool(transfer={"verify": "Off"})}, "TransferVerified", "Unknown", "VerificationOff"),
        ({"pool": pool(transfer={"verify": "Off"})}, "Ready", "True", "AsExpected"),
        ({}, "MetricsAvailable", "Unknown", "NotNeeded"),
        (
            {"groups": (group_facts("p", "Prefill", conflict="HorizontalPodAutoscaler x scales it"),)},
            "Scaling",
            "False",
            "Conflicted",
        ),
        (
            {"draining": (Waiting("p0", Reason.WAITING_FOR_REQUESTS, "p0 had 3 requests", 9.0),)},
            "Draining",
            "True",
            "WaitingForRequests",
        ),
        ({"drain_timed_out": ("p0",)}, "Draining", "True", "DrainTimedOut"),
    ],
)
def test_what_is_said(change, kind, status, reason):
    assert found(good(**change))[kind] == (status, reason)


OBSERVED = pool(traffic={"prometheus": {"url": "http://prometheus:9090"}})


def window(rate: float | None = 2.0, ttft: float = 0.2, error: str = "", *, answered: bool = True) -> Window:
    def known(number):
        return Signal(State.VALUE, Distribution(((number, 1.0),), ((number, number),)))

    arrivals = Signal(State.VALUE, rate) if rate is not None else Signal(State.NOT_A_NUMBER, None, "NaN")
    side = SideTraffic(
        arrivals=arrivals, prompt=known(100.0), output=known(10.0), ttft=known(ttft), itl=known(0.02)
    )
    return Window(0.0, 60.0, prefill=side, decode=side, error=error, answered=answered)


@pytest.mark.parametrize(
    ("seen", "status", "reason"),
    [
        (None, "Unknown", "NotObserved"),
        (window(), "True", "MetricsFresh"),
        (window(0.0), "True", "MetricsFresh"),
        (window(None), "False", "SignalNotANumber"),
        (window(error="connection refused", answered=False), "False", "PrometheusUnreachable"),
        (window(error="parse error"), "False", "QueryFailed"),
    ],
)
def test_missing_zero_and_nan_metrics_differ(seen, status, reason):
    facts = good(pool=OBSERVED, window=seen)

    assert found(facts)["MetricsAvailable"] == (status, reason)
    assert found(facts)["Ready"] == ("True", "AsExpected"), "a pool serves without its metrics"


def test_equal_facts_give_an_equal_status():
    first = builder.build_status(good(), None, HawkPoolStatus(), NOW)
    again = builder.build_status(good(), None, first, NOW + timedelta(hours=1))

    assert again.to_dict() == first.to_dict()


def test_a_transition_time_moves_with_the_status_alone():
    first = builder.build_status(good(), None, HawkPoolStatus(), NOW)
    later = builder.build_status(
        good(links=LinkIndex(1, 0, False, Reason.LINKS_DOWN, "x")), None, first, NOW + timedelta(1)
    )
    times = {c.type: c.last_transition_time for c in later.conditions}

    assert times["Wired"] == times["Ready"] == NOW + timedelta(1)
    assert times["LayoutsCompatible"] == NOW


@pytest.mark.parametrize(("measured", "shown"), [(0.235, 0.2), (0.245, 0.245), (0.1, 0.1)])
def test_a_wobble_of_a_latency_is_not_written(measured, shown):
    facts = good(pool=OBSERVED, window=window(ttft=measured))
    made = builder.build_status(facts, None, HawkPoolStatus(ttft=0.2), NOW)

    assert made.ttft == pytest.approx(shown)


@pytest.mark.parametrize(("measured", "shown"), [(0.19, 0.2), (0.205, 0.2), (0.215, 0.215)])
def test_a_latency_that_crosses_its_target_is_written(measured, shown):
    promised = pool(traffic=OBSERVED.spec.traffic.to_dict(), objectives={"ttft": {"target": "210ms"}})
    made = builder.build_status(
        good(pool=promised, window=window(ttft=measured)), None, HawkPoolStatus(ttft=0.2), NOW
    )

    assert made.ttft == pytest.approx(shown)


def decision(prefill: int, decode: int, reason: Reason = Reason.DEMAND, time: float = 0.0) -> Decision:
    return Decision(
        time=time,
        replicas={"p": prefill, "d": decode},
        reason=reason,
        message="because",
        prefill=prefill,
        decode=decode,
        next_look=time + 15,
    )


def test_the_history_holds_ten_changes_newest_first():
    records = ()
    for index in range(30):
        records = builder.recent_decisions(records, decision(index // 2, 1, time=float(index)))

    assert len(records) == 10
    assert [record.prefill for record in records] == list(range(14, 4, -1))


def test_a_status_of_the_largest_pool_stays_small():
    """500 nodes with 64 regions each are counted, not listed."""
    agents = {
        f"node-{i}": agent(f"node-{i}", regions=tuple(("ns/llama", "p", f"w-{i}-{j}") for j in range(64)))
        for i in range(500)
    }
    many = pods("p", "Prefill", 500, *(pod(f"pod-{i}", f"node-{i}") for i in range(500)), live=tuple(agents))
    made = builder.build_status(
        good(agents=agents, groups=(GroupFacts("p", "Prefill", 1, 500, many),)),
        decision(500, 1),
        HawkPoolStatus(),
        NOW,
    )

    assert len(made.model_dump_json(by_alias=True)) < 20_000


def test_events_are_about_changes():
    before = {c.type: c for c in builder.build_status(good(), None, HawkPoolStatus(), NOW).conditions}
    after = {
        c.type: c
        for c in builder.build_status(
            good(links=LinkIndex(1, 0, False, Reason.LINKS_DOWN, "n1 to n2")), None, HawkPoolStatus(), NOW
        ).conditions
    }
    said = condition_transitions(before, after)

    assert {(item.reason, item.warning) for item in said} >= {("LinksDown", True)}
    assert condition_transitions(after, after) == []
    assert condition_transitions({}, before) == [], "a new pool that is well is no news"
    assert all(item.warning for item in condition_transitions({}, after))


def test_workers_without_an_agent_hear_why_its_pods_are_refused():
    why = "DaemonSet hawk/hawk-agent can't create pods: violates PodSecurity"
    [memory] = [
        c for c in judge_conditions(good(**AGENTLESS, agents_refused=why)) if c.type == "MemoryRegistered"
    ]

    assert (memory.status, memory.reason) == ("False", "NoAgent")
    assert memory.message.endswith(why)


def test_a_daemon_set_lacks_pods_when_nodes_want_more_than_there_are():
    assert lacks_pods({"desiredNumberScheduled": 3, "currentNumberScheduled": 2})
    assert not lacks_pods({"desiredNumberScheduled": 3, "currentNumberScheduled": 3})
    assert not lacks_pods({})
    events = [
        {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "message": "first"},
        {"metadata": {}, "lastTimestamp": "2026-01-02T00:00:00Z", "message": "last"},
    ]
    assert newest_message(events) == "last"
    assert newest_message([]) == ""


def behind(**changed) -> Facts:
    """A pool of which one of two decode workers isn't ready, on a node of its own."""
    waiting = pod("d1", node="n2", ready=False, **changed)
    groups = (group_facts("p", "Prefill"), replace(group_facts("d", "Decode"), desired=2))
    decode = replace(groups[1], pods=pods("d", "Decode", 2, pod("d0"), waiting))
    return good(groups=(groups[0], decode))


def test_workers_that_are_gone_with_their_node_are_no_rollout():
    lost = replace(behind(), agents={**WORKER, "n2": agent("n2", live=False)})
    starting = replace(behind(), agents={**WORKER, "n2": agent("n2")})
    unlisted = behind()

    assert found(lost)["DevicesReady"] == ("True", "AgentLost")
    assert found(starting)["DevicesReady"] == found(unlisted)["DevicesReady"] == ("True", "RollingOut")
    message = next(c.message for c in judge_conditions(lost) if c.type == "DevicesReady")
    assert message == "ready: p 1/1, d 1/2; workers aren't ready on nodes whose agent is lost too: n2"


def test_what_a_pod_says_of_itself_comes_before_what_its_node_lets_expect():
    failing = replace(behind(problem="container x: Error"), agents={**WORKER, "n2": agent("n2", live=False)})

    assert found(failing)["DevicesReady"] == ("True", "PodsNotReady")


@pytest.mark.parametrize(
    ("said", "now", "expected"),
    [
        ("ttft 180 ms at 2 of 4", "ttft 190.5 ms at 3 of 4", "ttft 180 ms at 2 of 4"),
        ("waiting for n2", "serving", "serving"),
        ("", "first", "first"),
    ],
)
def test_a_sentence_stays_while_only_its_numbers_move(said, now, expected):
    present = replace(decision(1, 1), message=now)

    assert current_message(said, present) == expected
    assert current_message(said, None) == said
