"""The demo is a test: it passes as it is, and fails at the right step when it is broken on purpose."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


def demo(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Run `make demo`'s program; its exit code and its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.demo", "--output", "json", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    sys.stderr.write(done.stderr)
    return done.returncode, json.loads(done.stdout)


def step(said: dict[str, Any], name: str) -> dict[str, Any]:
    """One step of the report."""
    return next(step for step in said["steps"] if step["name"] == name)


def test_every_step_passes_and_the_report_holds_what_it_rests_on():
    code, said = demo()

    assert [step["state"] for step in said["steps"]] == ["PASS"] * 4
    assert code == 0
    facts = step(said, "transfer")["facts"]
    assert facts["tokens"] == facts["tokens_alone"]
    assert len(set(facts["tokens"])) > 4
    assert facts["bytes"] == 12 * 2 * 4 * 509 * 64 * 2
    assert len(facts["sha256"]) == 64
    ratios = [entry["ratio"] for entry in step(said, "ratio")["facts"]["ratios"]]
    assert ratios[:2] == ["1:2", "1:4"]
    assert not {"1:2", "1:4"} & set(ratios[2:4])
    assert ratios[4] == "1:2"
    assert all(decision["reason"] for decision in said["decisions"])
    demanded = [decision for decision in said["decisions"] if decision["reason"] == "Demand"]
    assert len(demanded) >= 3
    assert all("promptTokensMean" in decision["inputs"] for decision in demanded)


@pytest.mark.parametrize(
    ("broken", "fails", "because"),
    [
        ("swap-heads", "transfer", "digest-mismatch"),
        ("drop-chunk", "transfer", "digest-mismatch"),
        ("stale-epoch", "restart", "StaleEpochError"),
        ("no-metrics", "ratio", "MetricsAvailable=False"),
    ],
)
def test_what_is_broken_on_purpose_fails_at_its_step(broken: str, fails: str, because: str):
    steps = "apply,restart" if fails == "restart" else f"apply,{fails}"

    code, said = demo("--break", broken, "--steps", steps)

    assert code == 1
    assert [step["state"] for step in said["steps"]] == ["PASS", "FAIL"]
    assert because in step(said, fails)["detail"]
