"""The project's image, built without a container engine: layers out of Debian's packages and of wheels.

An image is an OCI archive, as `ctr images import`, `podman load` and `docker load` read it. Layers are cached
by what they are made of, so that a change of the project's own code makes one small layer anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import cache, debian
from tests.support.errors import MissingToolError
from tests.support.supervisor import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.progress import Progress

ROOT = Path(__file__).parents[2]
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES = ("base-files", "coreutils", "dash", PYTHON, "libstdc++6", "libibverbs1", "ibverbs-providers")
"""Packages of the system that the programs need: Python, and the libraries of RDMA devices."""
NEEDLESS = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/cache", "links")
SITE = f"usr/local/lib/{PYTHON}/dist-packages"
SOURCES = ("crds", "operator", "agents", "pyproject.toml", "setup.py", "README.md", "LICENSE")
STEP_SECONDS = 600.0
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
REPOSITORY = "hawk.test/hawkpool"
NONROOT = "65532:65532"


@dataclass(frozen=True)
class Layer:
    """One layer as a tar file; `digest` is its SHA-256, which also is its content's."""

    path: Path
    digest: str

    @property
    def size(self) -> int:
        """Bytes."""
        return self.path.stat().st_size


@dataclass(frozen=True)
class Image:
    """A name, its layers from the lowest up, and what runs in it by default."""

    name: str
    layers: tuple[Layer, ...]
    user: str = ""
    command: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all layers."""
        return sum(layer.size for layer in self.layers)

    def config(self) -> dict[str, Any]:
        """The OCI image configuration. There is no passwd file: names of users are not to be relied on."""
        run_as = {"User": self.user, "Cmd": list(self.command)}
        paths = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {"Env": [f"PATH={paths}"], **{key: value for key, value in run_as.items() if value}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in self.layers]},
        }


def project(progress: Progress, tag: str) -> Image:
    """Build the image of operator, agent and command line, as docs/install.md describes it."""
    return Image(f"{REPOSITORY}:{tag}", (base(progress), wheels(progress), product(progress)), user=NONROOT)


def base(progress: Progress) -> Layer:
    """The layer of Debian's packages."""
    packages = debian.unpacked("image", PACKAGES, progress, whole=True)
    if not (packages / "usr/bin" / PYTHON).exists():
        raise MissingToolError(f"{PYTHON}: {debian.release()} has no such package; run under its own Python")

    def fill(folder: Path) -> None:
        shutil.copytree(packages, folder, symlinks=True, dirs_exist_ok=True)
        for name in NEEDLESS:
            shutil.rmtree(folder / name, ignore_errors=True)
        (folder / "usr/bin/python3").unlink(missing_ok=True)
        (folder / "usr/bin/python3").symlink_to(PYTHON)
        (folder / "tmp").mkdir(exist_ok=True)
        (folder / "tmp").chmod(0o1777)
        _compile(folder, f"usr/lib/{PYTHON}")

    return layer("base", f"{packages.name} {(packages / 'usr').stat().st_ctime_ns}", fill, progress)


def wheels(progress: Progress) -> Layer:
    """The layer of the locked dependencies."""
    lock = ROOT / "requirements/runtime.txt"
    words = ["--require-hashes", "--only-binary", ":all:", "--requirement", lock]
    return layer("wheels", lock.read_text(), lambda folder: _install(folder, words), progress)


def product(progress: Progress) -> Layer:
    """The layer of the project's own wheel."""
    files = _sources()
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file}\0".encode() + (ROOT / file).read_bytes())

    def fill(folder: Path) -> None:
        tree = folder.with_name("tree")  # of tracked files alone: an older build's would end up in the wheel
        for file in files:
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, tree / file)
        _install(folder, ["--no-build-isolation", tree])

    return layer("product", digest.hexdigest(), fill, progress)


def files(name: str, content: dict[str, Path], progress: Progress) -> Layer:
    """A layer of single files, by their paths in the image."""

    def fill(folder: Path) -> None:
        for path, source in content.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / path)

    key = {path: hashlib.sha256(source.read_bytes()).hexdigest() for path, source in content.items()}
    return layer(name, json.dumps(key, sort_keys=True), fill, progress)


def layer(name: str, key: str, fill: Callable[[Path], None], progress: Progress) -> Layer:
    """Return a cached layer, made by `fill` in an empty folder; `key` tells all that it depends on."""
    code = Path(__file__).read_text()
    short = hashlib.sha256(f"{code}\0{debian.release()}\0{key}".encode()).hexdigest()[:16]
    target = cache.root() / "layers" / f"{name}-{short}"
    if not target.is_dir():
        with cache.locked(f"layer-{name}", progress.say):
            if not target.is_dir():
                with progress.step(f"making the image's layer {name}"), cache.placed(target) as draft:
                    content = draft / "content"
                    content.mkdir()
                    fill(content)
                    _pack(content, draft / "layer.tar")
                    (draft / "digest").write_text(_sha256(draft / "layer.tar"))
                    for left in (content, draft / "tree"):
                        shutil.rmtree(left, ignore_errors=True)
                cache.drop_unused(target.parent, target, days=3)
    target.touch()
    return Layer(target / "layer.tar", (target / "digest").read_text())


def write_archive(images: Sequence[Image], target: Path) -> None:
    """Write images that may share layers as one OCI archive."""
    with tarfile.open(target, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        for one in dict.fromkeys(one for image in images for one in image.layers):
            archive.add(one.path, f"blobs/sha256/{one.digest}")
        index = []
        for image in images:
            config = _blob(archive, image.config(), "application/vnd.oci.image.config.v1+json")
            manifest = {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": config,
                "layers": [
                    {
                        "mediaType": "application/vnd.oci.image.layer.v1.tar",
                        "digest": f"sha256:{one.digest}",
                        "size": one.size,
                    }
                    for one in image.layers
                ],
            }
            entry = _blob(archive, manifest, manifest["mediaType"])
            index.append({**entry, "annotations": {"io.containerd.image.name": image.name}})
        body = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": index,
        }
        _add(archive, "index.json", json.dumps(body).encode())


def _blob(archive: tarfile.TarFile, content: dict[str, Any], kind: str) -> dict[str, Any]:
    data = json.dumps(content).encode()
    digest = hashlib.sha256(data).hexdigest()
    _add(archive, f"blobs/sha256/{digest}", data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


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
    for script in sorted((site / "bin").glob("*")):
        text = script.read_bytes()
        if text.startswith(b"#!"):  # the interpreter that built it, which the image hasn't got
            text = re.sub(rb"^#![^\n]*", b"#!/usr/bin/python3", text)
            (scripts / script.name).write_bytes(text)
            (scripts / script.name).chmod(0o755)
    shutil.rmtree(site / "bin", ignore_errors=True)
    _compile(folder, SITE)


def _compile(folder: Path, part: str) -> None:
    """Compile beforehand: a container's root is read-only, and would compile at every start."""
    words = [sys.executable, "-m", "compileall", "-q", "-j0", "--invalidation-mode=unchecked-hash"]
    run([*words, "-s", folder / part, "-p", f"/{part}", folder / part], timeout=STEP_SECONDS)


def _pack(folder: Path, target: Path) -> None:
    words = ["tar", "--numeric-owner", "--owner=0", "--group=0", "--sort=name", "--mtime=@0", "-C", folder]
    code, output = run([*words, "-cf", target, "."], timeout=STEP_SECONDS)
    if code:
        raise MissingToolError(f"tar: {output}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
