"""Processes that report in their log when they are ready."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


@contextlib.contextmanager
def running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], *, until: str
) -> Iterator[str]:
    """Run a process in a folder; yields its log when a line has the words, and ends it afterwards."""
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield _read(process, until)
        finally:
            process.terminate()
            process.communicate()


def _read(process: subprocess.Popen[str], until: str) -> str:
    assert process.stderr is not None
    log = ""
    for line in process.stderr:
        log += line
        if until in line:
            return log
    raise AssertionError(f"ended without {until!r}:\n{log}")
