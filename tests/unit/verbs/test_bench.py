"""hawk bench verbs prints what scripts read."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from hawk_agent.transports.verbs.library import native
from hawk_cli.commands import bench


@pytest.mark.skipif(native is None, reason="missing tool: a C compiler, for the verbs extension")
def test_the_cost_of_a_request_is_printed_with_its_spread():
    done = CliRunner().invoke(bench.app, ["verbs", "--rounds", "2", "--output", "json"])
    answer = json.loads(done.output)

    assert done.exit_code == 0
    assert answer["chain"] == 64
    assert answer["pieces_per_request"] == 32
    for key in ("post_us_per_request", "numpy_us_per_request", "post_over_numpy"):
        low, high = answer[f"{key}_spread"]
        assert 0 < low <= answer[key] <= high
