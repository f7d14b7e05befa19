"""The demo over verbs is a test: it passes, controls included, in the guest that the other tests have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Port

ROOT = Path(__file__).parents[2]
SECONDS = 1200.0


@pytest.mark.timeout(SECONDS + 60)
def test_every_step_passes(rdma_pair: tuple[Port, Port]) -> None:
    del rdma_pair  # the demo finds the same two ends by the environment
    done = subprocess.run(
        [sys.executable, "-m", "tests.rdma.demo", "--output", "json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    steps = {step["name"]: step for step in json.loads(done.stdout)["steps"]}
    assert [step["state"] for step in steps.values()] == ["PASS"] * 4
    facts = steps["transfer"]["facts"]
    assert facts["transport"] == "verbs"
    assert facts["tokens"] == facts["tokens_alone"]
    assert len(set(facts["tokens"])) > 4
