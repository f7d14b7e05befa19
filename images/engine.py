"""The container engine that runs here, if one does."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ENGINES = ("docker", "podman", "buildah")
ANSWER_SECONDS = 20.0
BUILD_SECONDS = 1800.0


def running() -> str:
    """Return the first engine that answers; "" where none does."""
    for name in ENGINES:
        if not shutil.which(name):
            continue
        try:
            done = subprocess.run([name, "info"], capture_output=True, timeout=ANSWER_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0:
            return name
    return ""


def build(engine: str, component: str, name: str, root: Path) -> None:
    """Build the image of a component out of the clone `root`; CalledProcessError where the engine fails."""
    file = root / "images" / component / "Containerfile"
    words = [engine, "build", "--file", file, "--tag", name, root]
    subprocess.run(words, check=True, timeout=BUILD_SECONDS)
