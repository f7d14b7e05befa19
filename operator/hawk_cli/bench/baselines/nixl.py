"""NIXL between two processes: its UCX back end, no progress thread, a target that sleeps between polls.

With fewer cores than threads that spin, its defaults are several times slower; this is its best set-up there.
"""

from __future__ import annotations

import sys
import time
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np
from nixl_cu12 import nixl_agent, nixl_agent_config  # type: ignore[import-not-found]

from hawk_cli.bench.baselines.common import answer, content, region, right, tile_order, translators

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from hawk_cli.bench.baselines.common import Bytes

POLL_SECONDS = 0.00015


def target(pipe: Connection, mebibytes: int) -> None:
    """Wait for each transfer's notification, translate, and tell when that was done."""
    arrived, tiles = region(mebibytes << 20), region(mebibytes << 20)
    agent = nixl_agent("target", nixl_agent_config(enable_prog_thread=False, backends=["UCX"]))
    agent.register_memory([(arrived.ctypes.data, arrived.size, 0, "")], "DRAM")
    pipe.send((agent.get_agent_metadata(), arrived.ctypes.data))
    on_arrival = translators(mebibytes, arrived, tiles)
    while (message := pipe.recv()) is not None:
        mode, tag, check = message
        pipe.send("ready")
        while not any(tag in note for notes in agent.get_new_notifs().values() for note in notes):
            time.sleep(POLL_SECONDS)
        on_arrival[mode]()
        done = time.monotonic()
        pipe.send((done, right(mode, mebibytes, arrived, tiles) if check else True))


def descriptors(agent: nixl_agent, mebibytes: int, source: Bytes, address: int) -> tuple[object, object]:
    """The translation as a list: a piece of 32 bytes each, in the order of the destination."""
    order = tile_order(mebibytes)
    sizes, device = np.full(order.size, 32), np.zeros(order.size, np.int64)
    here = np.column_stack([source.ctypes.data + order * 32, sizes, device]).astype(np.uint64)
    there = np.column_stack([address + np.arange(order.size) * 32, sizes, device]).astype(np.uint64)
    return agent.get_xfer_descs(here, "DRAM"), agent.get_xfer_descs(there, "DRAM")


def main(mebibytes: int) -> None:
    """Serve the benchmark's requests until its pipe closes."""
    context = get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, mebibytes), daemon=True)
    process.start()
    source = region(mebibytes << 20)
    source[:] = content(source.size)
    agent = nixl_agent("initiator", nixl_agent_config(enable_prog_thread=False, backends=["UCX"]))
    metadata, address = pipe.recv()
    agent.register_memory([(source.ctypes.data, source.size, 0, "")], "DRAM")
    name = agent.add_remote_agent(metadata)
    name = name.decode() if isinstance(name, bytes) else name
    agent.make_connection(name)
    whole = (
        agent.get_xfer_descs([(source.ctypes.data, source.size, 0)], "DRAM"),
        agent.get_xfer_descs([(address, source.size, 0)], "DRAM"),
    )
    answer(ready=True)
    seen: set[str] = set()
    for number, line in enumerate(sys.stdin):
        mode = line.strip()
        tag = f"{number}:".encode()
        lists = descriptors(agent, mebibytes, source, address) if mode == "descriptors" else whole
        handle = agent.initialize_xfer("WRITE", *lists, name, tag)
        pipe.send((mode, tag, mode not in seen))
        seen.add(mode)
        pipe.recv()
        time.sleep(0.01)  # let the target fall into its polling
        start = time.monotonic()
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        while not pipe.poll(0):  # progress, until the target has seen the notification
            agent.check_xfer_state(handle)
        done, correct = pipe.recv()
        agent.release_xfer_handle(handle)
        if state != "DONE" or not correct:
            answer(error=f"a transfer ended as {state}, bytes right: {correct}")
            return
        answer(seconds=done - start)
    pipe.send(None)


if __name__ == "__main__":
    main(int(sys.argv[1]))
