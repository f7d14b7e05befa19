"""The content of the images, made without a container engine.

It is Debian's packages, the locked wheels and the project's own, by the same lists and locks as in the
Containerfiles; apt checks Debian's signatures, uv the wheels' hashes.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import debian
from tests.support.errors import MissingToolError
from tests.support.supervisor import run

from .archive import Image
from .layers import STEP_SECONDS, layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.progress import Progress

    from .archive import Layer

ROOT = Path(__file__).parents[1]
COMPONENTS = ("operator", "agent")
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
SYSTEM = ("base-files", "coreutils", "dash")
"""The part of Debian's slim image that the programs need, beside the packages that are listed."""
NEEDLESS = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/cache", "links")
SITE = f"usr/local/lib/{PYTHON}/dist-packages"
SOURCES = ("crds", "operator", "agents", "pyproject.toml", "setup.py", "README.md", "LICENSE")
UNUSED = ("kubernetes/aio",)
"""Parts of wheels that nothing imports: a second client, of 60 MiB. Their tests stay out too."""
USER = "65532:65532"
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\nhawk:x:65532:65532::/:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nhawk:x:65532:\n",
}
"""A process may ask for its user's name, and the home directory that goes with it."""


def build(component: str, name: str, progress: Progress) -> Image:
    """Build the image of "operator" or "agent" under a name. Raises MissingToolError."""
    parts = (base(component, progress), *wheels(component, progress), product(progress))
    return Image(name, parts, user=USER, entrypoint=(f"hawk-{component}",))


def listed(component: str) -> list[str]:
    """The listed packages of Debian, with this Python in place of Debian's default one."""
    names = (ROOT / "images" / component / "packages.txt").read_text().split()
    return [PYTHON if name == "python3" else name for name in names]


def base(component: str, progress: Progress) -> Layer:
    """The layer of Debian's packages."""
    packages = debian.unpacked(f"image-{component}", (*SYSTEM, *listed(component)), progress, whole=True)
    if not (packages / "usr/bin" / PYTHON).exists():
        raise MissingToolError(f"{PYTHON}: {debian.release()} has no such package; run under its own Python")

    def fill(folder: Path) -> None:
        shutil.copytree(packages, folder, symlinks=True, dirs_exist_ok=True)
        for name in NEEDLESS:
            shutil.rmtree(folder / name, ignore_errors=True)
        (folder / "usr/bin/python3").unlink(missing_ok=True)
        (folder / "usr/bin/python3").symlink_to(PYTHON)
        for path, text in ACCOUNTS.items():
            (folder / path).write_text(text)
        (folder / "tmp").mkdir(exist_ok=True)
        (folder / "tmp").chmod(0o1777)
        _compile(folder, f"usr/lib/{PYTHON}")

    return layer(
        f"base-{component}", f"{packages.name} {(packages / 'usr').stat().st_ctime_ns}", fill, progress
    )


def wheels(component: str, progress: Progress) -> tuple[Layer, Layer]:
    """The layers of the locked dependencies: those that all components have, and this one's own."""
    locks = {name: locked((ROOT / "requirements" / f"{name}.txt").read_text()) for name in COMPONENTS}
    common = set.intersection(*map(set, locks.values()))

    def made(name: str, chosen: list[str]) -> Layer:
        def fill(folder: Path) -> None:
            lock = folder.with_name("lock.txt")
            lock.write_text("".join(chosen))
            _install(folder, ["--require-hashes", "--only-binary", ":all:", "--requirement", lock])
            lock.unlink()

        return layer(f"wheels-{name}", "".join(chosen), fill, progress)

    own = locks[component]
    shared = made("common", [entry for entry in own if entry in common])
    return shared, made(component, [entry for entry in own if entry not in common])


def locked(text: str) -> list[str]:
    """The requirements of a lock file, each with its hashes."""
    return re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]


def product(progress: Progress) -> Layer:
    """The layer of the project's own wheel, the same for both."""
    names = _sources()
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name}\0".encode() + (ROOT / name).read_bytes())

    def fill(folder: Path) -> None:
        tree = folder.with_name("tree")  # of tracked files alone: an older build's would end up in the wheel
        for name in names:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
        _install(folder, ["--no-build-isolation", tree])

    return layer("product", digest.hexdigest(), fill, progress)


def _sources() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", *SOURCES], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    found = [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]
    if not found:
        raise MissingToolError(f"git ls-files: {done.stderr.strip() or 'no files'}; run in a clone")
    return found


def _install(folder: Path, words: Sequence[str | Path]) -> None:
    site = folder / SITE
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--link-mode=copy"]
    code, output = run([*command, "--target", site, *words], timeout=STEP_SECONDS)
    if code:
        raise MissingToolError(f"uv pip install: {output[-800:]}")
    scripts = folder / "usr/local/bin"
    scripts.mkdir(parents=True)
    site.mkdir(parents=True, exist_ok=True)
    for script in sorted((site / "bin").glob("*hawk*")):
        # The interpreter that built it is none of the image's.
        text = re.sub(rb"^#![^\n]*", b"#!/usr/bin/python3", script.read_bytes())
        (scripts / script.name).write_bytes(text)
        (scripts / script.name).chmod(0o755)
    for needless in (site / "bin", *(site / name for name in UNUSED), *_tests(site)):
        shutil.rmtree(needless, ignore_errors=True)
    _compile(folder, SITE)


def _tests(site: Path) -> list[Path]:
    return [path for path in site.rglob("tests") if path.is_dir()]


def _compile(folder: Path, part: str) -> None:
    """Compile beforehand: a container's root is read-only, and would compile at every start."""
    words = [sys.executable, "-m", "compileall", "-q", "-j0", "--invalidation-mode=unchecked-hash"]
    run([*words, "-s", folder / part, "-p", f"/{part}", folder / part], timeout=STEP_SECONDS)
