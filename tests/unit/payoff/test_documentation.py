"""The page on pay-off shows the program's own output."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from .cli import runner

PAGE = Path(__file__).parents[3] / "docs" / "payoff.md"
BLOCKS = re.findall(r"```console\n\$ hawk ([^\n]*)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_has_examples() -> None:
    assert len(BLOCKS) >= 8


@pytest.mark.parametrize(("command", "shown"), BLOCKS)
def test_shown_output_is_printed(capsys: pytest.CaptureFixture[str], command: str, shown: str) -> None:
    code, out, _ = runner(capsys)(*shlex.split(command))
    printed = {" ".join(line.split()) for line in out.splitlines()}
    assert code == 0
    assert shown.strip()
    for line in shown.splitlines():
        assert " ".join(line.split()) in printed


def test_rows_of_the_rails_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Each cell of the table of exposed times, computed again by the command."""
    rows = re.findall(r"^\| (\d) \| ([\d.]+) ms \| ([\d.]*)(?: ms)? ?\|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 5
    for rails, sixteen, single in rows:
        for layers, exposed in ((16, sixteen), (1, single)):
            if not exposed:
                continue
            words = f"payoff pipeline --model llama-3.3-70b --rails {rails} --chunk-layers {layers}"
            compute = f"--compute-ms-per-chunk {18.2 * layers / 16}"
            _, out, _ = runner(capsys)(*f"{words} {compute}".split())
            found = re.search(r"exposed_ms\s+([\d.]+)", out)
            assert found is not None
            assert float(found[1]) == pytest.approx(float(exposed), abs=6e-3)
