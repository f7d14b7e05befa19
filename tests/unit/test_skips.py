"""No test is skipped in silence: in CI a missing tool fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPS = """
import pytest

def test_lacks_a_tool():
    pytest.skip("missing tool: abacus: buy one")

@pytest.mark.skip("missing tool: slide rule")
def test_lacks_another():
    pass

def test_skips_for_another_reason():
    pytest.skip("not on this architecture")

@pytest.mark.xfail(reason="missing tool, expected")
def test_is_expected_to_fail():
    raise AssertionError
"""
WHOLE = 'import pytest\npytest.skip("missing tool: abacus", allow_module_level=True)\n'


@pytest.mark.parametrize(
    ("ci", "outcome", "code"),
    [("", "4 skipped, 1 xfailed", 0), ("true", "1 failed, 1 skipped, 1 xfailed, 2 errors", 1)],
)
def test_skip_for_a_missing_tool_fails_in_ci_only(tmp_path: Path, ci: str, outcome: str, code: int) -> None:
    (tmp_path / "test_some.py").write_text(SKIPS)
    (tmp_path / "test_whole.py").write_text(WHOLE)
    options = ["-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--continue-on-collection-errors", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert outcome in done.stdout.splitlines()[-1]
    assert done.returncode == code
    for reason in ("abacus: buy one", "slide rule", "not on this architecture"):
        assert reason in done.stdout
