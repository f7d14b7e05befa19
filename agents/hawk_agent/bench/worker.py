"""The other process of a benchmark: waits for an event, moves the bytes, says when it is done.

Run as ``python -m hawk_agent.bench.worker SOURCE_FD DESTINATION_FD GO_FD DONE_FD SOURCE TARGET MIB``.
The value that arrives on GO is a position in `ACTIONS`, plus one.
"""

from __future__ import annotations

import mmap
import os
import sys

import numpy as np

from hawk_agent.bench.workload import workload
from hawk_agent.layouts import engine, engines

ACTIONS = ("fused", "nt_memcpy", "memcpy", "fused_digest", "stop")
KEY = 0x5EED


def main(words: list[str]) -> None:
    """Serve until told to stop, or until the other side is gone."""
    source_fd, target_fd, go, done = map(int, words[:4])
    work = workload(words[4], words[5], int(words[6]))
    path = engine()[2:]
    with mmap.mmap(source_fd, 0, prot=mmap.PROT_READ) as source, mmap.mmap(target_fd, 0) as target:
        view = memoryview(source)[: work.nbytes]
        # Touch both, so that no page is mapped while the clock runs.
        np.frombuffer(target, np.uint8)[::4096] = 0
        np.frombuffer(source, np.uint8)[::4096].sum()
        os.eventfd_write(done, 1)
        while (action := ACTIONS[os.eventfd_read(go) - 1]) != "stop":
            if action in {"fused", "fused_digest"}:
                work.run(source, target, KEY if action == "fused_digest" else None)
            else:
                engines.kernel().plain(path, view, target, action == "nt_memcpy")
            os.eventfd_write(done, 1)
        view.release()


if __name__ == "__main__":
    main(sys.argv[1:])
