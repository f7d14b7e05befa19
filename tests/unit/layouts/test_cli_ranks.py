"""hawk layout ranks: every head of every destination rank comes once, from a rank that holds it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from hawk_cli.commands.layout import app


@pytest.mark.parametrize(("source", "destination"), [(4, 2), (2, 4), (8, 16), (1, 8)])
def test_every_destination_head_comes_once(source: int, destination: int) -> None:
    words = ["ranks", "--heads", "8", "--source-ranks", str(source), "--destination-ranks", str(destination)]
    done = CliRunner().invoke(app, [*words, "-o", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["exchanges"]
    assert {one["destination_rank"] for one in found} == set(range(destination))
    for rank in range(destination):
        heads = [h for one in found if one["destination_rank"] == rank for h in range(*one["heads"])]
        assert heads == sorted(set(heads))
        assert len(heads) == max(1, 8 // destination)
    assert "window at the source" in CliRunner().invoke(app, words).stdout


def test_ranks_that_do_not_divide_the_heads_are_refused() -> None:
    words = ["ranks", "--heads", "8", "--source-ranks", "3", "--destination-ranks", "2"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "3 ranks for 8 key-value heads" in done.stderr
