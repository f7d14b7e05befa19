"""Other transfer engines, each in an environment of its own that is made on first use.

A baseline moves the same bytes between two processes of its own, and leaves them as they are, or has them
translated on arrival by this package's C kernel or by numpy. The comparison is on its terms: its best
set-up, one large descriptor, and no bytes checked while the clock runs.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import hawk_agent
import hawk_cli
from hawk_cli.bench.baselines import libraries
from hawk_cli.bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_INSTALL_SECONDS = 900
_ANSWER_SECONDS = 120


@dataclass(frozen=True, slots=True)
class _Recipe:
    packages: tuple[str, ...]
    module: str
    libraries: tuple[str, ...] = ()  # of the system, in packages of this name


_RECIPES: Mapping[str, _Recipe] = {
    "nixl": _Recipe(("nixl-cu12==1.5.1",), "hawk_cli.bench.baselines.nixl"),
    "mooncake": _Recipe(
        ("mooncake-transfer-engine-non-cuda==0.3.13",), "hawk_cli.bench.baselines.mooncake", ("libibverbs1",)
    ),
}
BASELINES = tuple(_RECIPES)
"""The baselines that can be measured, by name."""


class Baseline:
    """A running baseline: `modes` maps the suffix of a case's name to what the baseline is asked for."""

    modes: Mapping[str, str] = {"": "plain", "_transposed": "kernel", "_numpy": "numpy"}

    def __init__(self, name: str, process: subprocess.Popen[str], log: IO[str]) -> None:
        self._name, self._process, self._log = name, process, log

    def transfer(self, mode: str) -> float:
        """Seconds of one transfer, from its start to the moment the target has seen its end."""
        self._pipe(self._process.stdin).write(f"{mode}\n")
        self._pipe(self._process.stdin).flush()
        return float(self.answer()["seconds"])

    def answer(self) -> dict[str, Any]:
        """The next answer of the baseline's process.

        Raises:
            BenchError: it ended, stayed silent, or moved wrong bytes.
        """
        deadline = time.monotonic() + _ANSWER_SECONDS
        out = self._pipe(self._process.stdout)
        while time.monotonic() < deadline:
            ready, _, _ = select.select([out], [], [], 1)
            if ready:
                line = out.readline()
                if line.startswith("{"):
                    found: dict[str, Any] = json.loads(line)
                    if "error" in found:
                        raise BenchError(f"baseline {self._name}: {found['error']}")
                    return found
                if not line:
                    break
            if self._process.poll() is not None:
                break
        raise BenchError(f"baseline {self._name}: it doesn't run here: {self._last_words()}")

    def _last_words(self) -> str:
        self._log.seek(0)
        said = [line.strip() for line in self._log if line.strip()]
        return said[-1] if said else f"no answer within {_ANSWER_SECONDS} s"

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None  # both were asked for
        return pipe


@contextmanager
def baseline(name: str, mebibytes: int) -> Iterator[Baseline]:
    """Start a baseline, installing it first if need be; it is stopped on the way out.

    Raises:
        BenchError: unknown, not installable, or not able to run here.
    """
    if name not in _RECIPES:
        raise BenchError(f"baseline: {name!r} isn't known; use one of {', '.join(BASELINES)}")
    python = environment(name)
    roots = dict.fromkeys(str(Path(package.__file__ or "").parents[1]) for package in (hawk_agent, hawk_cli))
    extra = libraries.found(_RECIPES[name].libraries, _cache())
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [python, "-m", _RECIPES[name].module, str(mebibytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            bufsize=1,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(roots),
                **extra,
            },
        )
        try:
            running = Baseline(name, process, log)
            running.answer()
            yield running
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _cache() -> Path:
    """Where baselines are kept: outside the project, for all of its clones."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("HAWK_CACHE") or Path(base) / "hawkpool") / "baselines"


def environment(name: str) -> Path:
    """The baseline's interpreter, in a cache outside the project."""
    home = _cache() / f"{name}-{sys.version_info[0]}.{sys.version_info[1]}"
    python = home / "bin" / "python"
    if (home / ".complete").exists():
        return python
    print(f"==> installing {name} into {home} (once, a few minutes)", file=sys.stderr)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True, timeout=_INSTALL_SECONDS)
        subprocess.run([*pip, "numpy"], check=True, timeout=_INSTALL_SECONDS)
        subprocess.run([*pip, "--no-deps", *_RECIPES[name].packages], check=True, timeout=_INSTALL_SECONDS)
    except (subprocess.SubprocessError, OSError) as error:
        raise BenchError(
            f"baseline {name}: can't be installed ({error}); is a package index reachable?"
        ) from error
    (home / ".complete").touch()
    return python
