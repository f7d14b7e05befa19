"""Build programs from a pinned Go module, once, into the cache."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import cache
from tests.support.supervisor import Supervisor

from .toolchain import find_go

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.support.progress import Progress, Step

    from .toolchain import Go

BUILD_TIMEOUT_SECONDS = 5400.0
POLL_SECONDS = 0.2
DRAFT_PREFIX = ".build."


class BuildError(RuntimeError):
    """Go could not build the programs; the message ends with what Go said."""


@dataclass(frozen=True)
class Recipe:
    """A build: the folder of go.mod and go.sum, each program's package, the flags of `go build`."""

    name: str
    module: Path
    packages: Mapping[str, str]
    flags: Sequence[str]
    cold_cpu_minutes: float
    go_names: Mapping[str, str] = field(default_factory=dict)
    """The file name that `go build -o FOLDER/` gives a program, where it isn't our name for it."""

    def key(self, go: Go) -> str:
        """Return the cache key: it changes with modules, flags, Go version and kind of machine."""
        digest = hashlib.sha256()
        for part in ("go.mod", "go.sum"):
            digest.update((self.module / part).read_bytes())
        digest.update(repr((sorted(self.packages.items()), list(self.flags))).encode())
        return f"{self.name}-go{go.version_text}-{platform.machine()}-{digest.hexdigest()[:16]}"

    def missing(self, folder: Path) -> list[str]:
        """Return the programs that `folder` doesn't hold yet."""
        return [name for name in self.packages if not (folder / name).exists()]


def built(recipe: Recipe, progress: Progress) -> Path:
    """Return the folder that holds the recipe's programs, building those that the cache lacks.

    A build that was cut short goes on where it stopped: finished programs are kept, and so is Go's own cache.
    Raises MissingToolError (no Go) and BuildError.
    """
    go = find_go(recipe.module / "go.mod", progress)
    folder = cache.root() / "bin" / recipe.key(go)
    if recipe.missing(folder):
        with cache.locked(f"build-{recipe.name}", progress.say):
            todo = recipe.missing(folder)
            if todo:
                folder.mkdir(parents=True, exist_ok=True)
                for left in folder.glob(f"{DRAFT_PREFIX}*"):
                    shutil.rmtree(left)
                _build(recipe, go, todo, folder, progress)
                cache.drop_unused(folder.parent, folder)
    os.utime(folder)
    return folder


def _build(recipe: Recipe, go: Go, names: Sequence[str], folder: Path, progress: Progress) -> None:
    wanted = [recipe.packages[name] for name in names]
    tags = [flag for flag in recipe.flags if flag.startswith("-tags=")]
    with progress.step(f"fetching the Go modules of {', '.join(names)}") as step:
        command = ["list", "-mod=readonly", "-deps", *tags, *wanted]
        total = _run(recipe, go, command, step, "modules fetched")
    minutes = recipe.cold_cpu_minutes / (os.cpu_count() or 1)
    title = f"building {', '.join(names)} with Go {go.version_text} (about {minutes:.0f} minutes cold)"
    with progress.step(title) as step, tempfile.TemporaryDirectory(prefix=DRAFT_PREFIX, dir=folder) as draft:
        command = ["build", "-v", *recipe.flags, "-o", f"{draft}/", *wanted]
        _run(recipe, go, command, step, f"of up to {total} packages compiled")
        for name in names:
            (Path(draft) / recipe.go_names.get(name, name)).rename(folder / name)


def _run(recipe: Recipe, go: Go, arguments: Sequence[str], step: Step, unit: str) -> int:
    """Run Go at low priority and return how many packages it named; its lines are the progress that is shown.

    It runs supervised, since a Go whose builder was killed would go on and write into the cache.
    """
    deadline = time.monotonic() + BUILD_TIMEOUT_SECONDS
    with Supervisor() as supervisor:
        words: list[str | Path] = ["nice", "-n", "5", go.command, *arguments]
        process = supervisor.spawn(words, name="go", env=go.settings(), cwd=recipe.module)
        while (code := process.poll()) is None:
            if time.monotonic() > deadline:
                raise BuildError(f"go {arguments[0]} still runs after {BUILD_TIMEOUT_SECONDS:.0f} s")
            step.update(f"{len(process.log.read_bytes().splitlines())} {unit}")
            time.sleep(POLL_SECONDS)
        if code:
            raise BuildError(f"go {arguments[0]} ended with {code}:\n{process.tail()}")
        return sum(not line.startswith("go: ") for line in process.log.read_text().splitlines())
