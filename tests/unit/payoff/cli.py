"""Running `hawk` in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hawk_cli.app import main

if TYPE_CHECKING:
    from collections.abc import Callable


def runner(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """A function that runs words and returns exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        out, err = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), out, err

    return run


def answered(run: Callable[..., tuple[int, str, str]], *words: str) -> dict[str, Any]:
    """The JSON that a successful command prints."""
    code, out, err = run(*words, "--output", "json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found
