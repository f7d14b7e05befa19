"""The traffic window against a real Prometheus that scrapes real pages."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from hawk_api.reasons import Reason
from hawk_operator.traffic.collect import collect_window
from hawk_operator.traffic.source import GroupTarget, Source
from tests.cluster.traffic.engines import Engine, fleet
from tests.support.waiting import until

GROUPS = (GroupTarget("p", "Prefill", ("p1", "p2"), "ns"), GroupTarget("d", "Decode", ("d1",), "ns"))


@pytest.fixture
def engines():
    return {
        "p1": Engine(prompt=1500),
        "p2": Engine(prompt=1500, kv="vllm:gpu_cache_usage_perc"),
        "d1": Engine(),
        "ghost": Engine(prompt=4000),
    }


@pytest.fixture
def source(prometheus, engines):
    """A Prometheus that scrapes every engine twice a second, each with its pod's labels."""
    with fleet(engines) as port:
        jobs = [
            {
                "job_name": name,
                "metrics_path": f"/{name}",
                "static_configs": [
                    {"targets": [f"127.0.0.1:{port}"], "labels": {"pod": name, "namespace": "ns"}}
                ],
            }
            for name in engines
        ]
        server = prometheus(configuration={"scrape_configs": jobs}, scrape_interval="500ms")
        yield Source(server.url, window=4.0)


@contextmanager
def traffic(engines, every: float = 0.05):
    """Serve a request a tick on every engine until the block ends."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(every):
            for engine in engines:
                engine.serve(1)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def look_until(source, condition, groups=GROUPS):
    """Look until the window is as wanted, and return it."""
    found = []

    def wanted() -> bool:
        found[:] = [collect_window(source, groups, time.time())]
        return condition(found[0])

    until(wanted, what="a window", interval=0.2)
    return found[0]


def test_living_pods_are_read_and_ghosts_are_not(source, engines):
    engines["ghost"].gauges["vllm:num_requests_waiting"] = 500.0
    with traffic(engines.values()):
        window = look_until(source, lambda w: not w.lost() and w.arrivals.get() > 10 and len(w.bins) > 3)

    assert window.prefill.prompt.get().mean == pytest.approx(1500, rel=0.01)
    assert window.decode.output.get().mean == pytest.approx(100, rel=0.01)
    assert window.prefill.waiting.get() == 0.0
    assert set(window.prefill.by_pod) == {"p1", "p2"}
    assert window.round_trips == 2
    newest = window.bins[-1]
    assert newest.requests == pytest.approx(window.arrivals.get() * window.burst_bin, rel=0.5)
    assert newest.prompt_tokens == pytest.approx(1500 * newest.requests, rel=0.01)
    assert newest.output_tokens > 0


def test_names_with_underscores_are_read_like_those_with_colons(source, engines):
    for engine in engines.values():
        engine.underscores = True
    with traffic(engines.values()):
        window = look_until(source, lambda w: not w.lost() and w.arrivals.get() > 10)

    assert window.prefill.prompt.get().mean == pytest.approx(1500, rel=0.01)
    assert set(window.prefill.by_pod) == {"p1", "p2"}


def test_the_old_and_the_new_name_of_a_metric_count_alike_and_once(source, engines):
    engines["d1"].gauges["vllm:gpu_cache_usage_perc"] = 0.9
    window = look_until(source, lambda w: len(w.prefill.by_pod) == 2 and len(w.decode.by_pod) == 1)

    usage = {**window.prefill.by_pod, **window.decode.by_pod}
    assert {pod: values["kv_usage"] for pod, values in usage.items()} == {"p1": 0.25, "p2": 0.25, "d1": 0.25}
    sglang = collect_window(replace(source, engine="SGLang"), GROUPS, 0.0)
    assert sglang.reason() is Reason.SIGNAL_MISSING
    assert "sglang:num_requests_total or sglang:prompt_tokens_histogram_count" in sglang.lost()


def test_a_counter_that_stands_still_is_no_load_and_a_restart_is_no_negative_one(source, engines):
    for engine in engines.values():
        engine.serve(900)
    still = look_until(source, lambda w: w.arrivals.known)
    assert still.arrivals.get() == 0.0
    assert still.lost() == ""

    engines["p1"].restart()
    engines["p1"].serve(3)
    after = look_until(source, lambda w: w.arrivals.known and w.arrivals.get() > 0)
    assert 0 < after.arrivals.get() < 10


def test_one_pod_that_cannot_be_scraped_leaves_the_rest(source, engines):
    look_until(source, lambda w: len(w.prefill.by_pod) == 2)
    engines["p2"].broken = True
    with traffic(engines.values()):
        window = look_until(source, lambda w: w.prefill.silent == 1 and w.arrivals.otherwise(0) > 5)

    assert window.prefill.unseen_factor == 2.0
    assert any("1 of 2 pods give no metrics" in warning for warning in window.warnings)


def test_a_window_shorter_than_the_scrape_interval_is_widened_and_said(source, engines):
    with traffic(engines.values()):
        look_until(source, lambda w: not w.lost() and w.arrivals.get() > 5)
        window = look_until(
            replace(source, window=0.6), lambda w: w.seconds > 1 and not w.lost() and w.arrivals.get() > 0
        )

    assert window.round_trips == 3
    assert any("fewer than two scrapes" in warning for warning in window.warnings)


def test_series_without_a_pod_count_for_a_pool_without_living_pods(source):
    window = look_until(source, lambda w: not w.error, groups=(GroupTarget("p", "Prefill", (), "ns"),))

    assert "no pod of a prefill group is alive" in window.lost()
