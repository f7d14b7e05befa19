"""Run on this machine itself, where it has RDMA devices or can have them."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.errors import MissingToolError
from tests.support.supervisor import Supervisor

from .following import Ended, follow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

    from tests.support.supervisor import Process

SYS = Path("/sys/class/infiniband")
NETWORK = Path(__file__).parent / "network.sh"
RIG_DEVICES = "rxa=10.9.0.1,rxb=10.9.0.2"
MODULE_SECONDS = 60.0


@dataclass(frozen=True)
class Device:
    """An RDMA device whose first port is active and has a RoCE v2 GID of an IPv4 address."""

    name: str
    address: str


def devices(sys: Path = SYS) -> list[Device]:
    """The devices that the tests could use, by name."""
    found = []
    for folder in sorted(sys.glob("*")):
        port = folder / "ports" / "1"
        if _text(port / "state").endswith("ACTIVE") and (address := _address(port)):
            found.append(Device(folder.name, address))
    return found


def _address(port: Path) -> str:
    """The IPv4 address of the port's first RoCE v2 GID that has one, or ""."""
    for kind in sorted((port / "gid_attrs" / "types").glob("*"), key=lambda path: int(path.name)):
        if _text(kind) == "RoCE v2":
            mapped = ipaddress.IPv6Address(_text(port / "gids" / kind.name)).ipv4_mapped
            if mapped:
                return str(mapped)
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # the kernel answers so for an index without a GID
        return ""


def module_loadable() -> bool:
    """True if this process can make rxe devices here: it is root, and has the module and the library."""
    if os.geteuid() != 0 or not shutil.which("modprobe") or not shutil.which("rdma"):
        return False
    try:
        ctypes.CDLL("libibverbs.so.1")
    except OSError:
        return False
    trial = subprocess.run(
        ["modprobe", "--dry-run", "--quiet", "rdma_rxe"], check=False, timeout=MODULE_SECONDS
    )
    return trial.returncode == 0


@contextlib.contextmanager
def prepared() -> Iterator[str]:
    """Give the devices as HAWK_RDMA_DEVICES has them; those that had to be made are gone after the block.

    Their keeper is a process of its own that waits for our end of a pipe to close, so a killed parent leaves
    no network behind. Raises MissingToolError where there are none and none can be made.
    """
    if found := devices():
        yield ",".join(f"{device.name}={device.address}" for device in found[:2])
        return
    if not module_loadable():
        raise MissingToolError("no active RoCE device here, and rdma_rxe can't be loaded: use the guest")
    subprocess.run(["modprobe", "rdma_rxe"], check=True, timeout=MODULE_SECONDS)
    keeper = subprocess.Popen(
        ["bash", NETWORK, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert keeper.stdin
    assert keeper.stdout
    try:
        if keeper.stdout.readline() != b"ready\n":
            raise MissingToolError("the RDMA devices could not be made; network.sh says why above")
        yield RIG_DEVICES
    finally:
        keeper.stdin.close()
        keeper.wait(MODULE_SECONDS)
        keeper.stdout.close()


def run(
    command: Sequence[str],
    *,
    checkout: Path,
    environment: Mapping[str, str],
    timeout: float,
    output: BinaryIO,
) -> Ended:
    """Run `command` in `checkout`, copy its output to `output` as it comes; `timeout` is in seconds."""
    with prepared() as names, Supervisor() as supervisor:
        env = {**environment, "HAWK_RDMA_DEVICES": names, "PATH": os.environ.get("PATH", "")}
        process = supervisor.spawn(command, name="command", cwd=checkout, env=env)
        with process.log.open("rb") as source:
            return follow(source, output, lambda _: _status(process), timeout=timeout)


def _status(process: Process) -> Ended | None:
    code = process.poll()
    if code is None:
        return None
    # As a shell has it: 128 and the signal's number.
    return Ended(code if code >= 0 else 128 - code)
