"""The fused copy in one process, against the fastest plain copies and the path that it replaces."""

from __future__ import annotations

import mmap
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hawk_agent.layouts import engines
from hawk_agent.layouts.engines import engine
from hawk_cli.bench.errors import BenchError
from hawk_cli.bench.measure import Measurements, Spread, interleave_cases, local
from hawk_cli.bench.workload import ELEMENT, FEATURES, HEADS, workload

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = (
    ("row-major", "tiles-16x16"),
    ("tiles-16x16", "row-major"),
    ("pages-hnd", "tiles-16x16"),
    ("pages-nhd", "tiles-16x16"),
    ("tiles-16x16", "pages-hnd"),
    ("tiles-16x16", "pages-nhd"),
    ("row-major", "nz"),
)
SAMPLE = 256
_KEY = 0x5EED


def memory(nbytes: int) -> mmap.mmap:
    """Anonymous memory whose pages are all there."""
    made = mmap.mmap(-1, nbytes)
    np.frombuffer(made, np.uint8)[:] = 1
    return made


def bench_copy(mebibytes: int, rounds: int, *, pairs: tuple[tuple[str, str], ...] = PAIRS) -> dict[str, Any]:
    """Measure, and return what `hawk bench copy` prints: each ratio a median with its spread beside it.

    Raises:
        BenchError: the C kernel isn't there, so that there is no plain copy to compare with.
    """
    path = engine()
    if path == "numpy":
        raise BenchError(
            "HAWK_ENGINE: the numpy engine has no plain copy of its own to compare with; build the C kernel"
        )
    works = {f"{source}>{target}": workload(source, target, mebibytes) for source, target in pairs}
    first = next(iter(works.values()))
    source, target, stage = (memory(max(w.nest.destination.nbytes for w in works.values())) for _ in range(3))
    np.frombuffer(source, np.uint8)[:] = np.random.default_rng(1).integers(
        0, 256, len(source), dtype=np.uint8
    )
    view = memoryview(source)[: first.nbytes]
    kernel = engines.kernel()
    actions: dict[str, Callable[[], object]] = {
        "memcpy": lambda: kernel.plain(path[2:], view, target, False),
        "nt_memcpy": lambda: kernel.plain(path[2:], view, target, True),
        "digest": lambda: first.run(source, target, _KEY),
        "sampled_digest": lambda: first.nest.digest_source(source, _KEY, sample=SAMPLE),
        **{name: partial(work.run, source, target) for name, work in works.items()},
    }
    cases = {name: local(action, settle=True) for name, action in actions.items()}
    found = interleave_cases(cases, rounds)
    # Apart: it moves six times the bytes, and what it leaves in the caches slows several cases after it.
    naive = interleave_cases(
        {"naive": local(lambda: _naive(view, target, stage)), "fused": cases[next(iter(works))]}, rounds
    )
    for work in works.values():
        work.run(source, target)
        left, right = work.digests(source, target, _KEY)
        if left != right:
            raise BenchError(
                "digest: source and destination differ after a benchmark; its figures mean nothing"
            )
    answer = report(found, next(iter(works)), list(works), mebibytes)
    return answer | named("fused_over_naive", naive.speedup("fused", "naive", cpu=True))


def report(found: Measurements, fused: str, pairs: list[str], mebibytes: int) -> dict[str, Any]:
    """Ratios and rates of the rounds, under the names that scripts read."""
    answer: dict[str, Any] = {
        "engine": engine(),
        "size_bytes": mebibytes << 20,
        "rounds": len(found.taken[fused]),
    }
    for over in ("nt_memcpy", "memcpy"):
        answer |= named(f"fused_over_{over}", found.speedup(fused, over, cpu=True))
    answer |= named("fused_over_nt_memcpy_wall", found.speedup(fused, "nt_memcpy"))
    digest, sampled = (
        found.speedup(fused, "digest", cpu=True),
        found.speedup(fused, "sampled_digest", cpu=True),
    )
    answer |= named("digest_share", Spread(digest.median - 1, digest.low - 1, digest.high - 1))
    answer |= named("sampled_digest_share", sampled)
    for pair in pairs:
        answer |= named(f"{pair}_over_nt_memcpy", found.speedup(pair, "nt_memcpy", cpu=True))
    for case in found.taken:
        answer[f"{case}_seconds"] = found.seconds(case).median
        answer[f"{case}_cpu_seconds"] = found.seconds(case, cpu=True).median
    return answer


def named(key: str, value: Spread) -> dict[str, Any]:
    """A median under its name, and its quartiles beside it."""
    return {key: round(value.median, 3), f"{key}_spread": [round(value.low, 3), round(value.high, 3)]}


def _naive(source: memoryview, target: mmap.mmap, stage: mmap.mmap) -> None:
    """Device to host, host to card, card to host, a transposition there, and to the device: all in memory."""
    left = np.frombuffer(source, np.uint8)
    right, middle = (np.frombuffer(buffer, np.uint8)[: left.size] for buffer in (target, stage))
    np.copyto(middle, left)
    np.copyto(right, middle)
    np.copyto(middle, right)
    tokens = left.size // (HEADS * FEATURES * ELEMENT)
    rows = middle.view(np.uint16).reshape(HEADS, tokens // 16, 16, FEATURES // 16, 16)
    tiles = np.ascontiguousarray(rows.transpose(0, 1, 3, 2, 4))
    np.copyto(right.view(np.uint16), tiles.ravel())
