"""The simulated cluster against models that share no code with it, and laws that must hold."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_api.v1alpha1.enums import QueueOrder, Role
from hawk_planner.simulate.engine import ClusterSettings, Simulation
from hawk_planner.simulate.generate import AGENT, CHAT, Stream, burst, steady
from hawk_planner.simulate.policies import Hawk, Schedule, fixed
from hawk_planner.simulate.score import direction_changes, score_result
from hawk_planner.simulate.traces import Trace, TraceRequest
from hawk_planner.simulate.workers import DecodeWorker, Job, StepCost
from tests.unit.sizing.pools import MODEL, NPU, group, pool

FAST_LINK = 1e15


def run(requests, replicas, policy=None, **more):
    trace = Trace("t", tuple(requests))
    chosen = policy or fixed(replicas, "fixed")
    simulation = Simulation(
        trace, pool(), chosen, ClusterSettings(initial=replicas, link_bytes_per_second=FAST_LINK, **more)
    )
    return trace, simulation.run()


def test_one_prefill_worker_is_a_first_come_first_served_queue():
    chance = random.Random(5)
    now, requests = 0.0, []
    for _ in range(300):
        now += chance.expovariate(8.0)
        requests.append(TraceRequest(now, chance.randrange(100, 6000), 1))
    trace, outcome = run(requests, {"prefill": 1, "decode": 1})

    free = 0.0
    for request, ttft in zip(trace.requests, outcome.ttft_s, strict=True):
        free = max(free, request.arrival) + pool().groups[0].worker.prefill_seconds(MODEL, request.prompt)
        assert ttft == pytest.approx(free - request.arrival)


sequences = st.lists(
    st.tuples(st.floats(0, 3), st.integers(1, 4000), st.integers(2, 400)), min_size=1, max_size=12
)


@settings(deadline=None, max_examples=40)
@given(sequences)
def test_decoding_between_changes_equals_decoding_token_by_token(found):
    """The reference takes one step after another; joining waits for the end of a step there."""
    arrivals = sorted(found)
    worker = DecodeWorker(1, "decode", StepCost.of(group("decode", Role.DECODE), MODEL), 0.0)
    ends, waiting, now = {}, list(enumerate(arrivals)), 0.0
    while waiting or worker.ends:
        coming = waiting[0][1][0] if waiting else math.inf
        if coming <= worker.next_end():
            index, (now, prompt, output) = waiting.pop(0)
            worker.advance(now)
            worker.join(Job(TraceRequest(now, prompt, output)), index)
        else:
            now = worker.next_end()
            before = {order for _, order, _ in worker.ends}
            worker.advance(now)
            worker.leave()
            ends |= dict.fromkeys(before - {order for _, order, _ in worker.ends}, now)

    expected, batch, now, left = {}, {}, 0.0, list(enumerate(arrivals))
    while left or batch:
        while left and (left[0][1][0] <= now or not batch):
            index, (when, prompt, output) = left.pop(0)
            now = max(now, when)
            batch[index] = [prompt + 1, output - 1]
        context = sum(tokens for tokens, _ in batch.values()) / len(batch)
        now += NPU.step_seconds(MODEL, len(batch), context)
        for state in batch.values():
            state[0] += 1
            state[1] -= 1
        for index in [i for i, (_, more) in batch.items() if more == 0]:
            expected[index] = now
            del batch[index]

    step = NPU.step_seconds(MODEL, len(arrivals), 5000)
    assert ends.keys() == expected.keys()
    for index, end in expected.items():
        assert ends[index] == pytest.approx(end, rel=0.02, abs=3 * step)


def test_kv_memory_admits_no_more_than_fits():
    worker = DecodeWorker(1, "decode", StepCost.of(group("decode", Role.DECODE), MODEL), 0.0)
    job = Job(TraceRequest(0.0, 60_000, 100))
    admitted = 0
    while worker.fits(job):
        worker.join(job, admitted)
        admitted += 1

    room = NPU.memory * 0.9 - MODEL.weight_bytes
    assert admitted == int(room / MODEL.kv_bytes(60_100))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 4), st.lists(st.floats(0, 200), max_size=6))
def test_every_request_ends_whatever_is_scaled_and_lost(seed, prefill, decode, failures):
    chance = random.Random(seed)
    trace = Stream(steady(AGENT, 3.0), seed).trace("t", 150.0)
    steps = [
        (15.0 * i, {"prefill": chance.randint(1, prefill), "decode": chance.randint(1, decode)})
        for i in range(20)
    ]
    lost = tuple((when, chance.choice(["prefill", "decode"])) for when in sorted(failures))
    _, outcome = run(
        trace.requests,
        {"prefill": prefill, "decode": decode},
        Schedule(steps),
        failures=lost,
        startup_s=20.0,
    )

    assert all(math.isfinite(t) and t > 0 for t in outcome.ttft_s)
    assert all(math.isfinite(t) for t in outcome.itl_s)
    assert all(span.end >= span.start for span in outcome.spans)


def test_a_run_is_the_same_every_time():
    trace = Stream(steady(AGENT, 10.0), 3).trace("t", 200.0)
    first, second = (
        Simulation(trace, pool(), Hawk(pool()), ClusterSettings(initial={"prefill": 1, "decode": 2})).run()
        for _ in range(2)
    )

    assert first == second


def test_a_worker_is_paid_from_being_asked_for_and_works_after_its_start_up():
    requests = [TraceRequest(float(i), 2000, 2) for i in range(120)]
    steps = Schedule([(0.0, {"prefill": 1, "decode": 1}), (30.0, {"prefill": 2, "decode": 1})])
    _, outcome = run(requests, {"prefill": 1, "decode": 1}, steps, startup_s=60.0)

    ready = {when: there["prefill"] for when, _, there in outcome.timeline}
    assert ready[75.0] == 1
    assert ready[105.0] == 2
    second = next(s for s in outcome.spans if s.group == "prefill" and s.start == 30.0)
    assert second.end == outcome.end


def test_the_score_of_a_static_pool_is_its_hours():
    trace, outcome = run([TraceRequest(float(i), 500, 5) for i in range(100)], {"prefill": 2, "decode": 3})

    found = score_result(trace, pool(), outcome, "fixed", (10.0, 70.0))

    assert found.requests == 60
    assert found.replica_hours == pytest.approx({"prefill": 2 / 60, "decode": 3 / 60})
    assert found.cost_usd == pytest.approx((2 * 3.0 + 3 * 0.8) / 60)
    assert found.slo_attainment == found.attainable == 1.0


def test_requests_that_were_late_do_not_count_as_met():
    burst = [TraceRequest(1.0, 12_000, 2) for _ in range(20)]
    trace, outcome = run(burst, {"prefill": 1, "decode": 2})

    found = score_result(trace, pool(), outcome, "fixed", (0.0, 10.0))

    in_time = sum(t <= 1.2 for t in outcome.ttft_s)
    assert 0 < in_time < 20
    assert found.ttft_attainment == in_time / 20
    assert found.attainable == 1.0


@pytest.mark.parametrize(
    ("counts", "turns"), [([1, 2, 3], 0), ([1, 2, 1], 1), ([1, 2, 2, 1, 3, 3, 2], 3), ([5], 0), ([], 0)]
)
def test_direction_changes_are_turns_not_steps(counts, turns):
    assert direction_changes([{"g": n} for n in counts]) == turns


def both_pool(**more):
    return pool(groups=(group("prefill", Role.PREFILL), group("both", Role.BOTH, worker=NPU)), **more)


def served(problem, requests, replicas, order=QueueOrder.ARRIVAL):
    trace = Trace("t", tuple(requests))
    chosen = ClusterSettings(initial=replicas, link_bytes_per_second=FAST_LINK, order=order)
    outcome = Simulation(trace, problem, fixed(replicas, "fixed"), chosen).run()
    return outcome, score_result(trace, problem, outcome, "fixed", (0.0, 1e9))


def test_decode_workers_lend_themselves_for_prompts_that_would_be_late():
    """40 prompts at once are more than one GPU does in time; NPUs are slower and in time for some."""
    at_once = [TraceRequest(1.0, 2000, 20) for _ in range(40)]
    alone, apart = served(pool(), at_once, {"prefill": 1, "decode": 4}, QueueOrder.SLACK)
    lent, together = served(both_pool(), at_once, {"prefill": 1, "both": 4}, QueueOrder.SLACK)

    assert together.ttft_attainment > apart.ttft_attainment
    assert together.itl_attainment == 1.0
    assert all(math.isfinite(t) for t in (*alone.itl_s, *lent.itl_s))


def test_lenders_take_nothing_that_dedicated_workers_have_in_time():
    spaced = [TraceRequest(float(i), 2000, 20) for i in range(30)]
    outcome, _ = served(both_pool(), spaced, {"prefill": 1, "both": 2})

    alone = pool().groups[0].worker.prefill_seconds(MODEL, 2000)
    assert outcome.ttft_s == pytest.approx([alone] * 30)


def test_colocated_workers_do_everything():
    problem = pool(groups=(group("all", Role.BOTH),))
    requests = [TraceRequest(0.3 * i, 2000, 50) for i in range(60)]
    outcome, found = served(problem, requests, {"all": 1})

    assert found.slo_attainment == 1.0
    assert all(math.isfinite(t) for t in outcome.itl_s)


def test_a_prompt_beside_a_batch_leaves_its_steps_at_the_objective():
    problem = pool(groups=(group("all", Role.BOTH, worker=NPU),))
    worker = DecodeWorker(1, "all", StepCost.of(problem.groups[0], MODEL), 0.0, chunk_s=0.02)
    worker.join(Job(TraceRequest(0.0, 1000, 101)), 1)
    worker.prefill(Job(TraceRequest(0.0, 4000, 5)), 0.5)

    assert worker.busy_until > 0.5
    assert worker.next_end() == pytest.approx(100 * 0.02)
    worker.advance(worker.busy_until)
    worker.prefilled(2)
    assert worker.load == 2


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.floats(0, 4), st.integers(100, 12_000)), min_size=1, max_size=40))
def test_order_by_slack_makes_nobody_late_without_need(found):
    """Where nobody is late in order of arrival, nobody is in order of slack."""
    requests = [TraceRequest(when, prompt, 1) for when, prompt in sorted(found)]
    _, arrival = served(pool(), requests, {"prefill": 2, "decode": 1})
    _, slack = served(pool(), requests, {"prefill": 2, "decode": 1}, QueueOrder.SLACK)

    if arrival.ttft_attainment == 1.0:
        assert slack.ttft_attainment == 1.0


def test_order_by_slack_gives_up_only_what_is_lost():
    late_first = [TraceRequest(0.0, 12_000, 1) for _ in range(10)] + [
        TraceRequest(2.0, 1000, 1) for _ in range(10)
    ]
    _, first = served(pool(), late_first, {"prefill": 1, "decode": 1})
    _, slack = served(pool(), late_first, {"prefill": 1, "decode": 1}, QueueOrder.SLACK)

    assert slack.ttft_attainment > first.ttft_attainment


def test_traffic_with_empty_minutes_and_bursts_keeps_the_pool_within_bounds_and_calm():
    """Minutes without any request, then hundreds: whole windows hold nothing to take a mean of."""
    trace = Stream(burst(CHAT, 0.0, 8.0, 400.0, 60.0), 11).trace("bursts", 1600.0)
    problem = pool(groups=(group("prefill", Role.PREFILL, 2), group("decode", Role.DECODE, 1)))
    policy = Hawk(problem)
    outcome = Simulation(trace, problem, policy, ClusterSettings(initial={"prefill": 2, "decode": 1})).run()

    wanted = [counts for _, counts, _ in outcome.timeline]
    assert all(2 <= counts["prefill"] <= 16 and 1 <= counts["decode"] <= 16 for counts in wanted)
    assert direction_changes(wanted) <= 6 * 2 * 1600 / 3600
    assert len(policy.history.entries) > 50
