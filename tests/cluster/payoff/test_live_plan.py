"""hawk plan --live reads a pool, its classes and its last decision from the API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from hawk_cli.app import main
from tests.unit.payoff.pools import CLASSES, pool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster

DECISION = {
    "time": "2026-01-02T03:04:05Z",
    "reason": "Demand",
    "prefill": 2,
    "decode": 3,
    "inputs": {
        "requestRate": "12.5",
        "promptTokensMean": "1500",
        "outputTokensMean": "200",
        "dispersion": "2",
    },
}


def hawk(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0), *capsys.readouterr()


@pytest.fixture
def running(
    cluster: Cluster, crds: list[str], namespace: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A pool with a decision in its status, on classes of its own."""
    del crds
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    classes = {name: f"{name}-{namespace}" for name in CLASSES}
    spec = pool(prefill=classes["gpu"], decode=classes["npu"]).to_dict()
    head = {"apiVersion": "hawkpool.dev/v1alpha1"}
    bodies = [
        head | {"kind": "AcceleratorClass", "metadata": {"name": classes[name]}, "spec": made.to_dict()}
        for name, made in CLASSES.items()
    ]
    bodies.append(
        head | {"kind": "HawkPool", "metadata": {"name": "llama", "namespace": namespace}, "spec": spec}
    )
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(bodies))
    yield f"{namespace}/llama"
    cluster.kubectl("delete", "acceleratorclasses", *classes.values())


def decide(cluster: Cluster, namespace: str) -> None:
    """Record a decision, as the operator does."""
    patch = json.dumps({"status": {"decisions": [DECISION]}})
    words = ("patch", "hawkpool", "llama", "--namespace", namespace, "--subresource=status", "--type=merge")
    cluster.kubectl(*words, "-p", patch)


def test_a_running_pool_is_priced_by_its_own_traffic(
    cluster: Cluster, running: str, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(cluster, namespace)
    code, out, err = hawk(capsys, "plan", "--live", running, "--output", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    listed = {one["name"]: one for one in found["assumptions"]}
    assert listed["requests_per_second"]["value"] == 12.5
    assert listed["prompt_tokens"]["value"] == 1500
    assert listed["output_tokens"]["value"] == 200
    assert listed["requests_per_second"]["source"].startswith("measured by the pool")
    assert found["recommendation"] is not None


def test_the_recommended_manifest_is_accepted_by_the_api_server(
    cluster: Cluster, running: str, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(cluster, namespace)
    code, out, _ = hawk(capsys, "plan", "--live", running, "--manifest")
    assert code == 0
    applied = cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=out)
    assert "llama" in applied


def test_a_pool_without_traffic_or_that_is_not_there_is_refused(
    running: str, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = hawk(capsys, "plan", "--live", running)
    assert (code, out) == (2, "")
    assert err.startswith("error: status.decisions: none of the 0 kept decisions")
    code, _, err = hawk(capsys, "plan", "--live", f"{namespace}/gone")
    assert code == 2
    assert err.startswith(f"error: --live: {namespace}/gone: ")
