"""A folder as a disk image: where programs read thousands of small files, a guest does so far faster from it.

By 9p each of them takes several messages to the host.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import shutil
from typing import TYPE_CHECKING

from tests.support import cache
from tests.support.errors import MissingToolError
from tests.support.supervisor import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.progress import Progress

BUILD_SECONDS = 300.0
BYTES_A_FILE = 6000  # an inode, and half a block that its end leaves free


def environment_image(prefix: Path, progress: Progress) -> Path:
    """Return an ext4 image of the virtual environment `prefix`, made anew when packages came or went."""
    [packages] = prefix.glob("lib/python3.*/site-packages")
    state = f"{prefix} {packages.stat().st_mtime_ns}"
    target = cache.root() / "images" / hashlib.sha256(state.encode()).hexdigest()[:16]
    if not target.is_dir():
        with cache.locked("image", progress.say):
            if not target.is_dir():
                with progress.step("packing the Python environment for the guest"):
                    # Modules never imported here aren't compiled yet, and the guest would take long to.
                    compileall.compile_dir(packages, quiet=2, workers=0)
                    with cache.placed(target) as draft:
                        _build(prefix, draft / "image")
                cache.drop_unused(target.parent, target, days=3)
    target.touch()
    return target / "image"


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
