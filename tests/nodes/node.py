"""One node: namespaces that hang on one process, and containerd, kubelet and kube-proxy in them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import pki
from tests.support.supervisor import run
from tests.support.waiting import until
from tests.support.warden import children_of

from . import cgroups, network, settings, store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.binaries import Programs
    from tests.support.supervisor import Process, Supervisor

    from .settings import Place
    from .tools import Tools

START_SECONDS = 60.0
# Folders that every machine has for itself: over /run, the logs and /var/lib a node sees an empty layer.
MOUNTS = """
mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/layer/upper /run/layer/work
mount -t overlay overlay -o lowerdir=/var/lib,upperdir=/run/layer/upper,workdir=/run/layer/work /var/lib
mount -t tmpfs -o mode=755 tmpfs /var/log
sleep infinity & wait
"""


@dataclass(frozen=True)
class Control:
    """The parts of the control plane that nodes need."""

    server: str
    authority: pki.Authority
    certificate: Path


class Node:
    """A node by name; `index` is its number from 1 among `count`.

    `lose` is a power failure: everything on it is gone at once. `start` may follow.
    """

    def __init__(
        self,
        name: str,
        index: int,
        count: int,
        *,
        place: Place,
        control: Control,
        programs: Programs,
        tools: Tools,
        labels: Mapping[str, str],
    ) -> None:
        self.name = name
        self.index = index
        self.address = network.node_address(index)
        self.place = place
        self._count = count
        self._control = control
        self._programs = programs
        self._tools = tools
        self._labels = dict(labels)
        self._parts: dict[str, Process] = {}
        self.holder = 0
        """The process, as this machine counts, that everything of the node hangs on."""

    def start(self, supervisor: Supervisor, images: Path) -> None:
        """Start everything; the API server knows the node some seconds later. `images` is the store."""
        folder = self.place.folder
        if not folder.exists():
            self._write(images)
        self._hold(supervisor)
        network.attach(self.holder, self.index, self._count)
        self._spawn(supervisor, "containerd", ["containerd", "--config", folder / "containerd.toml"])
        until(self._containerd_answers, what=f"containerd of {self.name}", timeout=START_SECONDS)
        self._spawn(
            supervisor,
            "kubelet",
            [
                self._programs.kubelet,
                f"--config={folder / 'kubelet.json'}",
                f"--kubeconfig={folder / 'kubeconfig'}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.address}",
                f"--node-labels={','.join(f'{key}={value}' for key, value in self._labels.items())}",
                f"--root-dir={folder / 'kubelet'}",
                f"--cert-dir={folder / 'certificates'}",
            ],
        )
        self._spawn(
            supervisor, "kube-proxy", [self._programs.kube_proxy, f"--config={folder / 'proxy.json'}"]
        )

    def lose(self) -> None:
        """Kill everything at once, containers included."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.holder, signal.SIGKILL)
        for process in self._parts.values():
            process.kill()
        self._parts.clear()
        with contextlib.suppress(RuntimeError):
            network.ip("link", "delete", f"hawk{self.index}")

    def check(self) -> None:
        """Raise ProcessEndedError when a part of it has ended."""
        for process in self._parts.values():
            process.check()

    def remove(self) -> None:
        """Lose it for good: its cgroups go too."""
        self.lose()
        cgroups.remove(self.place.folder.name)

    def run(self, *words: str | Path) -> str:
        """Run a command on the node; what it printed. CalledProcessError with its words."""
        done = subprocess.run(
            self._inside(*words),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env=self._tools.environment,
        )
        return done.stdout

    def charge(self, uid: str) -> int:
        """The bytes that a pod's cgroup is charged with, without file caches that it could drop."""
        return cgroups.charge(self.place.folder.name, uid)

    def _inside(self, *words: str | Path) -> list[str]:
        target = f"--target={self.holder}"
        return ["nsenter", target, "--net", "--mount", "--pid", "--", *map(str, words)]

    def _spawn(self, supervisor: Supervisor, part: str, words: list[str | Path]) -> None:
        self._parts[part] = supervisor.spawn(
            self._inside(*words), name=f"{self.name}-{part}", env=self._tools.environment
        )

    def _hold(self, supervisor: Supervisor) -> None:
        words = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        words += ["--propagation", "private", "bash", "-ec", MOUNTS]
        holder = supervisor.spawn(words, name=f"{self.name}-holder", env=self._tools.environment)
        self._parts["holder"] = holder

        def ready() -> bool:
            holder.check()
            children = children_of(holder.pid)
            if not children:
                return False
            self.holder = children[0]
            # The last of its commands runs: all mounts are made.
            return any("sleep" in name for name in _names(children_of(self.holder)))

        until(ready, what=f"the namespaces of {self.name}", timeout=START_SECONDS)

    def _containerd_answers(self) -> bool:
        self.check()
        words = self._inside("ctr", "--address", self.place.containerd_socket, "version")
        return run(words, timeout=30, env=self._tools.environment)[0] == 0

    def _write(self, images: Path) -> None:
        place, control = self.place, self._control
        (place.folder / "cni").mkdir(parents=True)
        store.copy(images, place.images)
        user = control.authority.user(f"system:node:{self.name}", ["system:nodes"])
        proxy = control.authority.user("system:kube-proxy")
        for name, pair in (("kubeconfig", user), ("proxy.kubeconfig", proxy)):
            text = pki.kubeconfig(
                control.server, control.authority.pair.certificate_pem, pki.certificate_user(pair)
            )
            (place.folder / name).write_text(text)
        cgroup = cgroups.make(place.folder.name)
        texts = {
            "containerd.toml": settings.containerd(place),
            "cni/10-hawk.conflist": settings.cni(place, network.pod_range(self.index)),
            "kubelet.json": settings.kubelet(place, self.address, cgroup),
            "proxy.json": settings.proxy(place.folder / "proxy.kubeconfig", self.name),
            "resolv.conf": f"nameserver {settings.DNS}\n",
        }
        for name, text in texts.items():
            (place.folder / name).write_text(text)


def _names(pids: list[int]) -> list[str]:
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/comm").read_text())
    return found
