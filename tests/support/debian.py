"""Programs out of Debian's packages: fetched by apt, unpacked into the cache, never installed.

apt checks every package against the archive's signatures. No version is pinned: Debian's archive keeps only
the newest of each, and what is in the cache stays as it is until it goes unused for a month.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
from typing import TYPE_CHECKING

from . import cache
from .errors import MissingToolError
from .supervisor import Supervisor, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .progress import Progress

APT_SECONDS = 300.0
DOWNLOAD_SECONDS = 900.0
# Where /bin and the like are links into /usr, as on every current system, a package may still name them.
MERGED = ("bin", "sbin", "lib", "lib64")


def available() -> bool:
    """True if this system has apt."""
    return bool(shutil.which("apt-get") and shutil.which("dpkg-deb"))


def release() -> str:
    """Return the system's name and version, as in `debian-12`."""
    facts = platform.freedesktop_os_release()
    return f"{facts.get('ID', 'linux')}-{facts.get('VERSION_ID', 'rolling')}"


def unpacked(
    name: str, packages: Sequence[str], progress: Progress, *, alone: bool = False, whole: bool = False
) -> Path:
    """Return a folder that holds `packages` and what they need that isn't installed here, unpacked together.

    The folder's usr and etc overlay the system's own. `alone` leaves dependencies out; `whole` brings all of
    them, installed here or not, so that the folder can be a root of its own. Raises MissingToolError where
    apt hasn't got them.
    """
    key = hashlib.sha256(" ".join(sorted(packages)).encode()).hexdigest()[:10]
    folder = cache.root() / "debian" / f"{name}-{release()}-{key}"
    if not folder.is_dir():
        with cache.locked(f"debian-{name}", progress.say):
            if not folder.is_dir():
                with progress.step(f"fetching Debian's packages: {', '.join(packages)}"):
                    _fetch(packages, folder, alone=alone, whole=whole)
                cache.drop_unused(folder.parent, folder)
    folder.touch()
    return folder


def _fetch(packages: Sequence[str], folder: Path, *, alone: bool, whole: bool) -> None:
    with cache.placed(folder) as draft:
        debs = draft / "debs"
        debs.mkdir()
        for deb in download(packages if alone else _with_dependencies(packages, debs, whole=whole), debs):
            unpack(deb, draft)
        shutil.rmtree(debs)


def download(packages: Sequence[str], folder: Path) -> list[Path]:
    """Download exactly these packages into `folder`; raises MissingToolError."""
    if packages:
        _apt("apt-get", "download", *packages, cwd=folder)
    return sorted(folder.glob("*.deb"))


def unpack(deb: Path, target: Path) -> None:
    """Unpack one package's files; its scripts are not run. /bin, /lib and so on land in /usr."""
    for link in MERGED:
        if not (target / link).is_symlink():
            (target / "usr" / link).mkdir(parents=True, exist_ok=True)
            (target / link).symlink_to(f"usr/{link}")
    # dpkg-deb --extract would put a package's folder in the place of the link.
    script = 'dpkg-deb --fsys-tarfile "$0" | tar --extract --no-same-owner --keep-directory-symlink -C "$1"'
    code, output = run(["bash", "-o", "pipefail", "-c", script, deb, target], timeout=APT_SECONDS)
    if code:
        raise MissingToolError(f"{deb.name}: it could not be unpacked: {output}")


def depends(package: str, cwd: Path) -> list[str]:
    """Return the names that `package` depends on; raises MissingToolError where apt doesn't know it."""
    text = _apt("apt-cache", "depends", "--important", package, cwd=cwd)
    return re.findall(r"^ +\|?(?:Pre)?Depends: ([^\s<>]+)", text, re.MULTILINE)


def _with_dependencies(packages: Sequence[str], cwd: Path, *, whole: bool = False) -> list[str]:
    """The packages themselves and their dependencies; unless `whole`, without those that are installed."""
    words = ["install", "--simulate", "--no-install-recommends", *packages]
    if whole:
        words = ["-o", "Dir::State::status=/dev/null", *words]
    plan = _apt("apt-get", *words, cwd=cwd)
    # "Inst NAME (VERSION ...": new; "Inst NAME [INSTALLED] (VERSION ...": an upgrade, which can wait.
    return re.findall(r"^Inst (\S+) \(", plan, re.MULTILINE)


def _apt(program: str, *words: str, cwd: Path) -> str:
    """Run apt; where it doesn't know a package, refresh its lists and try once more."""
    if not available():
        raise MissingToolError(f"{', '.join(words)}: this system has no apt-get; supply them on PATH")
    code, output = _run(program, *words, cwd=cwd)
    if code:
        _run("apt-get", "update", cwd=cwd)
        code, output = _run(program, *words, cwd=cwd)
    if code:
        raise MissingToolError(
            f"{program} {' '.join(words)} failed (if its lists are old: sudo apt-get update): {output[-800:]}"
        )
    return output


def _run(program: str, *words: str, cwd: Path) -> tuple[int, str]:
    command = [program, "-q", "-o", "APT::Sandbox::User=root", *words]
    environment = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    with Supervisor() as supervisor:
        process = supervisor.spawn(command, env=environment, cwd=cwd)
        return process.wait(DOWNLOAD_SECONDS), process.log.read_text()
