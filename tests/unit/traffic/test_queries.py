"""The product's queries: the living pods, all names of a metric, durations that PromQL reads."""

from __future__ import annotations

import pytest

from hawk_api.v1alpha1.scaling import TrafficSpec
from hawk_operator.traffic import queries
from hawk_operator.traffic.source import GroupTarget, Source, label_matchers


def test_only_living_pods_and_series_without_a_pod_match():
    groups = [GroupTarget("a", "Prefill", ("p-1", "p.2"), "ns"), GroupTarget("b", "Both", ("q",), "ns")]

    assert label_matchers(Source("http://x", selector='model_name="m",'), groups) == (
        '{model_name="m",namespace=~"ns|",pod=~"p-1|p\\\\.2|q|"}',
    )


def test_groups_with_their_own_selector_are_matched_apart():
    groups = [
        GroupTarget("a", "Decode", ("d",), "ns", 'engine="0"'),
        GroupTarget("b", "Decode", None, None, 'engine="1"'),
    ]

    assert label_matchers(Source("http://x"), groups) == (
        '{engine="0",namespace=~"ns|",pod=~"d|"}',
        '{engine="1"}',
    )


def test_a_renamed_metric_is_asked_by_both_names_without_double_count():
    query = queries.build_queries(Source("http://x"), [GroupTarget("d", "Decode", ("d1",))], 60)

    assert "vllm:kv_cache_usage_perc" in query
    assert "vllm:gpu_cache_usage_perc" in query
    assert "unless on (pod, instance)" in query


def test_a_colon_that_openmetrics_made_an_underscore_is_asked_for_as_well():
    query = queries.build_queries(Source("http://x"), [GroupTarget("d", "Decode", ("d1",))], 60)

    assert "vllm:num_requests_running" in query
    assert "vllm_num_requests_running" in query


def test_the_history_counts_the_predecessors_of_living_pods():
    query = queries.history_query(
        Source("http://x"),
        [GroupTarget("p", "Prefill", ("a-p-0", "lone")), GroupTarget("d", "Decode", ("a-d-7c9-x2",))],
        30.0,
    )

    assert 'pod=~"a-p-[^-]+|lone|"' in query
    assert 'pod=~"a-d-7c9-[^-]+|"' in query
    assert query.endswith("[3600000ms:30000ms]")
    assert not queries.history_query(Source("http://x", queries={"arrivals": "1"}), [], 30.0)


def test_durations_are_whole_milliseconds():
    assert queries.duration(0.25) == "250ms"
    assert "[500ms]" in queries.build_queries(Source("http://x"), [GroupTarget("p", "Prefill")], 0.5)


def test_the_api_spells_request_rate_and_means_arrivals():
    spec = TrafficSpec.model_validate(
        {
            "prometheus": {"url": "http://prometheus:9090", "timeout": "2s"},
            "engine": "SGLang",
            "window": "30s",
            "queries": {"requestRate": "sum(rate(gateway_requests_total[1m]))"},
        }
    )

    source = Source.of(spec)

    assert (source.timeout, source.window, source.engine) == (2.0, 30.0, "SGLang")
    assert source.queries == {"arrivals": "sum(rate(gateway_requests_total[1m]))"}


def test_an_unknown_engine_or_signal_is_refused():
    with pytest.raises(ValueError, match="engine: 'Other'"):
        Source("http://x", engine="Other")
    with pytest.raises(ValueError, match="unknown signal 'speed'"):
        Source("http://x", queries={"speed": "1"})
