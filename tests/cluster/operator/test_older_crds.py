"""An operator and an agent that are newer than the cluster's CRDs: an upgrade that is half done."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hawk_api.fitting import without
from tests.cluster.fixtures import ROOT
from tests.support.ports import Ports
from tests.support.waiting import until

from .running import Running, command, pool, wait_condition

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.support.supervisor import Supervisor

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

LACKING = {
    "HawkPool": {"properties.status.properties.decisions.items.properties.observed"},
    "HawkNode": {"properties.spec.properties.pools", "properties.status.properties.rails"},
    "AcceleratorClass": set[str](),
}
"""Fields of this release that an earlier one may not have had, where they are in the schemas."""


def older(body: dict[str, Any]) -> dict[str, Any]:
    """A CRD without them."""
    [version] = body["spec"]["versions"]
    lacking = LACKING[body["spec"]["names"]["kind"]]
    schema = without(version["schema"]["openAPIV3Schema"], lacking)
    versions = [{**version, "schema": {"openAPIV3Schema": schema}}]
    return {**body, "spec": {**body["spec"], "versions": versions}}


def crds() -> list[dict[str, Any]]:
    files = sorted((ROOT / "crds" / "hawk_api" / "crds").glob("*.yaml"))
    return [yaml.safe_load(file.read_text()) for file in files]


def test_an_operator_and_an_agent_serve_under_older_crds_and_use_the_new_ones_when_they_come(
    bare_plane: Cluster, processes: Supervisor
) -> None:
    cluster, namespace = bare_plane, "default"
    cluster.apply(*map(older, crds()))
    cluster.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=120s")
    served = cluster.get("crd", "hawknodes.hawkpool.dev")["spec"]["versions"][0]["schema"]
    assert "pools" not in served["openAPIV3Schema"]["properties"]["spec"]["properties"]
    node = cluster.node()
    agent = [sys.executable, "-m", "hawk_agent.main", "--node", node, "--insecure", "--kube"]
    agent += ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--system-namespace", namespace]
    agent += ["--socket", str(processes.folder / "agent.sock")]
    environment = {"KUBECONFIG": str(cluster.kubeconfig)}
    processes.spawn(agent, name="agent", env=environment)
    with Ports() as ports:
        port = ports.reserve()
        log = processes.folder / "operator.log"
        process = processes.spawn(command(namespace, port), name="operator", log=log, env=environment)
        running = Running(process, port, log)
        until(running.leads, what="the operator to lead")
        cluster.apply(pool("llama", namespace, scaling={"interval": "1s"}))
        wait_condition(cluster, namespace, "llama", "DevicesReady", status="True", reason="AsExpected")
        until(
            lambda: cluster.get("hawknode", node).get("status", {}).get("epoch"),
            what="the agent's status",
        )
        assert "lacks status.decisions[].observed" in running.text()
        assert running.metric("hawk_operator_reconciles_total", outcome="error") == 0
        until(lambda: rests(running), what="looks that write nothing", interval=0)


def rests(running: Running) -> bool:
    """True if five looks at pools go by without a write: what can't be stored isn't tried again."""

    def looks() -> float:
        return running.metric("hawk_operator_reconciles_total", kind="pool")

    begun, writes = looks(), running.metric("hawk_operator_writes_total")
    until(lambda: looks() >= begun + 5, what="five more looks")
    return running.metric("hawk_operator_writes_total") == writes
