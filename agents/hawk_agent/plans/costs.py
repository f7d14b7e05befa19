"""Costs of a path's operations, and how they are measured."""

from __future__ import annotations

import mmap
import time
from dataclasses import dataclass, replace

from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.layouts.errors import LayoutError

_SAMPLE = 16 << 20


@dataclass(frozen=True, slots=True)
class Costs:
    """Prices of a path. The defaults are assumptions for a 400 Gb/s card, until they are measured.

    Attributes:
        translate_bytes_per_s: the fused copy; measured by `calibrate`.
        link_bytes_per_s: the network, or another process' memory.
        request_seconds: posting and executing one work request that writes.
        read_request_seconds: the same of one that reads: the peer has to answer, and answers to few at once.
        sge_seconds: one more piece in a work request's list.
        entry_seconds: one piece of a strided key.
        key_seconds: making a strided key, a work request of its own.
        invalidate_seconds: ending it, another one.
        key_uses: transfers that a key serves where it can be kept; 1 makes every key anew.
        calibrated: whether `translate_bytes_per_s` was measured on this machine.
    """

    translate_bytes_per_s: float = 8e9
    link_bytes_per_s: float = 50e9
    request_seconds: float = 50e-9
    read_request_seconds: float = 125e-9
    sge_seconds: float = 4e-9
    entry_seconds: float = 4e-9
    key_seconds: float = 600e-9
    invalidate_seconds: float = 400e-9
    key_uses: int = 1
    calibrated: bool = False

    def __post_init__(self) -> None:
        for name in ("translate_bytes_per_s", "link_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise LayoutError(f"{name}: {getattr(self, name)}; give a rate above 0")
        if self.key_uses < 1:
            raise LayoutError(f"key_uses: {self.key_uses}; give 1 to make keys for each transfer, or more")


def calibrate_costs(costs: Costs | None = None, *, rounds: int = 5) -> Costs:
    """Measure the fused copy on this machine: the fastest of some translations of 16 MiB, about 30 ms.

    Raises:
        LayoutError: `HAWK_ENGINE` names an engine that this machine can't run.
    """
    sizes = {"h": 8, "s": 8192, "d": 128}
    source, target = Layout.preset("row-major", sizes), Layout.preset("tiles-16x16", sizes)
    nest = compile_nest(source, target)
    taken = []
    before, after = mmap.mmap(-1, _SAMPLE), mmap.mmap(-1, _SAMPLE)  # let go of: an error may hold views
    nest.run(before, after)  # the first touch of the pages is not what we measure
    for _ in range(rounds):
        start = time.perf_counter()
        nest.run(before, after)
        taken.append(time.perf_counter() - start)
    return replace(costs or Costs(), translate_bytes_per_s=_SAMPLE / min(taken), calibrated=True)
