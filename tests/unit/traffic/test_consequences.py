"""Each state of the metrics store and its consequence, from its answer to the replicas.

A pool of four prefill and six decode workers, whose load needs fewer. Everything that isn't a fresh number
must leave it alone; only real numbers may shrink it, and only when nobody is silent.
"""

from __future__ import annotations

import re
import socket
from dataclasses import replace

import pytest

from hawk_api.reasons import Reason
from hawk_operator.traffic.collect import collect_window
from hawk_operator.traffic.source import GroupTarget, Source
from hawk_planner.sizing import History, plan_replicas
from tests.unit.sizing.pools import pool, seen
from tests.unit.traffic.fake import Hang, series, store

PODS = {"prefill": ("p-1", "p-2", "p-3", "p-4"), "decode": tuple(f"d-{n}" for n in range(6))}
REPLICAS = {"prefill": 4, "decode": 6}
PROBLEM = replace(pool(), down_window=0.0)


def targets(pods=PODS) -> tuple[GroupTarget, ...]:
    return tuple(GroupTarget(role, role.title(), pods[role], "ns") for role in ("prefill", "decode"))


def full(rate: object = "4", prompt: object = "4", silent: tuple[str, ...] = ()) -> list[dict[str, object]]:
    """An answer for prompts of 3,000 tokens and outputs of 100, with gauges of all pods but the silent."""
    found = [series("prefill/arrivals", rate), series("prefill/samples", "4")]
    for side, signal, mean, edge, number in (
        ("prefill", "prompt_tokens", 3000, "5000", prompt),
        ("decode", "output_tokens", 100, "200", "4"),
    ):
        found += [series(f"{side}/{signal}/bucket", number, le=le) for le in (edge, "+Inf")]
        found += [series(f"{side}/{signal}/sum", str(4 * mean)), series(f"{side}/{signal}/count", "4")]
        found += [series(f"{side}/running", "1", pod=pod) for pod in PODS[side] if pod not in silent]
    return found


def decided(answer, *, pods=PODS, url: str = "", timeout: float = 5.0):
    """The reason of MetricsAvailable, and the decision."""
    with store(answer if callable(answer) and not isinstance(answer, type) else lambda _: answer) as there:
        window = collect_window(Source(url or there, timeout=timeout), targets(pods), 1000.0)
    history = History.start(REPLICAS, 0.0)
    return window.reason(), plan_replicas(window, PROBLEM, seen(**REPLICAS), history, 1000.0)


def test_a_fresh_number_may_shrink_the_pool():
    reason, made = decided(full())

    assert reason is Reason.METRICS_FRESH
    assert made.prefill < REPLICAS["prefill"]


def test_zero_is_a_number_and_leads_to_the_minima():
    with store(lambda _: full(rate="0")) as url:
        window = collect_window(Source(url), targets(), 1000.0)
    served = replace(History.start(REPLICAS, 0.0), seen_traffic=True)
    made = plan_replicas(window, PROBLEM, seen(**REPLICAS), served, 1000.0)

    assert window.reason() is Reason.METRICS_FRESH
    assert made.replicas == {"prefill": 1, "decode": 1}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param([], Reason.SIGNAL_MISSING, id="missing"),
        pytest.param(full(rate="NaN"), Reason.SIGNAL_NOT_A_NUMBER, id="NaN"),
        pytest.param(full(prompt="NaN"), Reason.SIGNAL_NOT_A_NUMBER, id="NaN where requests come"),
        pytest.param(full(rate="+Inf"), Reason.SIGNAL_NOT_A_NUMBER, id="Inf"),
        pytest.param(full(rate="-2"), Reason.SIGNAL_NOT_A_NUMBER, id="a counter that ran backwards"),
        pytest.param([*full(), series("prefill/age", "200")], Reason.SIGNAL_STALE, id="stale"),
        pytest.param(503, Reason.QUERY_FAILED, id="an error"),
        pytest.param(b"<html>", Reason.PROMETHEUS_UNREACHABLE, id="not a Prometheus"),
        pytest.param(Hang, Reason.PROMETHEUS_UNREACHABLE, id="slow"),
    ],
)
def test_what_is_no_fresh_number_holds_the_pool_and_says_which(answer, reason):
    found, made = decided(answer, timeout=0.3 if answer is Hang else 5.0)

    assert found is reason
    assert (made.replicas, made.reason) == (REPLICAS, Reason.METRICS_LOST)
    assert "holds the last decision" in made.message


def test_a_dead_store_holds_the_pool():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        reason, made = decided([], url=f"http://127.0.0.1:{free.getsockname()[1]}")

    assert reason is Reason.PROMETHEUS_UNREACHABLE
    assert (made.replicas, made.reason) == (REPLICAS, Reason.METRICS_LOST)


def test_a_pod_that_cannot_be_scraped_counts_as_busy_for_shrinking():
    """Twenty requests a second from one of four pods: the other three may have as many each."""
    whole, partly = (decided(full(rate="20", silent=silent)) for silent in ((), PODS["prefill"][1:]))

    assert whole[1].prefill < REPLICAS["prefill"]
    assert partly[0] is Reason.METRICS_FRESH
    assert partly[1].prefill == REPLICAS["prefill"]
    assert "prefill: 3 of 4 pods give no metrics" in partly[1].message


def by_pod(rates: dict[str, float]):
    """A store that adds up the series that a query selects, as Prometheus would: {pod: requests/s}."""

    def answer(query: str) -> object:
        chosen = re.search(r'pod=~"([^"]*)"', query)
        assert chosen is not None
        pattern = chosen[1].replace("\\\\", "\\")
        return full(rate=str(sum(rate for pod, rate in rates.items() if re.fullmatch(pattern, pod))))

    return answer


def test_series_of_deleted_pods_are_no_load():
    ghosts = {"p-1": 2.0, "p-2": 2.0, "p-8": 500.0, "p-9": 500.0}

    assert decided(by_pod(ghosts))[1].inputs["requestRate"] == 4.0


def test_new_series_of_a_roll_out_count_from_their_first_rate_and_the_dip_shrinks_nothing():
    """Two of four pods were replaced a moment ago: their series give no rate yet."""
    new = {**PODS, "prefill": ("p-1", "p-2", "p-8", "p-9")}
    with store(by_pod({"p-1": 10.0, "p-2": 10.0, "p-3": 10.0, "p-4": 10.0})) as url:
        before, dip = (collect_window(Source(url), targets(pods), 1000.0) for pods in (PODS, new))
    careful = replace(PROBLEM, down_window=300.0)
    steady = plan_replicas(before, careful, seen(**REPLICAS), History.start(REPLICAS, 900.0), 1000.0)
    dipped = plan_replicas(dip, careful, seen(**REPLICAS), History.start(REPLICAS, 900.0), 1000.0)

    assert (before.arrivals.get(), dip.arrivals.get()) == (40.0, 20.0)
    assert dipped.prefill >= REPLICAS["prefill"]
    assert steady.prefill >= dipped.prefill
