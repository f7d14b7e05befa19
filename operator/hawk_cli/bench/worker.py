"""The other process of a benchmark: waits for an event, moves the bytes, says when it is done.

Run as ``python -m hawk_cli.bench.worker SOURCE_FD DESTINATION_FD GO_FD DONE_FD FROM TO MIB PID ADDRESS``.
The value that arrives on GO is a position in `ACTIONS`, plus one. PID and ADDRESS are where the source is in
the other process: for cross-memory attach, which shares no memory and has the system copy.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import TYPE_CHECKING

import numpy as np

from hawk_agent.layouts import Layout, compile_nest, engines
from hawk_agent.layouts.engines import engine
from hawk_cli.bench.workload import FEATURES, workload

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from hawk_cli.bench.workload import CopyWorkload

ACTIONS = ("fused", "nt_memcpy", "memcpy", "fused_digest", "cma", "cma_bounce", "stop")
KEY = 0x5EED
_BOUNCE = 256 << 10
_ONE_CALL = 1 << 30


class _Span(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


class Attached:
    """Another process' memory, read by the system (process_vm_readv)."""

    def __init__(self, pid: int, address: int) -> None:
        self._pid, self._address = pid, address
        self._read = ctypes.CDLL(None, use_errno=True).process_vm_readv
        self._read.restype = ctypes.c_ssize_t

    def read(self, at: int, target: npt.NDArray[np.uint8]) -> None:
        """Bytes from `at` on, as many as the target holds. OSError when the system refuses."""
        done = 0
        while done < target.size:
            count = min(target.size - done, _ONE_CALL)
            here = _Span(target.ctypes.data + done, count)
            there = _Span(self._address + at + done, count)
            arguments = (ctypes.byref(here), ctypes.c_ulong(1), ctypes.byref(there), ctypes.c_ulong(1))
            read = self._read(self._pid, *arguments, ctypes.c_ulong(0))
            if read <= 0:
                raise OSError(ctypes.get_errno(), "process_vm_readv")
            done += read

    def translate(self, target: npt.NDArray[np.uint8]) -> None:
        """Through a buffer of cache size: both layouts keep the order of such pieces, whole rows of tiles."""
        tokens = {"h": 1, "s": _BOUNCE // (2 * FEATURES), "d": FEATURES}
        nest = compile_nest(Layout.preset("row-major", tokens), Layout.preset("tiles-16x16", tokens))
        bounce = np.empty(_BOUNCE, np.uint8)
        for at in range(0, target.size, _BOUNCE):
            self.read(at, bounce)
            nest.run(bounce, target[at : at + _BOUNCE])


def main(words: list[str]) -> None:
    """Serve until told to stop, or until the other side is gone."""
    source_fd, target_fd, go, done = map(int, words[:4])
    work = workload(words[4], words[5], int(words[6]))
    attached = Attached(int(words[7]), int(words[8]))
    with mmap.mmap(source_fd, 0, prot=mmap.PROT_READ) as source, mmap.mmap(target_fd, 0) as target:
        run = _actions(work, source, target, attached)
        os.eventfd_write(done, 1)
        while (action := ACTIONS[os.eventfd_read(go) - 1]) != "stop":
            run[action]()
            os.eventfd_write(done, 1)
        run.clear()  # and with them the last views of the memory


def _actions(
    work: CopyWorkload, source: mmap.mmap, target: mmap.mmap, attached: Attached
) -> dict[str, Callable[[], object]]:
    view = np.frombuffer(source, np.uint8)[: work.nbytes]
    tiles = np.frombuffer(target, np.uint8)[: work.nbytes]
    # Touch both, so that no page is mapped while the clock runs.
    tiles[::4096] = 0
    view[::4096].sum()
    plain, path = engines.kernel().plain, engine()[2:]
    return {
        "fused": lambda: work.run(source, target),
        "fused_digest": lambda: work.run(source, target, KEY),
        "memcpy": lambda: plain(path, view, tiles, False),
        "nt_memcpy": lambda: plain(path, view, tiles, True),
        "cma": lambda: attached.read(0, tiles),
        "cma_bounce": lambda: attached.translate(tiles),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
