"""From measured traffic to replicas: a real Prometheus scrapes pages that the test moves."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.cluster.traffic.engines import Engine, fleet
from tests.support.waiting import until

from .running import group, pool, replicas, wait_condition

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.fixtures import StartPrometheus

    from .conftest import StartOperator

pytestmark = pytest.mark.cluster


def test_replicas_follow_the_traffic_and_hold_when_metrics_are_lost(
    cluster: Cluster, operator: StartOperator, prometheus: StartPrometheus, namespace: str, node: str
) -> None:
    engine = Engine(prompt=4000, output=100)
    stop = threading.Event()
    rate = [40]

    def load() -> None:
        while not stop.wait(0.5):
            engine.serve(rate[0] // 2)

    loader = threading.Thread(target=load)
    with fleet({"gateway": engine}) as port:
        job = {
            "job_name": "engines",
            "metrics_path": "/gateway",
            "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
        }
        server = prometheus(configuration={"scrape_configs": [job]})
        loader.start()
        try:
            operator()
            groups = (
                group("prefill", "Prefill", 1, 12, acceleratorClass="h100-sxm5"),
                group("decode", "Decode", 1, 12, acceleratorClass="h100-sxm5"),
            )
            cluster.apply(
                pool(
                    "llama",
                    namespace,
                    *groups,
                    model={"preset": "llama-3.1-8b"},
                    # Without a TTFT objective nothing is kept for bursts: it shrinks within the test.
                    objectives={"itl": {"percentile": 99, "target": "100ms"}},
                    traffic={"prometheus": {"url": server.url, "timeout": "3s"}, "window": "10s"},
                    scaling={"interval": "1s", "behavior": {"scaleDown": {"stabilizationWindow": "3s"}}},
                    drain={"timeout": "2s"},
                )
            )
            wait_condition(
                cluster,
                namespace,
                "llama",
                "MetricsAvailable",
                status="True",
                reason="MetricsFresh",
            )
            until(lambda: replicas(cluster, namespace)["llama-prefill"] > 3, what="prefill to grow")
            rate[0] = 2
            until(
                lambda: replicas(cluster, namespace)["llama-prefill"] <= 2,
                what="prefill to shrink",
            )
            reasons = {
                item["reason"]
                for item in cluster.get("hawkpool", "llama", "-n", namespace)["status"]["decisions"]
            }
            assert "Demand" in reasons
            held = replicas(cluster, namespace)
            server.stop()
            wait_condition(
                cluster,
                namespace,
                "llama",
                "MetricsAvailable",
                status="False",
                reason="PrometheusUnreachable",
            )
            wait_condition(cluster, namespace, "llama", "Scaling", status="False", reason="MetricsLost")
            assert replicas(cluster, namespace) == held
        finally:
            stop.set()
            loader.join()
