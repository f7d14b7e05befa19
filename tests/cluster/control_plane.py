"""Start and stop etcd, the API server, the controller manager, the scheduler and kwok."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import ssl
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.support.ports import Ports
from tests.support.supervisor import Process, ProcessEndedError
from tests.support.waiting import until

from . import components, pki

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.supervisor import Supervisor

    from .binaries import Programs

STAGES = Path(__file__).parent / "fake_nodes.yaml"
READY_SECONDS = 120.0
PROBE_SECONDS = 5.0
ATTEMPTS = 3
PORT_TAKEN = "address already in use"


class ControlPlane:
    """A running control plane; `folder` holds its files, `timings` the seconds each part took to start.

    `host` is the address of the API server.
    """

    def __init__(self, folder: Path, ports: Ports, host: str = components.HOST) -> None:
        self.folder = folder
        self.host = host
        self.addresses: components.Addresses | None = None
        self.authority: pki.Authority | None = None
        self.timings: dict[str, float] = {}
        self.processes: dict[str, Process] = {}
        self._ports = ports

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "admin.kubeconfig"

    @classmethod
    def start(cls, programs: Programs, supervisor: Supervisor, host: str = components.HOST) -> Self:
        """Start everything and return when every part reports ready.

        Raises ProcessEndedError when a part ends (with its last log lines), TimeoutError when one isn't ready
        in two minutes. A port that another program took in spite of our reservation is no failure: all
        ports are chosen anew, three times at most.
        """
        for attempt in range(1, ATTEMPTS + 1):
            plane = cls(Path(tempfile.mkdtemp(prefix="cluster-", dir=supervisor.folder)), Ports(), host)
            try:
                plane._start(programs, supervisor)
            except ProcessEndedError as error:
                plane.stop()
                if PORT_TAKEN not in str(error) or attempt == ATTEMPTS:
                    raise
            except BaseException:
                plane.stop()
                raise
            else:
                return plane
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """Kill all parts: the data is thrown away, and an API server without etcd takes 20 s to end."""
        for process in reversed(self.processes.values()):
            process.kill()
        self._ports.close()

    def memory_bytes(self) -> dict[str, int]:
        """Return the resident memory of each part."""
        return {name: resident_bytes(process.pid) for name, process in self.processes.items()}

    def _start(self, programs: Programs, supervisor: Supervisor) -> None:
        self.addresses = addresses = components.Addresses(
            *(self._ports.reserve() for _ in range(6)), host=self.host
        )
        with self._timed("certificates"):
            self.authority = pki.Authority(datetime.datetime.now(datetime.UTC))
            components.write_files(self.folder, self.authority, addresses)
        context = self._admin_tls()

        def spawn(name: str, command: list[str | Path]) -> Process:
            process = supervisor.spawn(command, name=name, log=self.folder / f"{name}.log", cwd=self.folder)
            self.processes[name] = process
            return process

        with self._timed("kube-apiserver"):
            spawn("etcd", components.etcd(programs, self.folder, addresses))
            spawn("kube-apiserver", components.apiserver(programs, self.folder, addresses))
            self._ready(
                lambda: _get((addresses.host, addresses.api), "/readyz", context) == 200,
                "the API server's /readyz",
            )
        with self._timed("the rest"):
            spawn("kube-controller-manager", components.controller_manager(programs, self.folder, addresses))
            spawn("kube-scheduler", components.scheduler(programs, self.folder, addresses))
            spawn("kwok", components.kwok(programs, self.folder / "kwok.kubeconfig", STAGES, addresses.kwok))
            unchecked = ssl._create_unverified_context()
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            self._ready(
                lambda: _get((addresses.host, addresses.api), account, context) == 200,
                "the default service account",
            )
            self._ready(
                lambda: _get((components.HOST, addresses.scheduler), "/healthz", unchecked) == 200,
                "the scheduler's /healthz",
            )
            self._ready(
                lambda: _get((components.HOST, addresses.kwok), "/healthz", None) == 200, "kwok's /healthz"
            )

    def _ready(self, probe: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            for process in self.processes.values():
                process.check()
            return probe()

        until(
            look, what=what, timeout=READY_SECONDS, interval=0.05, ignore=(OSError, http.client.HTTPException)
        )

    def _admin_tls(self) -> ssl.SSLContext:
        folder = self.folder / "pki"
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        return context

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.timings[name] = time.monotonic() - started


def resident_bytes(pid: int) -> int:
    """Return a process's resident memory, 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    kilobytes = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(kilobytes[0]) * 1024 if kilobytes else 0


def _get(address: tuple[str, int], path: str, context: ssl.SSLContext | None) -> int:
    """Return the status of one GET over TLS, or over plain HTTP without a context."""
    connection = (
        http.client.HTTPSConnection(*address, timeout=PROBE_SECONDS, context=context)
        if context
        else http.client.HTTPConnection(*address, timeout=PROBE_SECONDS)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()
