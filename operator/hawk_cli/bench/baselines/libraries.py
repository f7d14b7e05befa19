"""Libraries of the system that a baseline needs and this machine lacks: Debian's packages, not installed.

The packages are downloaded and unpacked into the baselines' cache, and found by the baseline alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from hawk_cli.bench.errors import BenchError

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS = 300


def found(packages: tuple[str, ...], cache: Path) -> dict[str, str]:
    """The environment variables with which a process finds them; none where the system has them.

    Raises:
        BenchError: this isn't Debian or one like it, or its packages can't be reached.
    """
    missing = [package for package in packages if not _installed(package)]
    if not missing:
        return {}
    folder = cache / "-".join(missing)
    if not (folder / ".complete").exists():
        fetch_library(missing, folder)
    # Some packages still unpack into /lib, others into /usr/lib.
    places = sorted({str(library.parent) for library in folder.glob("**/lib/**/*.so*")})
    return {"LD_LIBRARY_PATH": ":".join(places)}


def _installed(package: str) -> bool:
    query = shutil.which("dpkg-query")
    if query is None:
        return True  # another system: the baseline says itself what it misses
    words = [query, "--show", "--showformat=${db:Status-Status}", package]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout == "installed"


def fetch_library(packages: list[str], folder: Path) -> None:
    """Download packages with what they need, and unpack them into a folder.

    Raises:
        BenchError: as `found`.
    """
    print(f"==> fetching {', '.join(packages)} into {folder}, not into the system", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    plan = _run(["apt-get", "install", "--simulate", "--no-install-recommends", *packages], folder)
    wanted = re.findall(r"^Inst (\S+)", plan, re.MULTILINE)
    _run(["apt-get", "download", *wanted], folder)
    for archive in folder.glob("*.deb"):
        _run(["dpkg-deb", "--extract", str(archive), str(folder)], folder)
        archive.unlink()
    (folder / ".complete").touch()


def _run(words: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()[-300:]
        raise BenchError(f"{words[0]}: {said}; are its lists there (apt-get update)?") from error
    return done.stdout
