"""Docstrings say the thing itself: none begins with What or Whether."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
FOLDERS = ("crds", "operator", "agents", "tests", "docs", "charts")
INDIRECT = re.compile(r"\s*(What|Whether)\b")


def indirect(path: Path) -> Iterator[str]:
    """Every text that stands as a statement, which is where docstrings of fields are, too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str) and INDIRECT.match(text):
                yield f"{path}:{node.lineno}: {text.splitlines()[0]}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_docstring_begins_with_what_or_whether(folder: str) -> None:
    paths = [path for path in (ROOT / folder).rglob("*.py") if not path.name.endswith("_pb2_grpc.py")]
    assert [found for path in paths for found in indirect(path)] == []


@pytest.mark.parametrize("begin", ["What it is.", "Whether it is.", "\n    What it is."])
def test_one_that_does_is_found(tmp_path: Path, begin: str) -> None:
    (tmp_path / "module.py").write_text(f'field = 1\n"""{begin}"""\n')
    assert list(indirect(tmp_path / "module.py"))
