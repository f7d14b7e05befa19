"""The cgroups that nodes put their pods under, in either version of cgroups."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tests.support.errors import MissingToolError

ROOT = Path("/sys/fs/cgroup")
PARENT = "hawkpool-nodes"
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "systemd")


def version() -> int:
    """Return 1 or 2."""
    return 2 if (ROOT / "cgroup.subtree_control").exists() else 1


def make(name: str) -> str:
    """Make a cgroup of that name in every hierarchy; return what kubelet calls it."""
    if version() == 2:
        _make_unified(name)
    else:
        for controller in CONTROLLERS:
            if (ROOT / controller).is_dir():
                (ROOT / controller / PARENT / name).mkdir(parents=True, exist_ok=True)
        for folder in (Path(PARENT), Path(PARENT, name)):
            for file in ("cpuset.cpus", "cpuset.mems"):
                above = ROOT / "cpuset" / folder.parent / file
                if above.exists():
                    (ROOT / "cpuset" / folder / file).write_text(above.read_text())
    return f"/{PARENT}/{name}"


def _make_unified(name: str) -> None:
    folder = ROOT
    try:
        for part in (PARENT, name, None):
            wanted = (folder / "cgroup.controllers").read_text().split()
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{word}" for word in wanted))
            if part:
                folder /= part
                folder.mkdir(exist_ok=True)
    except OSError as error:
        raise MissingToolError(f"{folder}: pods can't have cgroups under it ({error.strerror})") from error


def charge(name: str, uid: str) -> int:
    """Return the bytes that a pod of a node is charged with: anonymous, shared and the kernel's memory."""
    root = ROOT if version() == 2 else ROOT / "memory"
    [folder] = [path for path in (root / PARENT / name).rglob(f"*{uid}") if path.is_dir()]
    facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    if version() == 2:
        return int(facts["anon"]) + int(facts["shmem"]) + int(facts["kernel"])
    kernel = int((folder / "memory.kmem.usage_in_bytes").read_text())
    return int(facts["total_rss"]) + int(facts["total_shmem"]) + kernel


def remove(name: str = "") -> None:
    """Remove a node's cgroups, or those of all nodes that are gone; what still has processes stays."""
    roots = [ROOT] if version() == 2 else [path for path in ROOT.iterdir() if path.is_dir()]
    for root in roots:
        for folder, _, _ in os.walk(root / PARENT / name, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
