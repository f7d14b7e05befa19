"""Alerts and dashboard speak of metrics that exist, and the alerts fire when they should and only then."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import yaml

from hawk_agent.metrics import AgentMetrics
from hawk_operator.runtime.metrics import Metrics as OperatorMetrics
from hawk_operator.trust import TrustMetrics
from tests.cluster.prometheus import find_prometheus
from tests.support.errors import MissingToolError
from tests.support.progress import Silent

from .release import CHART, named

pytestmark = pytest.mark.cluster

TARGET_LABELS = {"instance", "job", "le"}


def metrics():
    """Every series name with its labels, as the code declares them."""
    operator, agent = OperatorMetrics(), AgentMetrics()
    TrustMetrics(operator.registry)
    suffixes = {
        "counter": ("_total",),
        "gauge": ("",),
        "histogram": ("_bucket", "_sum", "_count"),
    }
    found = {}
    for registry in (operator.registry, agent.registry):
        for collector in registry._collector_to_names:
            for family in collector.describe():
                for suffix in suffixes[family.type]:
                    found[family.name + suffix] = set(collector._labelnames)
    return found


def expressions():
    alerts = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    for group in alerts["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


def dashboard():
    return json.loads((CHART / "files" / "dashboard.json").read_text())


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_every_metric_and_label_exists_in_the_code(where, expression):
    known = metrics()
    used = re.findall(r"(hawk_\w+)(?:\{([^}]*)\})?", expression)

    assert used
    for name, matchers in used:
        assert name in known, f"{where}: no metric {name}"
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert labels <= known[name] | TARGET_LABELS, f"{where}: {name} has no {labels - known[name]}"
    grouped = {
        label.strip()
        for words in re.findall(r"\b(?:by|on|ignoring)\s*\(([^)]*)\)", expression)
        for label in words.split(",")
        if label.strip()
    }
    everywhere = set.union(*(known[name] for name, _ in used))
    assert grouped <= everywhere | TARGET_LABELS, f"{where}: nothing has {grouped - everywhere}"


def test_every_legend_names_a_label_that_its_expression_keeps():
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            kept = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            known = {word.strip() for words in kept for word in words.split(",")}
            (name, *_) = re.findall(r"hawk_\w+", target["expr"])
            assert labels <= (known or metrics()[name]), panel["title"]


@pytest.fixture(scope="module")
def promtool():
    try:
        tool = find_prometheus(Silent()).parent / "promtool"
    except MissingToolError as error:
        pytest.skip(f"missing tool: {error}")
    if not tool.exists():
        pytest.skip(f"missing tool: promtool beside {tool.parent}/prometheus")
    return tool


LEADER = 'job="operator", instance="a"'
LISTS = f'hawk_operator_lists_total{{{LEADER}, outcome="success"}}'
POOL = 'namespace="n", pool="p"'
READY = f'hawk_operator_pool_condition{{{POOL}, type="Ready", status="True"}}'
BLIND = f'hawk_operator_pool_condition{{{POOL}, type="MetricsAvailable", status="False"}}'
DESIRED = f'hawk_operator_pool_replicas{{{POOL}, group="g", role="Decode", state="desired"}}'
CAPACITY = DESIRED.replace("desired", "capacity")

HEALTHY = {
    'hawk_operator_leading{job="operator", instance="a"}': "1+0x120",
    'hawk_operator_leading{job="operator", instance="b"}': "0+0x120",
    LISTS: "0+2x120",
    f"hawk_operator_watch_restarts_total{{{LEADER}}}": "5+0x120",
    'hawk_operator_reconciles_total{kind="pool", outcome="success"}': "0+5x120",
    'hawk_operator_reconciles_total{kind="pool", outcome="error"}': "3+0x120",
    "hawk_operator_api_throttled_total": "7+0x120",
    READY: "1+0x120",
    BLIND: "0+0x120",
    DESIRED: "4+0x120",
    CAPACITY: "4+0x120",
    'hawk_agent_transfers_total{side="send", outcome="success"}': "0+1000x120",
    'hawk_agent_transfers_failed_total{side="send", reason="cancelled"}': "0+1x120",
    'hawk_agent_links{instance="x", state="verified"}': "8+0x120",
    'hawk_agent_links{instance="x", state="down"}': "0+0x120",
    'hawk_agent_links{instance="x", state="refused"}': "0+0x120",
    'hawk_agent_grace_near_total{instance="x"}': "2+0x120",
    "hawk_operator_trust_errors_total": "3+0x120",
    'hawk_operator_trust_requests_total{outcome="Signed"}': "0+1x120",
    'hawk_operator_trust_requests_total{outcome="NotItsOwnName"}': "1+0x120",
    "hawk_operator_trust_authority_expiry_timestamp_seconds": f"{60 * 86_400}+0x120",
}
"""Two hours of a fleet with old mistakes and no present ones, a value a minute."""

BROKEN = {
    "HawkOperatorLeaderless": {'hawk_operator_leading{job="operator", instance="a"}': "0+0x120"},
    "HawkOperatorStuck": {LISTS: "9+0x120"},
    "HawkWatchesRestart": {f"hawk_operator_watch_restarts_total{{{LEADER}}}": "0+1x120"},
    "HawkReconcilesFail": {'hawk_operator_reconciles_total{kind="pool", outcome="error"}': "0+1x120"},
    "HawkApiThrottled": {"hawk_operator_api_throttled_total": "0+60x120"},
    "HawkPoolNotReady": {READY: "0+0x120"},
    "HawkPoolWithoutMetrics": {BLIND: "1+0x120"},
    "HawkPoolShortOfReplicas": {CAPACITY: "3+0x120"},
    "HawkTransfersFail": {'hawk_agent_transfers_failed_total{side="send", reason="cancelled"}': "0+20x120"},
    "HawkLinksDown": {'hawk_agent_links{instance="x", state="down"}': "2+0x120"},
    "HawkGraceTooShort": {'hawk_agent_grace_near_total{instance="x"}': "0+1x120"},
    "HawkCertificatesNotSigned": {"hawk_operator_trust_errors_total": "0+15x120"},
    "HawkCertificatesRefused": {'hawk_operator_trust_requests_total{outcome="NotItsOwnName"}': "0+1x120"},
    "HawkAuthorityEnds": {"hawk_operator_trust_authority_expiry_timestamp_seconds": f"{20 * 86_400}+0x120"},
}


def firing(promtool, tmp_path, series):
    """Names of the alerts that fire after two hours, told by Prometheus' own rule engine."""
    names = [rule["alert"] for group in rules()["groups"] for rule in group["rules"]]
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        # Asked for without expectations: what fires is then in the complaint, and what does not is silent.
        "alert_rule_test": [{"eval_time": "2h", "alertname": name, "exp_alerts": []} for name in names],
    }
    file = tmp_path / "case.yaml"
    alerts = str(CHART / "files" / "alerts.yaml")
    file.write_text(yaml.safe_dump({"rule_files": [alerts], "evaluation_interval": "1m", "tests": [case]}))
    done = subprocess.run(
        [promtool, "test", "rules", file], capture_output=True, text=True, timeout=60, check=False
    )
    said = done.stdout + done.stderr
    fired = set(re.findall(r"alertname: (\w+), time", said))
    assert done.returncode == (1 if fired else 0), said
    return fired


def rules():
    return yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())


def test_no_alert_fires_in_a_healthy_fleet(promtool, tmp_path):
    assert firing(promtool, tmp_path, HEALTHY) == set()


@pytest.mark.parametrize("alert", BROKEN)
def test_an_alert_fires_for_what_it_is_there_for_and_no_other_does(promtool, tmp_path, alert):
    assert set(BROKEN[alert]) <= set(HEALTHY)

    assert firing(promtool, tmp_path, HEALTHY | BROKEN[alert]) == {alert}


def test_every_alert_has_such_a_case():
    assert {rule["alert"] for group in rules()["groups"] for rule in group["rules"]} == set(BROKEN)


def test_with_no_operator_at_all_it_is_leaderless(promtool, tmp_path):
    gone = {name: values for name, values in HEALTHY.items() if "operator" not in name}

    assert firing(promtool, tmp_path, gone) == {"HawkOperatorLeaderless"}


def test_the_chart_carries_both_whole(render):
    objects = render(
        "--set=monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true",
        "--set=monitoring.prometheusRule.labels.team=llm",
    )

    (rule,) = named(objects, "PrometheusRule").values()
    assert rule["spec"] == rules()
    assert rule["metadata"]["labels"]["team"] == "llm"
    carried = named(objects, "ConfigMap")["hawk-dashboard"]
    assert json.loads(carried["data"]["hawkpool.json"]) == dashboard()
    assert carried["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_each_component_is_scraped_where_it_listens(render):
    objects = render("--set=monitoring.serviceMonitor.enabled=true")

    for name, (kind, port) in {
        "hawk-operator": ("Deployment", 8080),
        "hawk-agent": ("DaemonSet", 9400),
    }.items():
        monitor, service = named(objects, "ServiceMonitor")[name], named(objects, "Service")[name]
        template = named(objects, kind)[name]["spec"]["template"]
        (container,) = template["spec"]["containers"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        (ours,) = service["spec"]["ports"]
        assert ours["name"] == monitor["spec"]["endpoints"][0]["port"]
        ports = {entry["name"]: entry["containerPort"] for entry in container["ports"]}
        assert ports[ours["targetPort"]] == port
        assert monitor["spec"]["endpoints"][0]["honorLabels"] is True
