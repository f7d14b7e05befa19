"""A disk image of the Python environment: a guest reads thousands of small files faster from it than by 9p.

It holds what the guest's tests and agents import, compiled, and is kept by its content: two environments of
the same packages at the same place share one image, whenever they were installed.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import platform
import shutil
from importlib import metadata
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import cache
from tests.support.errors import MissingToolError
from tests.support.supervisor import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.progress import Progress, Step

BUILD_SECONDS = 300.0
BYTES_A_FILE = 6000  # an inode, and half a block that its end leaves free
ROOTS = (
    "hawkpool[agent]",
    "hypothesis",
    "pytest",
    "pytest-asyncio",
    "pytest-cov",
    "pytest-timeout",
    "rich",
    "typer",
)
"""Distributions that the guest uses; their dependencies come with them."""
LEFT_OUT = frozenset({"kubernetes"})
"""A third of all bytes, for a cluster that no guest has."""


def environment_image(prefix: Path, progress: Progress) -> Path:
    """Return an ext4 image of this process's virtual environment, which lies in `prefix`.

    Raises MissingToolError where none can be made.
    """
    chosen = closure(ROOTS)
    target = cache.root() / "images" / key(prefix, chosen)
    if not target.is_dir():
        with cache.locked("image", progress.say):
            if not target.is_dir():
                with (
                    progress.step("packing the Python environment for the guest") as step,
                    cache.placed(target) as draft,
                ):
                    _pack(prefix, chosen, draft, step)
                cache.drop_unused(target.parent, target, days=3)
    target.touch()
    return target / "image"


def closure(roots: Sequence[str]) -> list[metadata.Distribution]:
    """Return the distributions that `roots` (requirements) need, themselves included, by name.

    Raises PackageNotFoundError for one that isn't installed.
    """
    found: dict[str, metadata.Distribution] = {}
    todo, known = [Requirement(root) for root in roots], set()
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        extras = frozenset(wanted.extras)
        if name in LEFT_OUT or (name, extras) in known:
            continue
        known.add((name, extras))
        found[name] = metadata.distribution(name)
        for text in found[name].requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras or {""}
            ):
                todo.append(needed)
    return [found[name] for name in sorted(found)]


def key(prefix: Path, chosen: Sequence[metadata.Distribution]) -> str:
    """Return a digest of what an image holds: this file's work on the files of these distributions."""
    parts = [Path(__file__).read_text(encoding="utf-8"), str(prefix), platform.python_version()]
    parts += [one.read_text("RECORD") or "" for one in chosen]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _pack(prefix: Path, chosen: Sequence[metadata.Distribution], draft: Path, step: Step) -> None:
    staged = draft / "staged"
    for number, one in enumerate(chosen):
        step.update(f"copying {one.name}, {number + 1} of {len(chosen)}")
        for path in _files(one, prefix):
            _place(path, staged / path.relative_to(prefix))
    for path in (prefix / "pyvenv.cfg", *(prefix / "bin").glob("python*")):
        _place(path, staged / path.relative_to(prefix))
    step.update("compiling")
    # Without looking at times in the guest: the image never changes.
    unchecked = PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(
        staged, quiet=2, stripdir=str(staged), prependdir=str(prefix), workers=0, invalidation_mode=unchecked
    )
    step.update("writing the image")
    _build(staged, draft / "image")
    shutil.rmtree(staged)


def _files(one: metadata.Distribution, prefix: Path) -> Iterator[Path]:
    """The installed files of a distribution, without byte code, which may be missing or stale."""
    for file in one.files or ():
        path = Path(os.path.normpath(str(one.locate_file(file))))
        if path.suffix != ".pyc" and path.is_relative_to(prefix) and path.exists():
            yield path


def _place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)


def _build(folder: Path, image: Path) -> None:
    program = shutil.which("mke2fs", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if not program:
        raise MissingToolError("mke2fs: not found; install e2fsprogs")
    sizes = [path.lstat().st_size + BYTES_A_FILE for path in folder.rglob("*")]
    mebibytes = (sum(sizes) * 11 // 10 >> 20) + 32
    words = [program, "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-N", str(len(sizes) + 1024)]
    code, output = run([*words, "-d", folder, image, f"{mebibytes}M"], timeout=BUILD_SECONDS)
    if code:
        raise MissingToolError(f"mke2fs could not pack {folder}: {output}")
