"""The cost of a full digest to a copy, by the length of the runs that are hashed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hawk_cli.bench.copying import memory, named
from hawk_cli.bench.measure import Spread, interleave_cases, local
from hawk_cli.bench.workload import workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_cli.bench.measure import Taken

RUNS: dict[str, tuple[str, str, str, dict[str, int]]] = {
    "1": ("row-major", "transposed", "int8", {}),
    "2": ("row-major", "transposed", "float16", {}),
    "2_back": ("transposed", "row-major", "float16", {}),
    "4": ("row-major", "transposed", "float32", {}),
    "8": ("row-major", "tiles-16x16", "int8", {"d0": 8}),
    "16": ("row-major", "tiles-16x16", "int8", {}),
    "32": ("row-major", "tiles-16x16", "float16", {}),
    "64": ("row-major", "tiles-32x32", "float16", {}),
    "256": ("pages-nhd", "row-major", "float16", {}),
    "4096": ("pages-hnd", "row-major", "float16", {}),
}
"""A pair for each length in bytes that is contiguous at both sides: presets, element type, target's tiles."""
_KEY = 0x5EED


def bench_digest(mebibytes: int, rounds: int) -> dict[str, Any]:
    """The copy with its digest against the copy alone, as a share: ``digest_share_of_N_byte_runs``.

    Raises:
        LayoutError: the size isn't one that a benchmark takes.
    """
    works = {
        run: workload(source, target, mebibytes, dtype, tiles)
        for run, (source, target, dtype, tiles) in RUNS.items()
    }
    data, out = (memory(mebibytes << 20) for _ in range(2))
    content = np.random.default_rng(1).integers(0, 256, len(data), dtype=np.uint8)
    np.frombuffer(data, np.uint8)[:] = content
    cases: dict[str, Callable[[], Taken]] = {}
    for run, work in works.items():
        cases[f"copy {run}"] = local(partial(work.run, data, out), settle=True)
        cases[f"digest {run}"] = local(partial(work.run, data, out, _KEY), settle=True)
    found = interleave_cases(cases, rounds)
    answer: dict[str, Any] = {}
    for run in RUNS:
        over = found.speedup(f"copy {run}", f"digest {run}", cpu=True)
        share = Spread(over.median - 1, over.low - 1, over.high - 1)
        answer |= named(f"digest_share_of_{run}_byte_runs", share)
    return answer
