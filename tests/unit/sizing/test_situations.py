"""Decisions in situations that have gone wrong elsewhere."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from hawk_api.reasons import Reason
from hawk_api.v1alpha1.enums import Fallback, Role, ScalingMode
from hawk_planner.perf.objectives import LatencyObjective
from hawk_planner.sizing import GroupObservation, History, plan_replicas
from hawk_planner.traffic import Window, distribution, signals
from hawk_planner.traffic.bins import Bin
from tests.unit.sizing.pools import AGENT, RAG, group, pool, seen, window

DOWN = Window(0.0, 60.0, error="http://prometheus:9090: connection refused", answered=False)
EMPTY = replace(window(1.0), prefill=replace(window(1.0).prefill, arrivals=signals.missing("no series of a")))


def follow(problem, windows, start, every: float = 15.0):
    """Decide on one window after another, each carried out at once; returns the decisions."""
    replicas, history, made = dict(start), History.start(start, 0.0), []
    for index, found in enumerate(windows):
        decision = plan_replicas(found, problem, seen(**replicas), history, index * every)
        history, replicas = history.add(decision), dict(decision.replicas)
        made.append(decision)
    return made


def test_after_traffic_ends_the_pool_goes_to_its_minima_within_the_stabilization_window():
    made = follow(pool(), [window(**RAG)] * 20 + [window(0.0)] * 40, {"prefill": 1, "decode": 1})

    busy = made[19].replicas
    assert busy["prefill"] > 1
    assert made[20].replicas == busy
    assert made[20].reason is Reason.STABILIZING
    assert made[-1].replicas == {"prefill": 1, "decode": 1}
    assert made[20 + 21].replicas == {"prefill": 1, "decode": 1}


def test_a_single_window_of_nonsense_changes_nothing():
    nonsense = replace(window(3.0), prefill=replace(window(3.0).prefill, prompt=signals.not_a_number("NaN")))
    made = follow(
        pool(), [window(**RAG)] * 30 + [nonsense] + [window(**RAG)] * 5, {"prefill": 2, "decode": 4}
    )

    assert made[30].reason is Reason.METRICS_LOST
    assert made[30].replicas == made[29].replicas == made[31].replicas


@pytest.mark.parametrize("lost", [DOWN, EMPTY])
def test_lost_metrics_hold_what_was_decided_however_long(lost):
    made = follow(pool(), [window(**RAG)] * 3 + [lost] * 100, {"prefill": 1, "decode": 1})

    assert made[-1].replicas == made[2].replicas
    assert made[-1].reason is Reason.METRICS_LOST
    assert lost.lost() in made[-1].message


def test_only_a_real_zero_may_scale_down():
    zero = follow(pool(), [window(**RAG)] * 3 + [window(0.0)] * 40, {"prefill": 1, "decode": 1})

    assert sum(zero[-1].replicas.values()) < sum(zero[2].replicas.values())


def test_the_floor_is_kept_without_metrics():
    problem = pool(groups=(group("prefill", Role.PREFILL, 3), group("decode", Role.DECODE, 2)))

    made = plan_replicas(
        DOWN, problem, seen(prefill=1, decode=5), History.start({"prefill": 1, "decode": 5}, 0.0), 0.0
    )

    assert made.replicas == {"prefill": 3, "decode": 5}
    assert "http://prometheus:9090" in made.message


def test_the_fallback_may_be_the_start_up_ratio():
    problem = pool(fallback=Fallback.STARTUP, startup_ratio=Fraction(1, 3))

    made = plan_replicas(DOWN, problem, seen(prefill=4, decode=4), History(), 0.0)

    assert (made.replicas, made.reason) == ({"prefill": 1, "decode": 3}, Reason.METRICS_LOST)


@pytest.mark.parametrize(
    ("prompt", "output", "ratio"), [(9000, 200, "1:2"), (9000, 600, "1:4"), (1000, 200, "1:4")]
)
def test_before_there_is_traffic_the_rules_of_thumb_hold(prompt, output, ratio):
    known = window(1.0, prompt, output)
    quiet = replace(known, prefill=replace(known.prefill, arrivals=signals.value(0.0)))

    made = plan_replicas(quiet, pool(), {}, History(), 0.0)

    assert (made.ratio, made.reason) == (ratio, Reason.STARTUP)


def test_a_pool_that_observes_no_traffic_stays_at_its_start():
    made = plan_replicas(None, replace(pool(), observes_traffic=False), {}, History(), 0.0)

    assert (made.ratio, made.reason) == ("1:4", Reason.STARTUP)


def test_unschedulable_pods_stop_growth_and_the_end_of_load_still_shrinks():
    problem = pool()
    stuck = {"prefill": GroupObservation(1, 1, 1), "decode": GroupObservation(3, 2, 2, pending=1)}
    growing = plan_replicas(window(40.0, 1500, 600), problem, stuck, History(), 0.0)

    assert growing.replicas["decode"] == 3
    assert growing.reason is Reason.UNSCHEDULABLE
    assert "decode: 1 of 3 pods can't be scheduled" in growing.message

    history = replace(History.start({"prefill": 1, "decode": 3}, 0.0), seen_traffic=True)
    later = plan_replicas(window(0.0), problem, stuck, history, 301.0)
    assert later.replicas == {"prefill": 1, "decode": 1}


def test_a_long_warm_up_causes_one_growth_to_the_needed_size():
    problem, history, replicas = pool(), History(), {"prefill": 1, "decode": 1}
    sizes = []
    for index in range(120):
        there = {name: GroupObservation(count, 1, 1) for name, count in replicas.items()}
        made = plan_replicas(window(**AGENT), problem, there, history, 15.0 * index)
        history, replicas = history.add(made), dict(made.replicas)
        sizes.append(tuple(replicas.values()))

    assert len(set(sizes)) == 1
    more = plan_replicas(window(AGENT["rate"] * 2, 1500, 600), problem, seen(**replicas), history, 1900.0)
    assert more.replicas["decode"] > replicas["decode"]


def test_each_side_is_judged_by_its_own_load():
    """Long prompts with short answers grow prefill alone, the reverse decode alone."""
    steady = plan_replicas(window(4.0, 3000, 200), pool(), {}, History(), 0.0).replicas
    prompts = plan_replicas(window(4.0, 15_000, 20), pool(), seen(**steady), History(), 0.0).replicas
    answers = plan_replicas(window(4.0, 300, 2500), pool(), seen(**steady), History(), 0.0).replicas

    assert prompts["prefill"] > steady["prefill"]
    assert prompts["decode"] <= steady["decode"]
    assert answers["decode"] > steady["decode"]
    assert answers["prefill"] <= steady["prefill"]


def test_a_silent_pod_is_idle_for_growth_and_busy_for_shrinking():
    problem = pool(down_window=0.0)
    whole = plan_replicas(window(20.0, 3000, 200), problem, {}, History(), 0.0).replicas
    present = seen(**whole)
    partly = window(
        10.0, 3000, 200, prefill={"living": 20, "silent": 10}, decode={"living": 20, "silent": 10}
    )

    assert plan_replicas(window(10.0, 3000, 200), problem, present, History(), 0.0).replicas != whole
    assert plan_replicas(partly, problem, present, History(), 0.0).replicas == whole


def test_burstiness_needs_more_prefill_than_an_even_stream():
    even = plan_replicas(window(14.0, 4000, dispersion=1.0), pool(), {}, History(), 0.0)
    bursty = plan_replicas(window(14.0, 4000, dispersion=200.0), pool(), {}, History(), 0.0)

    assert bursty.prefill > even.prefill


def test_a_queue_needs_more_than_the_requests_that_end():
    waiting = window(10.0, 4000, prefill={"waiting": signals.value(900.0)})

    assert (
        plan_replicas(waiting, pool(), {}, History(), 0.0).prefill
        > plan_replicas(window(10.0, 4000), pool(), {}, History(), 0.0).prefill
    )


def test_the_ratio_follows_the_traffic_and_a_tighter_objective_moves_it():
    retrieval, agents = (plan_replicas(window(**load), pool(), {}, History(), 0.0) for load in (RAG, AGENT))
    tight = plan_replicas(window(**AGENT), pool(itl=LatencyObjective(0.99, 0.018)), {}, History(), 0.0)

    assert Fraction(retrieval.prefill, retrieval.decode) > Fraction(agents.prefill, agents.decode)
    assert tight.decode > agents.decode
    assert "ITL" in tight.message


def test_load_within_the_tolerance_changes_nothing():
    first = plan_replicas(window(20.0, 3000, 300), pool(), {}, History(), 0.0)
    present = seen(**first.replicas)

    for rate in (18.4, 19.2, 20.8, 21.8):
        again = plan_replicas(window(rate, 3000, 300), pool(down_window=0.0), present, History(), 0.0)
        assert (again.replicas, again.reason) == (first.replicas, Reason.STEADY)


def test_a_forced_ratio_covers_the_load_at_exactly_that_ratio():
    made = plan_replicas(window(**AGENT), pool(forced_ratio=Fraction(2, 3)), {}, History(), 0.0)
    free = plan_replicas(window(**AGENT), pool(), {}, History(), 0.0)

    assert (made.ratio, made.reason) == ("2:3", Reason.FORCED)
    assert made.prefill >= free.prefill
    assert made.decode >= free.decode


def test_a_forced_ratio_keeps_to_the_budget():
    made = plan_replicas(
        window(**AGENT), pool(forced_ratio=Fraction(2, 3), budget_devices=8), {}, History(), 0.0
    )

    assert made.prefill + made.decode <= 8
    assert made.ratio == "2:3"


@pytest.mark.parametrize(
    ("change", "reason"), [({"paused": True}, Reason.PAUSED), ({"mode": ScalingMode.OFF}, Reason.SCALING_OFF)]
)
def test_paused_and_off_leave_everything_as_it_is(change, reason):
    made = plan_replicas(window(**AGENT), pool(**change), seen(prefill=7, decode=1), History(), 0.0)

    assert (made.replicas, made.reason, made.act) == ({"prefill": 7, "decode": 1}, reason, False)


def test_advice_is_computed_and_not_carried_out():
    advised = plan_replicas(window(**AGENT), pool(mode=ScalingMode.ADVISE), {}, History(), 0.0)

    assert advised.replicas == plan_replicas(window(**AGENT), pool(), {}, History(), 0.0).replicas
    assert not advised.act


def test_an_objective_that_prefill_alone_exceeds_is_said_and_the_rest_is_served():
    made = plan_replicas(window(**RAG), pool(ttft=LatencyObjective(0.95, 0.1)), {}, History(), 0.0)

    assert made.reason is Reason.INFEASIBLE
    assert "TTFT P95 of 100ms is shorter than the prefill alone" in made.message
    assert made.prefill < 16


def test_a_class_that_lacks_figures_is_named_and_nothing_moves():
    unknown = replace(pool().groups[1].worker, bandwidth=None)
    problem = pool(groups=(pool().groups[0], group("decode", Role.DECODE, worker=unknown, device_class="x")))

    made = plan_replicas(window(**AGENT), problem, seen(prefill=2, decode=2), History(), 0.0)

    assert made.reason is Reason.NOT_ENOUGH_KNOWN
    assert made.replicas == {"prefill": 2, "decode": 2}
    assert "group decode (AcceleratorClass 'x') lacks bandwidth" in made.message


def test_weights_that_do_not_fit_are_said():
    small = replace(pool().groups[0].worker, memory=10e9)
    problem = pool(groups=(group("prefill", Role.PREFILL, worker=small), pool().groups[1]))

    made = plan_replicas(window(**AGENT), problem, {}, History(), 0.0)

    assert "raise acceleratorsPerReplica" in made.message


def test_the_cheaper_of_two_groups_of_a_role_is_filled_first():
    groups = (
        group("prefill", Role.PREFILL),
        group("dear", Role.DECODE, usd_per_hour=5.0),
        group("cheap", Role.DECODE, most=3, usd_per_hour=0.5),
    )

    made = plan_replicas(window(**AGENT), pool(groups=groups), {}, History(), 0.0)

    assert made.replicas["cheap"] == 3
    assert made.replicas["dear"] > 1


def test_a_pool_of_workers_that_do_both_is_sized_by_the_sum():
    little = plan_replicas(
        window(2.0, 2000, 200), pool(groups=(group("all", Role.BOTH),)), {}, History(), 0.0
    )
    much = plan_replicas(window(30.0, 2000, 200), pool(groups=(group("all", Role.BOTH),)), {}, History(), 0.0)

    assert much.replicas["all"] > little.replicas["all"]
    assert much.prefill == much.decode == much.replicas["all"]


def test_a_budget_is_shared_so_that_neither_side_starves():
    free = plan_replicas(window(60.0, 2000, 600), pool(), {}, History(), 0.0)
    tight = plan_replicas(window(60.0, 2000, 600), pool(budget_devices=8), {}, History(), 0.0)

    assert free.prefill + free.decode > 8
    assert tight.prefill + tight.decode == 8
    assert tight.reason is Reason.AT_BUDGET
    covers = [tight.prefill / free.prefill, tight.decode / free.decode]
    assert min(covers) > 0.3


def test_a_restart_remembers_that_there_was_traffic_and_does_not_shrink_at_once():
    busy = plan_replicas(window(**AGENT), pool(), {}, History(), 0.0)
    again = History.restore([busy.record()], busy.replicas, 10.0)

    quiet = plan_replicas(window(0.0), pool(), seen(**busy.replicas), again, 11.0)

    assert quiet.replicas == busy.replicas
    assert quiet.reason is Reason.STABILIZING


def test_a_record_fits_the_status_schema_and_says_the_numbers():
    record = plan_replicas(window(**AGENT, dispersion=3.0), pool(), {}, History(), 1_700_000_000.0).record()

    assert record.inputs["requestRate"] == "24"
    assert record.inputs["ttftTarget"] == "P95 1.2s"
    assert float(record.prediction["ttftSeconds"]) > 0
    assert record.model_dump(by_alias=True, mode="json")["time"] == "2023-11-14T22:13:20Z"


def test_what_is_kept_for_bursts_says_so():
    """Two hundred requests a second came for five seconds, again and again; ten come now."""
    counts = ([50.0] * 20 + [1000.0]) * 8 + [50.0] * 20
    hour = tuple(Bin(count, count * 4000.0, count * 300.0) for count in counts)
    bursty = window(10.0, burst_bin=5.0, bins=hour)
    most = (group("prefill", Role.PREFILL, most=99), group("decode", Role.DECODE, most=99))
    steady = replace(bursty, bins=tuple(Bin(50.0, 2e5, 15e3) for _ in counts))

    kept = follow(pool(groups=most), [bursty] * 10, {"prefill": 1, "decode": 1})[-1]
    plain = follow(pool(groups=most), [steady] * 10, {"prefill": 1, "decode": 1})[-1]

    assert kept.replicas["prefill"] > plain.replicas["prefill"]
    assert f"prefill: {kept.replicas['prefill']} are kept for bursts" in kept.message
    assert "kept for bursts" not in plain.message


def test_a_pool_may_do_without_a_reserve_for_bursts():
    counts = ([50.0] * 20 + [1000.0]) * 8 + [50.0] * 20
    bursty = window(
        10.0, burst_bin=5.0, bins=tuple(Bin(count, count * 4000.0, count * 300.0) for count in counts)
    )
    keeping, plain = (
        follow(pool(burst_reserve=kept), [bursty] * 10, {"prefill": 1, "decode": 1})[-1]
        for kept in (True, False)
    )

    assert plain.prefill < keeping.prefill
    assert "kept for bursts" not in plain.message


def test_one_long_prompt_in_a_quiet_window_is_no_new_mix():
    """Bursts of short prompts came; now a single long one did, alone in its window."""
    counts = ([30.0] * 9 + [600.0]) * 6
    hour = tuple(Bin(count, count * 2000.0, count * 30.0) for count in counts)
    usual, odd = (
        replace(window(1 / 60, burst_bin=30.0, bins=hour), prefill=one)
        for one in (window(1 / 60, 2000).prefill, window(1 / 60, 7000).prefill)
    )
    single = replace(odd, prefill=replace(odd.prefill, prompt=signals.value(distribution.of({7000.0: 1.0}))))
    objective = LatencyObjective(0.99, 0.4)

    kept, after = (
        plan_replicas(found, pool(ttft=objective), seen(prefill=4, decode=2), History(), 0.0)
        for found in (usual, single)
    )

    assert after.inputs["promptTokensMean"] == pytest.approx(2000.0)
    assert after.prefill <= kept.prefill + 1
