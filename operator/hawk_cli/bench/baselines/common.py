"""Shared by both baselines' processes: memory, translation on arrival, and answers as lines of JSON."""

from __future__ import annotations

import json
import mmap
import sys
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hawk_cli.bench.workload import FEATURES, HEADS, workload

if TYPE_CHECKING:
    from collections.abc import Callable

Bytes = npt.NDArray[np.uint8]


def region(nbytes: int) -> Bytes:
    """Anonymous memory whose pages are all there."""
    made = np.frombuffer(mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    made[:] = 1
    return made


def content(nbytes: int) -> Bytes:
    """The bytes that are sent."""
    return np.random.default_rng(3).integers(0, 256, nbytes, dtype=np.uint8)


def tile_order(mebibytes: int) -> npt.NDArray[np.int64]:
    """Which piece of 32 bytes of row-major memory comes where in 16x16 tiles."""
    tokens = (mebibytes << 20) // (HEADS * FEATURES * 2)
    pieces = np.arange((mebibytes << 20) // 32).reshape(HEADS, tokens // 16, 16, FEATURES // 16)
    return np.ascontiguousarray(pieces.transpose(0, 1, 3, 2)).ravel()


def translators(mebibytes: int, arrived: Bytes, tiles: Bytes) -> dict[str, Callable[[], None]]:
    """The translation on arrival: none, this package's kernel, or numpy's fastest way (take)."""
    work = workload("row-major", "tiles-16x16", mebibytes)
    order = tile_order(mebibytes)
    from_pieces, to_pieces = arrived.view("V32"), tiles.view("V32")

    def kernel() -> None:
        work.run(arrived, tiles)

    def take() -> None:
        np.take(from_pieces, order, out=to_pieces, mode="clip")

    return {"plain": lambda: None, "descriptors": lambda: None, "kernel": kernel, "numpy": take}


def right(mode: str, mebibytes: int, arrived: Bytes, tiles: Bytes) -> bool:
    """True if the last transfer left what it should have."""
    sent = content(arrived.size)
    if mode == "plain":
        return bool(np.array_equal(arrived, sent))
    expected = np.zeros(tiles.size, np.uint8)
    workload("row-major", "tiles-16x16", mebibytes).run(sent, expected)
    return bool(np.array_equal(arrived if mode == "descriptors" else tiles, expected))


def answer(**facts: object) -> None:
    """One line to the benchmark."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
