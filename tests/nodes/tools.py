"""The programs that a node is made of: out of Debian's packages, unpacked into the cache, never installed."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import debian
from tests.support.errors import MissingToolError

if TYPE_CHECKING:
    from tests.support.progress import Progress

PACKAGES = ("containerd", "runc", "containernetworking-plugins", "iptables", "conntrack", "iproute2")
COMMANDS = ("unshare", "nsenter", "mount", "sysctl", "tar", "bash")
IPTABLES = (
    "iptables",
    "iptables-save",
    "iptables-restore",
    "ip6tables",
    "ip6tables-save",
    "ip6tables-restore",
)
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
CAP_SYS_ADMIN = 21


@dataclass(frozen=True)
class Tools:
    """`environment` makes containerd, ctr and the rest be found; `cni` is the folder of network plugins."""

    environment: dict[str, str]
    cni: Path


def refuse_without_rights() -> None:
    """Raise MissingToolError where nodes can't run: not root, or in a container without its rights."""
    if os.geteuid() != 0:
        raise MissingToolError("real nodes need root, for namespaces and mounts: sudo make test-nodes")
    status = Path("/proc/self/status").read_text()
    [effective] = [line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")]
    if not int(effective, 16) >> CAP_SYS_ADMIN & 1:
        raise MissingToolError(
            "real nodes need CAP_SYS_ADMIN; run on a machine, or in a privileged container"
        )
    missing = [name for name in COMMANDS if not shutil.which(name)]
    if missing:
        raise MissingToolError(f"{', '.join(missing)}: not found; install util-linux, procps, tar and bash")


def find(progress: Progress) -> Tools:
    """Return the tools, fetched by apt where the cache lacks them; raises MissingToolError."""
    refuse_without_rights()
    folder = debian.unpacked("nodes", PACKAGES, progress)
    links = folder / "links"
    links.mkdir(exist_ok=True)
    variant = shutil.which("xtables-nft-multi", path=f"{folder}/usr/sbin:{SYSTEM}")
    if not variant:
        raise MissingToolError("xtables-nft-multi: not in Debian's package iptables")
    for name in IPTABLES:
        link = links / name
        if not link.is_symlink():
            link.symlink_to(variant)
    libraries = [path for path in (folder / "usr/lib").glob("*-linux-gnu") if path.is_dir()]
    environment = {
        "PATH": f"{links}:{folder}/usr/sbin:{folder}/usr/bin:{SYSTEM}",
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "XTABLES_LIBDIR": ":".join(str(path / "xtables") for path in libraries),
    }
    own = folder / "usr/lib/cni"
    return Tools(environment, own if own.is_dir() else Path("/usr/lib/cni"))
