"""A card's times for bytes, requests and pieces, measured on the card itself at start.

Two queue pairs of one port, connected to each other, carry four small transfers: one long run, many short
writes, full lists of short pieces, and many short reads. The first gives bytes a second, the others the
prices of a request that writes, of a piece, and of a request that reads. A network between two cards may be
slower than a card to itself: then predictions of bytes are too good, and the metric of predicted over
measured shows by how much.
"""

from __future__ import annotations

import mmap
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.transports.verbs.completion import CompletionQueue, finish_posting
from hawk_agent.transports.verbs.posting import LocalMemory, Posting, RemoteMemory
from hawk_agent.transports.verbs.queue_pair import QueuePair
from hawk_agent.transports.verbs.registration import DESTINATION, PULLED, register_memory

if TYPE_CHECKING:
    from hawk_agent.layouts import Nest
    from hawk_agent.plans import Costs
    from hawk_agent.transports.verbs.device import RdmaDevice

LEAST_BULK: Final = 64 << 10
MOST_BULK: Final = 8 << 20
BULK_SECONDS: Final = 0.005
"""The long run is made so long that it takes about this, or the clock would be measured."""
PIECE: Final = 32
REQUESTS: Final = 128
LISTS: Final = 64
ROUNDS: Final = 2
_DEPTH: Final = 256
_LEAST: Final = 1e-10
"""Seconds: no price is nothing, or a plan of any number of requests would look free."""


def measure_prices(device: RdmaDevice, costs: Costs) -> Costs:
    """These costs with the device's prices for bytes, requests and pieces; some milliseconds on a card."""
    lists = min(device.limits.max_sge, 32)
    with mmap.mmap(-1, 2 * MOST_BULK) as memory:
        registered = register_memory(device, memory, len(memory), DESTINATION | PULLED)
        completions = CompletionQueue(device, 2 * (_DEPTH + 1))
        ends: list[QueuePair] = []
        try:
            ends += (QueuePair(device, _DEPTH, lists, completions, receives=1) for _ in range(2))
            one, other = ends
            one.connect(other.info, 0)
            other.connect(one.info, DESTINATION | PULLED)

            def seconds(nest: Nest, direction: Literal["write", "read"] = "write") -> float:
                local = LocalMemory(MOST_BULK, registered.local_ranges)
                ranges = tuple(
                    replace(one, offset=0, nbytes=MOST_BULK, address=one.address + MOST_BULK)
                    for one in registered.remote_ranges
                )
                there = RemoteMemory(MOST_BULK, ranges)
                return min(
                    _timed(Posting(one, nest, local, there, direction=direction)) for _ in range(ROUNDS)
                )

            first = LEAST_BULK / seconds(_runs(1, LEAST_BULK, gap=0, landing=0))
            long = min(max(LEAST_BULK, int(first * BULK_SECONDS)), MOST_BULK)
            bulk = seconds(_runs(1, long, gap=0, landing=0))
            request = seconds(_runs(REQUESTS, PIECE, gap=PIECE, landing=PIECE)) / REQUESTS
            read = seconds(_runs(REQUESTS, PIECE, gap=PIECE, landing=PIECE), "read") / REQUESTS
            piece = seconds(_runs(LISTS * lists, PIECE, gap=PIECE, landing=0)) / (LISTS * lists)
        finally:
            for end in ends:
                end.close()
            completions.close()
            registered.close()
    sge = max((piece - request / lists) / (1 - 1 / lists) if lists > 1 else 0.0, _LEAST)
    return replace(
        costs,
        link_bytes_per_s=long / bulk,
        sge_seconds=sge,
        request_seconds=max(request - sge, _LEAST),
        read_request_seconds=max(read - sge, _LEAST),
    )


def _runs(count: int, nbytes: int, *, gap: int, landing: int) -> Nest:
    """So many runs, with gaps between them at the source and at the destination."""
    sizes = {"s": count, "d": nbytes}
    source, destination = (
        Layout.parse("s d", sizes, "int8", strides={"s": nbytes + skip}) for skip in (gap, landing)
    )
    return compile_nest(source, destination)


def _timed(posting: Posting) -> float:
    began = time.perf_counter()
    finish_posting(posting)
    return time.perf_counter() - began
