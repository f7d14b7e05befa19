"""The next step: never over a budget, at any moment, whatever fails on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_operator.reconcile.plan import make_plan, surge_replicas, target_replicas
from hawk_operator.workloads.drain import PodWork

from .build import group, group_spec, pod, pods, pool

NOTHING_KNOWN = PodWork({}, 0.0, {}, frozenset({"n1"}))
BUDGET = 8


def two(prefill: int, decode: int, *, budget: int | None = BUDGET, **more):
    scaling = {"budget": {"devices": budget}} if budget else {}
    made = pool(
        group_spec("p", "Prefill", 0, 50, acceleratorClass="h100-sxm5", **more),
        group_spec("d", "Decode", 0, 50, acceleratorClass="h100-sxm5"),
        scaling=scaling,
    )
    found = [
        group(
            made.spec.groups[0],
            pods("p", "Prefill", prefill, *(pod(f"p{i}") for i in range(prefill))),
        ),
        group(made.spec.groups[1], pods("d", "Decode", decode, *(pod(f"d{i}") for i in range(decode)))),
    ]
    return made, found


def step(made, found, goal):
    return make_plan(made, found, goal, {}, {"p": NOTHING_KNOWN, "d": NOTHING_KNOWN}, now=0.0)


def test_at_the_budget_one_side_shrinks_before_the_other_grows():
    made, found = two(4, 4)
    first = step(made, found, {"p": 5, "d": 3})
    assert first.requests == {"p": 4, "d": 3}

    terminating = [pod("d0", terminating=True), *(pod(f"d{i}") for i in (1, 2, 3))]
    going = [found[0], replace(found[1], pods=pods("d", "Decode", 3, *terminating))]
    assert step(made, going, {"p": 5, "d": 3}).requests == {"p": 4, "d": 3}, "it still holds its device"

    gone = [found[0], replace(found[1], pods=pods("d", "Decode", 3, *terminating[1:]))]
    assert step(made, gone, {"p": 5, "d": 3}).requests == {"p": 5, "d": 3}


@given(
    st.integers(0, 8),
    st.integers(0, 8),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.sets(st.sampled_from("pd"))), max_size=12),
)
def test_the_budget_holds_at_every_instant(prefill, decode, rounds):
    """Goals change, writes are refused, pods end late: requested and existing never exceed the budget."""
    if prefill + decode > BUDGET:
        decode = BUDGET - prefill
    requested = {"p": prefill, "d": decode}
    existing = dict(requested)
    for goal_p, goal_d, refused in rounds:
        goal = {"p": goal_p, "d": min(goal_d, BUDGET - goal_p)}
        made, _ = two(0, 0)
        found = [
            group(
                spec,
                pods(
                    spec.name,
                    spec.role.value,
                    requested[spec.name],
                    *(
                        pod(f"{spec.name}{i}", terminating=i >= requested[spec.name])
                        for i in range(existing[spec.name])
                    ),
                ),
            )
            for spec in made.spec.groups
        ]
        plan = step(made, found, goal)
        for name, count in plan.requests.items():
            if name not in refused:
                requested[name] = count
            assert sum(max(requested[n], existing[n]) for n in "pd") <= BUDGET
        for name in "pd":  # growth comes at once, of what goes one pod a round
            if existing[name] > requested[name]:
                existing[name] -= 1
            else:
                existing[name] = requested[name]


def test_workers_that_are_emptied_stay_until_they_are():
    made, found = two(2, 2, budget=None)
    busy = {"p": NOTHING_KNOWN, "d": PodWork({"d0": 3.0, "d1": 3.0}, 5.0, {}, frozenset({"n1"}))}
    plan = make_plan(made, found, {"p": 2, "d": 1}, {}, busy, now=10.0)

    assert plan.requests["d"] == 2
    assert [item.name for item in plan.drains["d"].mark] == ["d0"]
    later = make_plan(
        made,
        [
            found[0],
            replace(found[1], pods=pods("d", "Decode", 2, pod("d0", drain_since=10.0), pod("d1"))),
        ],
        {"p": 2, "d": 1},
        {},
        {"p": NOTHING_KNOWN, "d": PodWork({"d0": 0.0, "d1": 3.0}, 15.0, {}, frozenset({"n1"}))},
        now=16.0,
    )
    assert later.requests["d"] == 1


def test_while_pods_find_no_node_nothing_is_added_and_shrinking_goes_on():
    made, found = two(2, 2, budget=None)
    waiting = [pod("p0"), pod("p1"), pod("p2", node="", ready=False, unschedulable="no GPU")]
    stuck = [replace(found[0], pods=pods("p", "Prefill", 3, *waiting)), found[1]]

    assert target_replicas(stuck, {"p": 9, "d": 3}, may_grow=True) == {"p": 3, "d": 3}
    down = target_replicas(stuck, {"p": 1, "d": 2}, may_grow=True)
    plan = step(made, stuck, down)
    assert plan.requests == {"p": 1, "d": 2}
    assert next(item.name for item in plan.drains["p"].empty) == "p2", "the pending one goes first"


def test_the_other_side_stays_near_a_side_that_is_stuck():
    made, found = two(0, 0, budget=None)
    prefill = [pod("p0"), pod("p1"), pod("p2", node="", ready=False, unschedulable="no GPU")]
    stuck = [
        replace(found[0], pods=pods("p", "Prefill", 3, *prefill)),
        replace(found[1], pods=pods("d", "Decode", 1, pod("d0"))),
    ]
    plan = step(made, stuck, {"p": 3, "d": 40})

    assert plan.requests["d"] <= 40 * (1 / 40 + 0.25)
    assert plan.requests["p"] == 3


def test_nothing_grows_while_limits_are_not_served_but_workloads_are_made():
    _, found = two(2, 2)
    assert target_replicas(found, {"p": 4, "d": 1}, may_grow=False) == {"p": 2, "d": 1}
    absent = [replace(item, pods=replace(item.pods, requested=None)) for item in found]
    assert target_replicas(absent, {"p": 4, "d": 1}, may_grow=False) == {"p": 4, "d": 1}


def test_what_another_controller_scales_is_left_alone():
    made, found = two(2, 2, budget=None)
    other = [replace(found[0], conflict="HorizontalPodAutoscaler x scales it"), found[1]]
    goal = target_replicas(other, {"p": 7, "d": 3}, may_grow=True)
    plan = step(made, other, goal)

    assert plan.requests == {"p": 2, "d": 3}
    assert "p" not in plan.drains


def test_without_a_decision_what_is_there_stays_and_what_is_not_begins_at_its_minimum():
    made, found = two(3, 0)
    absent = replace(found[1], pods=replace(found[1].pods, requested=None))

    assert target_replicas([found[0], absent], None, may_grow=True) == {"p": 3, "d": 0}
    assert made.spec.groups[1].replicas.min == 0


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (2, 2), ("25%", 2), ("100%", 5), ("0%", 0)])
def test_a_surge_is_rounded_up_as_a_deployment_does(value, expected):
    made = pool(group_spec("both", "Both", rollout={"maxSurge": value, "maxUnavailable": 1}))

    assert surge_replicas(made.spec.groups[0], 5) == expected


def test_a_surge_counts_against_the_budget():
    made, found = two(3, 3, rollout={"maxSurge": 1, "maxUnavailable": 0})
    plan = step(made, found, {"p": 3, "d": 5})

    assert plan.requests["d"] == 4, "three prefill workers may become four in a rollout"


def test_pods_that_pod_security_refuses_are_told_with_the_remedy():
    from hawk_operator.reconcile.observe import refused_pods

    def child(message):
        return {"status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": message}]}}

    assert "enforce=privileged" in refused_pods(
        child('violates PodSecurity "baseline:latest": hostPath volumes')
    )
    assert refused_pods(child("exceeded quota")) == "exceeded quota"
    assert refused_pods({}) == ""
