"""The fake libibverbs from Python: built once, its knobs as attributes."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

import hawk_agent.transports.verbs
from hawk_agent.transports.verbs import device

PACKAGE = Path(hawk_agent.transports.verbs.__file__).parent
FAKE = Path(__file__).parent / "fake_ibverbs.c"
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
        *(
            (name, i64)
            for name in (
                "plain_errno",
                "dmabuf_errno",
                "odp_errno",
                "odp",
                "work",
                "gone",
                "dry",
                "vanished",
                "quiet",
                "held",
            )
        ),
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
            "bytes",
            "empty",
            "faults",
        )
    )


def build(folder: Path) -> Path:
    """The fake as a shared library."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip("missing tool: a C compiler, for the fake libibverbs")
    made = folder / "libfakeverbs.so"
    flags = ["-shared", "-fPIC", "-O1", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{PACKAGE}"]
    flags += os.environ.get("HAWK_TEST_CFLAGS", "").split()
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
        return device.discover_devices(self.path)
