"""Mooncake's transfer engine between two processes, over TCP on the loopback: what it offers without RDMA."""

from __future__ import annotations

import sys
import time
from multiprocessing import get_context
from typing import TYPE_CHECKING

from mooncake.engine import TransferEngine  # type: ignore[import-not-found]

from hawk_cli.bench.baselines.common import answer, content, region, right, translators

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def engine() -> TransferEngine:
    """An engine of this process."""
    made = TransferEngine()
    if made.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""):
        raise RuntimeError("the transfer engine doesn't start")
    return made


def target(pipe: Connection, mebibytes: int) -> None:
    """Translate when told that a transfer has ended, and tell when that was done."""
    arrived, tiles = region(mebibytes << 20), region(mebibytes << 20)
    made = engine()
    made.register_memory(arrived.ctypes.data, arrived.size)
    pipe.send((f"127.0.0.1:{made.get_rpc_port()}", arrived.ctypes.data))
    on_arrival = translators(mebibytes, arrived, tiles)
    while (message := pipe.recv()) is not None:
        mode, check = message
        on_arrival[mode]()
        done = time.monotonic()
        pipe.send((done, right(mode, mebibytes, arrived, tiles) if check else True))


def main(mebibytes: int) -> None:
    """Serve the benchmark's requests until its pipe closes."""
    context = get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, mebibytes), daemon=True)
    process.start()
    source = region(mebibytes << 20)
    source[:] = content(source.size)
    made = engine()
    made.register_memory(source.ctypes.data, source.size)
    host, address = pipe.recv()
    answer(ready=True)
    seen: set[str] = set()
    for line in sys.stdin:
        mode = line.strip()
        start = time.monotonic()
        code = made.transfer_sync_write(host, source.ctypes.data, address, source.size)
        pipe.send((mode, mode not in seen))
        seen.add(mode)
        done, correct = pipe.recv()
        if code or not correct:
            answer(error=f"a transfer ended with {code}, bytes right: {correct}")
            return
        answer(seconds=done - start)
    pipe.send(None)


if __name__ == "__main__":
    main(int(sys.argv[1]))
