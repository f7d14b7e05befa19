"""Who goes, when, and what is waited for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hawk_api.reasons import Reason
from hawk_operator.workloads.drain import COST, Choice, PodWork, ordinal, plan_drain

from .build import pod

IDLE = PodWork({}, 100.0, {}, frozenset({"n1"}))


def names(pods) -> list[str]:
    return [item.name for item in pods]


def test_what_does_no_work_goes_first():
    pods = [
        pod("busy", created=5.0),
        pod("free", created=1.0),
        pod("unready", ready=False),
        pod("pending", node="", ready=False, unschedulable="no GPU"),
        pod("agentless", node="n9"),
    ]
    work = PodWork({"busy": 3.0, "free": 0.0}, 100.0, {}, frozenset({"n1"}))
    order = [names(plan_drain(pods, goal, work, 60, 100.0).mark) for goal in (4, 3, 2, 1, 0)]

    assert order[-1] == ["pending", "unready", "agentless", "free", "busy"]
    assert order[0] == ["pending"]


def test_a_worker_with_requests_is_waited_for_until_a_later_look_finds_none():
    worker = pod("w", drain_since=50.0, deletion_cost=COST)
    busy = plan_drain([worker], 0, PodWork({"w": 2.0}, 60.0, {}, frozenset({"n1"})), 300, 60.0)
    [waiting] = busy.waiting
    assert (waiting.reason, waiting.until) == (Reason.WAITING_FOR_REQUESTS, 350.0)
    assert busy.floor(1) == 1
    assert busy.mark == ()

    stale = plan_drain([worker], 0, PodWork({"w": 0.0}, 50.0, {}, frozenset({"n1"})), 300, 60.0)
    assert stale.waiting, "a look from before the mark doesn't tell"
    done = plan_drain([worker], 0, PodWork({"w": 0.0}, 51.0, {}, frozenset({"n1"})), 300, 60.0)
    assert names(done.empty) == ["w"]
    assert done.floor(1) == 0


def test_registered_memory_without_gauges_is_waited_for_until_the_time_out():
    worker = pod("w", drain_since=50.0, deletion_cost=COST)
    work = PodWork({}, 60.0, {("n1", "w"): None}, frozenset({"n1"}))
    waits = plan_drain([worker], 0, work, 300, 349.0)
    assert waits.waiting[0].reason is Reason.WAITING_FOR_LEASES
    over = plan_drain([worker], 0, work, 300, 350.0)
    assert names(over.timed_out) == names(over.empty) == ["w"]
    assert over.waiting == ()


def test_demand_that_returns_ends_the_drain():
    worker = pod("w", drain_since=50.0, deletion_cost=COST)
    back = plan_drain([worker], 1, IDLE, 300, 60.0)

    assert names(back.unmark) == ["w"]
    assert back.mark == back.empty == back.waiting == ()


def test_a_worker_that_drains_already_stays_the_one_that_goes():
    pods = [pod("a"), pod("b", drain_since=50.0, deletion_cost=COST), pod("c", created=99.0)]

    assert names(plan_drain(pods, 2, IDLE, 300, 60.0).empty) == ["b"]


NAMES = ["a", "b", "c", "d", "e", "f"]
STATES = st.tuples(st.booleans(), st.sampled_from(["", "n1", "n2"]), st.none() | st.integers(0, 100))


@given(
    st.lists(STATES, max_size=len(NAMES)),
    st.integers(0, 9),
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2)),
)
def test_never_more_go_than_are_too_many(states, goal, requests):
    pods = [
        pod(name, node, ready=ready, drain_since=since)
        for name, (ready, node, since) in zip(NAMES, states, strict=False)
    ]
    work = PodWork(requests, 100.0, {("n1", "e"): None}, frozenset({"n1", "n2"}))
    found = plan_drain(pods, goal, work, 60, 120.0)
    too_many = max(0, len(pods) - goal)

    assert len(found.empty) + len(found.waiting) == too_many
    assert found.floor(len(pods)) >= min(goal, len(pods))
    assert not {item.uid for item in found.unmark} & {item.uid for item in (*found.mark, *found.empty)}
    for item in found.empty:
        assert not item.ready or requests.get(item.name, 0) == 0 or item in found.timed_out


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), max_size=6),
    st.integers(0, 6),
)
def test_where_the_highest_ordinal_goes_whatever_is_marked_the_highest_are_emptied_from_the_top(states, goal):
    pods = [pod(f"w-{index}", ready=ready) for index, (ready, _) in enumerate(states)]
    in_use = {("n1", f"w-{index}"): busy for index, (_, busy) in enumerate(states)}
    work = PodWork({}, 100.0, in_use, frozenset({"n1"}))
    found = plan_drain(pods[::-1], goal, work, 60, 120.0, by_ordinal=True)
    top = [ordinal(item) for item in found.empty]

    assert top == list(range(len(pods) - 1, len(pods) - 1 - len(top), -1)), "no gap: the set takes the top"
    assert len(top) <= max(0, len(pods) - goal)
    for item in found.empty:
        assert not item.ready or not in_use["n1", item.name]
    marked = {ordinal(item) for item in found.mark}
    assert marked == set(range(min(goal, len(pods)), len(pods)))


def test_memory_in_use_is_waited_for_and_idle_memory_is_not():
    worker = pod("w", drain_since=50.0, deletion_cost=COST)

    def after(requests, in_use):
        work = PodWork(requests, 60.0, in_use, frozenset({"n1"}))
        return plan_drain([worker], 0, work, 300, 70.0)

    [waiting] = after({"w": 0.0}, {("n1", "w"): True}).waiting
    assert waiting.reason is Reason.WAITING_FOR_LEASES, "no requests, but somebody fetches its KV"
    assert names(after({}, {("n1", "w"): False}).empty) == ["w"]
    assert names(after({}, {("n1", "engine-7"): False}).empty) == ["w"], "named otherwise, alone on its node"
    assert after({}, {("n1", "engine-7"): True}).waiting
    assert after({}, {("n1", "w"): None}).waiting, "nobody said"


def test_a_leader_goes_when_the_memory_of_all_that_it_leads_is_idle():
    leader = pod("w-2", drain_since=50.0, deletion_cost=COST)

    def after(used):
        memory = {("n1", "w-2"): False, ("n2", "w-2-1"): used, ("n3", "w-1-1"): True, ("n3", "w-20"): True}
        return plan_drain([leader], 0, PodWork({}, 60.0, memory, frozenset({"n1", "n2", "n3"})), 300, 70.0)

    assert names(after(False).empty) == ["w-2"]
    [waiting] = after(True).waiting
    assert waiting.nodes == {"n1", "n2"}, "the agents of all its members are asked"
    assert waiting.message == "w-2 has leases or transfers on n2"
    assert after(None).waiting


def test_who_went_is_checked_by_who_is_left():
    choice = Choice({"uid-a": "a"}, {"uid-b": "b", "uid-c": "c"})

    assert choice.verdict([pod("a"), pod("b"), pod("c")]) is None, "nobody went yet"
    assert choice.verdict([pod("b"), pod("c")]) == ""
    assert choice.verdict([pod("a", terminating=True), pod("b"), pod("c")]) == ""
    assert choice.verdict([pod("a"), pod("c")]) == "b went in place of a"
    assert choice.verdict([pod("c")]) == "", "it went, and more with it"
