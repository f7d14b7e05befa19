"""`collect` on answers, outages and nonsense."""

from __future__ import annotations

import math
import socket
import time

import pytest

from hawk_api.reasons import Reason
from hawk_operator.traffic.collect import collect_window
from hawk_operator.traffic.source import GroupTarget, Source
from hawk_planner.traffic import State
from hawk_planner.traffic.bins import Bin
from tests.unit.traffic.fake import Hang, Trickle, series, store

GROUPS = (
    GroupTarget("prefill", "Prefill", ("p1", "p2"), "ns"),
    GroupTarget("decode", "Decode", ("d1",), "ns"),
)


def load(rate: object = "4", **extra: object) -> list[dict[str, object]]:
    """A full answer: prompts of 1,000 tokens, outputs of 100."""
    found = [series("prefill/arrivals", rate)]
    for side, signal, mean, edge in (
        ("prefill", "prompt_tokens", 1000, "2000"),
        ("decode", "output_tokens", 100, "200"),
    ):
        found += [
            series(f"{side}/{signal}/bucket", extra.get(signal, "4"), le=edge),
            series(f"{side}/{signal}/bucket", extra.get(signal, "4"), le="+Inf"),
            series(f"{side}/{signal}/sum", extra.get(signal, str(4 * mean))),
            series(f"{side}/{signal}/count", extra.get(signal, "4")),
        ]
    return found


def look(answer, **source):
    with store(lambda _: answer) as url:
        return collect_window(Source(url, **source), GROUPS, 100.0)


def test_a_full_answer_is_read_with_its_means():
    window = look(load())

    assert window.arrivals.get() == 4.0
    assert window.prefill.prompt.get().mean == pytest.approx(1000)
    assert window.decode.output.get().mean == pytest.approx(100)
    assert (window.lost(), window.reason(), window.time) == ("", Reason.METRICS_FRESH, 100.0)
    assert window.round_trips == 2


def test_the_last_hour_comes_in_bins_and_an_hour_that_cannot_be_read_costs_nothing_else():
    def answer(query: str) -> object:
        if "[3600000ms:30000ms]" not in query:
            return load()
        return [
            {"metric": {"hawk_signal": "bins/requests"}, "values": [[30, "1"], [60, "NaN"], [90, "5"]]},
            {"metric": {"hawk_signal": "bins/prompt_tokens"}, "values": [[30, "900"], [90, "4000"]]},
        ]

    with store(answer) as url:
        whole = collect_window(Source(url), GROUPS, 0.0)
    with store(lambda query: 503 if "3600000ms" in query else load()) as url:
        without = collect_window(Source(url), GROUPS, 0.0)

    assert whole.bins == (Bin(1.0, 900.0, 0.0), Bin(5.0, 4000.0, 0.0))
    assert (without.bins, without.lost(), without.arrivals.get()) == ((), "", 4.0)
    assert not without.burstiness.known


def test_late_requests_are_read_from_the_users_query_only():
    def answer(query: str) -> object:
        return [series("", "0.25")] if query == "router_late" else load()

    with store(answer) as url:
        told = collect_window(Source(url, queries={"late": "router_late"}), GROUPS, 0.0)

    assert told.prefill.late.get() == 0.25
    assert look(load()).prefill.late.state is State.MISSING


def test_no_series_zero_and_outage_are_three_things():
    empty, zero, broken = look([]), look([series("prefill/arrivals", "0")]), look(503)

    assert empty.arrivals.state is State.MISSING
    assert empty.reason() is Reason.SIGNAL_MISSING
    assert "vllm:request_prompt_tokens_count" in empty.lost()
    assert zero.arrivals.get() == 0.0
    assert zero.lost() == ""
    assert broken.reason() is Reason.QUERY_FAILED
    assert "503" in broken.lost()


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf", "1e309", "", "many", None, "-3"])
def test_what_is_no_number_of_requests_is_never_taken_for_one(text):
    window = look(load(rate=text))

    assert not window.arrivals.known
    assert window.reason() is not Reason.METRICS_FRESH


@pytest.mark.parametrize(("text", "expected"), [("-0", 0.0), ("0.5", 0.5), ("1e2", 100.0)])
def test_odd_spellings_of_numbers_are_read(text, expected):
    window = look(load(rate=text))

    assert math.copysign(1, window.arrivals.get()) == 1.0
    assert window.arrivals.get() == expected


def test_means_over_no_requests_matter_only_while_requests_come():
    idle = look(load(rate="0", prompt_tokens="NaN", output_tokens="NaN"))
    busy = look(load(rate="2", prompt_tokens="NaN"))

    assert idle.lost() == ""
    assert busy.reason() is Reason.SIGNAL_NOT_A_NUMBER
    assert "prompt" in busy.lost()


def test_a_stale_sample_is_not_a_value():
    window = look([*load(), series("prefill/age", "200"), series("decode/age", "1")])

    assert window.reason() is Reason.SIGNAL_STALE
    assert "200 s old" in window.lost()


@pytest.mark.parametrize(("age", "fresh"), [("100", True), ("130", False), ("400", False)])
def test_a_wider_window_is_for_slow_scrapes_and_not_for_a_scraper_that_stopped(age, fresh):
    def answer(query: str) -> object:
        wide = "[240000ms]" in query
        alive = [series("prefill/running", "3", pod="p1"), series("prefill/samples", "2" if wide else "1")]
        return [*alive, *load(), series("prefill/age", age)] if wide else alive

    with store(answer) as url:
        window = collect_window(Source(url, window=60.0), GROUPS, 1000.0)

    assert window.seconds == 240.0
    assert any("fewer than two scrapes; used 240 s" in warning for warning in window.warnings)
    assert window.arrivals.known == fresh
    assert fresh or f"{age} s old" in window.lost()


def test_a_percentage_of_kv_is_read_as_one_and_said():
    window = look([*load(), series("decode/kv_usage", "43", pod="d1")])

    assert window.decode.kv_usage.get() == pytest.approx(0.43)
    assert any("percentage" in warning for warning in window.warnings)


def test_a_silent_pod_is_counted_and_the_rest_is_read():
    window = look([*load(), series("prefill/running", "3", pod="p1")])

    assert (window.prefill.living, window.prefill.silent) == (2, 1)
    assert window.prefill.unseen_factor == 2.0
    assert window.arrivals.get() == 4.0


@pytest.mark.parametrize("answer", [Hang, Trickle])
def test_a_slow_store_costs_no_more_than_the_time_out(answer):
    began = time.monotonic()
    window = look(answer, timeout=0.3)

    assert time.monotonic() - began < 10
    assert window.reason() is Reason.PROMETHEUS_UNREACHABLE
    assert "http://127.0.0.1:" in window.lost()
    assert "0.3 s" in window.lost()


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b"{}", b'{"data": {"result": [{"metric": {}}]}}', b"7"]
)
def test_what_isnt_prometheus_is_named(body):
    window = look(body)

    assert "http://127.0.0.1:" in window.lost()
    assert window.reason() is not Reason.METRICS_FRESH


def test_a_refused_connection_and_an_unknown_host_name_the_url():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        refused = collect_window(Source(f"http://127.0.0.1:{port}"), GROUPS, 0.0)
    unknown = collect_window(Source("http://prometheus.invalid:9090", timeout=2), GROUPS, 0.0)

    assert refused.lost() == f"http://127.0.0.1:{port}: connection refused"
    assert "http://prometheus.invalid:9090" in unknown.lost()
    assert refused.reason() is unknown.reason() is Reason.PROMETHEUS_UNREACHABLE


def test_a_wrong_query_of_the_user_spoils_only_its_signal():
    def answer(query: str) -> object:
        return 400 if query == "sum(" else load()

    with store(answer) as url:
        window = collect_window(Source(url, queries={"arrivals": "sum("}), GROUPS, 0.0)

    assert window.arrivals.state is State.FAILED
    assert "query arrivals" in window.lost()
    assert window.prefill.prompt.known


def test_a_query_of_the_user_may_give_a_plain_number():
    def answer(query: str) -> object:
        return [series("", "7000")] if query == "mean_prompt" else load()

    with store(answer) as url:
        window = collect_window(Source(url, queries={"prompt_tokens": "mean_prompt"}), GROUPS, 0.0)

    assert window.prefill.prompt.get().mean == 7000
    assert window.prefill.prompt.get().quantile(0.99) == 7000


@pytest.mark.parametrize(("rate", "known"), [("2.5e10", True), ("NaN", False), ("0", False), ("fast", False)])
def test_measured_transfers_are_read_and_nonsense_is_not_a_rate(rate, known):
    window = look([*load(), series("link/rate", rate)])

    assert window.link.otherwise(None) == (2.5e10 if known else None)
    assert window.lost() == ""


def test_without_transfers_there_is_no_rate():
    window = look(load())

    assert not window.link.known
    assert "the agents counted no transfers" in window.link.detail
