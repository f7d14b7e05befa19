"""Values are printed for people as they were given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from rich.console import Group

from hawk_cli.support.output import Output, emit_output, rows

from .pools import group, manifest
from .test_cli import hawk

if TYPE_CHECKING:
    from collections.abc import Callable

MARKUP = ("[/x]", "[bold]x", "h s [/Prefill]", "[s1] h s0 d", ":smile:", "rag:100: 3 requests", "\\[a]")
"""Rich's markup: closing tags that nothing opened, tags, emoji, escapes."""


@pytest.mark.parametrize("text", MARKUP)
def test_title_head_cells_and_lines_are_printed_as_they_are(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    emit_output(None, Output.TABLE, lambda: Group(text, rows(text, (text, "#number"), [(text, 1)])))

    assert capsys.readouterr().out.count(text) == 4


@pytest.mark.parametrize("text", MARKUP)
@pytest.mark.parametrize(
    "bad",
    [
        lambda text: manifest(group(text)),
        lambda text: manifest(group(role=text)),
        lambda text: manifest(group(acceleratorClass=text)),
        lambda text: manifest(group(kvLayout={"notation": f"q {text}"})),
        lambda text: {**manifest(), "metadata": {"name": text}},
        lambda text: {**manifest(), "kind": text},
    ],
    ids=["name", "role", "class", "notation", "metadata.name", "kind"],
)
def test_a_finding_shows_what_it_is_about(bad: Callable[[str], dict[str, Any]], text: str) -> None:
    done = hawk("validate", "-", stdin=yaml.safe_dump(bad(text)))

    assert (done.returncode, done.stderr) == (2, "")
    assert repr(text)[1:-1] in " ".join(done.stdout.split())


def test_a_remedy_in_brackets_is_whole() -> None:
    bad = manifest(group(kvLayout={"notation": "h s x"}))
    done = hawk("validate", "-", stdin=yaml.safe_dump(bad))

    assert "such as '[s1] h s0 d'" in " ".join(done.stdout.split())


def test_a_trace_with_a_seed_keeps_its_name() -> None:
    words = "simulate --trace rag --seed 100 --seconds 60 --policy fixed:1:1 --no-oracle"
    done = hawk(*words.split())

    assert done.stdout.startswith("rag:100:"), done.stderr
