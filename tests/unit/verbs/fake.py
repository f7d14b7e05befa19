"""The fake libibverbs from Python: built once, its knobs as attributes, and a connected pair of ends."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

import hawk_agent.transports.verbs
from hawk_agent.memory import registration
from hawk_agent.memory.registration import Access
from hawk_agent.transports.verbs import device
from hawk_agent.transports.verbs.completion import CompletionQueue
from hawk_agent.transports.verbs.queue_pair import QueuePair

PACKAGE = Path(hawk_agent.transports.verbs.__file__).parent
FAKE = Path(__file__).parent / "fake_ibverbs.c"
BOTH = Access.REMOTE_WRITE | Access.REMOTE_READ
i64, u64 = ctypes.c_int64, ctypes.c_uint64


class Knobs(ctypes.Structure):
    _fields_ = (
        *((name, i64) for name in ("max_sge", "max_qp_wr", "max_cqe", "max_inline")),
        ("max_message", u64),
        ("max_mr", u64),
        ("mtu", i64 * 2),
        ("port_state", i64 * 2),
        ("windows", i64),
        *((name, i64) for name in ("refuse_in", "refuse_errno", "refuse_style")),
        *((name, i64) for name in ("modify_state", "modify_errno")),
        *((name, i64) for name in ("plain_errno", "dmabuf_errno", "odp_errno", "odp", "work", "gone")),
    )


class Seen(ctypes.Structure):
    _fields_ = tuple(
        (name, i64)
        for name in (
            "executed",
            "most_outstanding",
            "most_pieces",
            "most_bytes",
            "lost",
            "calls",
            "flushed",
            "registered",
            "open",
        )
    )


def build(folder: Path) -> Path:
    """The fake as a shared library."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip("missing tool: a C compiler, for the fake libibverbs")
    made = folder / "libfakeverbs.so"
    flags = ["-shared", "-fPIC", "-O1", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{PACKAGE}"]
    subprocess.run([compiler, *flags, str(FAKE), "-o", str(made)], check=True, timeout=120)
    return made


class Fake:
    """The library, as tests turn it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._raw = ctypes.CDLL(self.path)
        self.knobs = Knobs.in_dll(self._raw, "fake")
        self.seen = Seen.in_dll(self._raw, "fake_seen")
        self.reset()

    def reset(self) -> None:
        self._raw.fake_reset()

    def work(self, most: int = 1 << 20) -> None:
        """Work so many requests off, without a poll."""
        self._raw.fake_work(i64(most))

    def set_gid(self, at: int, index: int, raw: bytes, kind: int) -> None:
        self._raw.fake_set_gid(at, index, raw, kind)

    def infos(self) -> list[device.DeviceInfo]:
        return device.discover(self.path)


@dataclass
class End:
    """One end: a device, a completion queue, a queue pair."""

    device: device.Device
    completions: CompletionQueue
    queue: QueuePair

    def register(self, memory, access=registration.DESTINATION) -> registration.Registered:
        return registration.register(self.device, memory, memory.nbytes, access)


@dataclass
class Pair:
    """Two ends, connected."""

    a: End
    b: End

    def connect(self) -> None:
        infos = self.a.queue.info, self.b.queue.info
        self.a.queue.connect(infos[1], BOTH)
        self.b.queue.connect(infos[0], BOTH)

    def close(self) -> None:
        for end in (self.a, self.b):
            end.queue.close()
            end.completions.close()
            end.device.close()


def end(info: device.DeviceInfo, depth: int, max_sge: int, receives: int = 16, entries: int = 0) -> End:
    opened = device.open(info)
    completions = CompletionQueue(opened, entries or depth + receives)
    return End(opened, completions, QueuePair(opened, depth, max_sge, completions, receives=receives))


def pair(fake: Fake, *, depth: int = 64, max_sge: int = 32, receives: int = 16) -> Pair:
    first, second = fake.infos()
    made = Pair(end(first, depth, max_sge, receives), end(second, depth, max_sge, receives))
    made.connect()
    return made
