"""A network namespace of our own with a bridge, on which the control plane and the nodes stand.

It has no way out, and goes with the last process in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from typing import TYPE_CHECKING

from .settings import DNS

if TYPE_CHECKING:
    from collections.abc import Iterator

CLONE_NEWNET = 0x40000000
BRIDGE = "hawk0"
GATEWAY = "10.200.0.1"
libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def own_network() -> Iterator[None]:
    """Move this thread, and what it starts from now on, to a network of its own for the time of the block."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(libc.unshare(CLONE_NEWNET), "unshare")
        try:
            ip("link", "set", "lo", "up")
            ip("link", "add", BRIDGE, "type", "bridge")
            ip("addr", "add", f"{GATEWAY}/24", "dev", BRIDGE)
            ip("addr", "add", f"{DNS}/32", "dev", BRIDGE)
            ip("link", "set", BRIDGE, "up")
            yield
        finally:
            _checked(libc.setns(before, CLONE_NEWNET), "setns")
    finally:
        os.close(before)


def node_address(index: int) -> str:
    """The address of node 1, 2, …"""
    return f"10.200.0.{10 + index}"


def pod_range(index: int) -> str:
    """The addresses of the pods on node 1, 2, …"""
    return f"10.244.{index}.0/24"


def attach(pid: int, index: int, count: int) -> None:
    """Connect the network of process `pid`, as node `index` of `count`, to the bridge."""
    there = ("nsenter", f"--target={pid}", "--net")
    ip("link", "add", f"hawk{index}", "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    ip("link", "set", f"hawk{index}", "master", BRIDGE, "up")
    ip("link", "set", "lo", "up", inside=there)
    ip("addr", "add", f"{node_address(index)}/24", "dev", "eth0", inside=there)
    ip("link", "set", "eth0", "up", inside=there)
    ip("route", "add", "default", "via", GATEWAY, inside=there)
    for other in range(1, count + 1):
        if other != index:
            ip("route", "add", pod_range(other), "via", node_address(other), inside=there)
    ip("route", "replace", pod_range(index), "via", node_address(index))
    run(*there, "sysctl", "-qw", "net.ipv4.ip_forward=1")


def ip(*words: str, inside: tuple[str, ...] = ()) -> None:
    """Run `ip`, in another process's network where `inside` enters it."""
    run(*inside, "ip", *words)


def run(*words: str) -> None:
    """Run a command; RuntimeError with what it said."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")


def _checked(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
