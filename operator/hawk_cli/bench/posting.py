"""The processor's cost of a work request: built and posted to a device that does nothing.

Measured on the translation of row-major memory to tiles, whose requests gather 32 pieces each, in chains of
64; beside it the same requests as structured memory that numpy fills, and, where it is installed, as pyverbs'
objects. Neither of those two posts anything, which favours them. No RDMA hardware or library is needed.
"""

from __future__ import annotations

import sys
from array import array
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hawk_agent.layouts import Layout, compile_nest, engines
from hawk_agent.transports.verbs.library import native
from hawk_cli.bench.copying import named
from hawk_cli.bench.errors import BenchError
from hawk_cli.bench.measure import Spread, interleave_cases, local

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_cli.bench.measure import Measurements, Taken

CHAIN: Final = 64
PIECES: Final = 32
_SIZES: Final = {"h": 8, "s": 16384, "d": 128}
_NUMPY_CHAINS: Final = 64
_DEBIAN: Final = "/usr/lib/python3/dist-packages"
_BASE: Final = 1 << 40
_REQUEST: Final = np.dtype(
    {
        "names": [
            "wr_id",
            "next",
            "sg_list",
            "num_sge",
            "opcode",
            "send_flags",
            "imm",
            "remote_addr",
            "rkey",
        ],
        "formats": ["u8", "u8", "u8", "i4", "i4", "u4", ">u4", "u8", "u4"],
        "offsets": [0, 8, 16, 24, 28, 32, 36, 40, 48],
        "itemsize": 128,
    }
)
_PIECE: Final = np.dtype([("addr", "u8"), ("length", "u4"), ("lkey", "u4")])


def bench_posting(rounds: int) -> dict[str, Any]:
    """Measure, and return what `hawk bench verbs` prints: microseconds of processor time a request.

    Raises:
        BenchError: the verbs extension isn't built.
    """
    if native is None:
        raise BenchError("verbs: the extension isn't built; install a C compiler and reinstall the package")
    ours = _Engine()
    counts = {"post": ours.requests, "numpy": CHAIN * _NUMPY_CHAINS}
    cases: dict[str, Callable[[], Taken]] = {
        "post": local(ours.run),
        "numpy": local(_NumpyChain().run),
    }
    objects = _pyverbs()
    if objects is not None:
        cases["pyverbs"], counts["pyverbs"] = local(objects), CHAIN
    return _report(interleave_cases(cases, rounds), counts, ours.pieces)


def _report(found: Measurements, counts: dict[str, int], pieces: float) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "rounds": len(found.taken["post"]),
        "chain": CHAIN,
        "pieces_per_request": pieces,
    }
    for case, count in counts.items():
        taken = found.seconds(case, cpu=True)
        each = [seconds * 1e6 / count for seconds in (taken.median, taken.low, taken.high)]
        answer |= named(f"{case}_us_per_request", Spread(*each))
    for baseline in counts.keys() - {"post"}:
        times = found.speedup("post", baseline, cpu=True)
        each = [ratio * counts["post"] / counts[baseline] for ratio in (times.median, times.low, times.high)]
        answer |= named(f"post_over_{baseline}", Spread(*each))
    return answer


class _Engine:
    """The cursor over a whole translation, a chain a call, on a queue whose provider does nothing."""

    def __init__(self) -> None:
        nest = compile_nest(Layout.preset("row-major", _SIZES), Layout.preset("tiles-16x16", _SIZES))
        keys = array("Q", [0, nest.source.nbytes, _BASE, 5])
        side = (nest.source.nbytes, np.zeros(0, np.int64), 0, keys)
        words = engines.prepare(nest.moves).words
        self._make = partial(native.Cursor, words, False, side, side, PIECES, 1 << 30, 0, CHAIN, None)
        self._queue = native.noop_queue(2 * CHAIN, PIECES, 0)
        cursor = self._walk()
        self.requests, self.pieces = cursor.requests, round(cursor.pieces / cursor.requests, 1)

    def _walk(self) -> Any:
        cursor = self._make()
        while not cursor.done:
            cursor.post(self._queue, CHAIN)
        return cursor

    def run(self) -> None:
        """Build and post all of it."""
        self._walk()


class _NumpyChain:
    """The same requests as structured memory, filled by numpy."""

    def __init__(self) -> None:
        self.requests, self.pieces = np.zeros(CHAIN, _REQUEST), np.zeros(CHAIN * PIECES, _PIECE)
        self._numbers = np.arange(CHAIN, dtype=np.uint64)
        steps = np.arange(CHAIN * PIECES, dtype=np.uint64)
        self._from = _BASE + steps * 256
        self._to = _BASE + self._numbers * (PIECES * 32)

    def run(self) -> None:
        """Fill some chains."""
        for _ in range(_NUMPY_CHAINS):
            self._fill()

    def _fill(self) -> None:
        requests, pieces = self.requests, self.pieces
        pieces["addr"], pieces["length"], pieces["lkey"] = self._from, 32, 5
        requests["wr_id"] = self._numbers
        requests["next"] = requests.ctypes.data + _REQUEST.itemsize * (self._numbers + 1)
        requests["next"][-1] = 0
        requests["sg_list"] = pieces.ctypes.data + _PIECE.itemsize * PIECES * self._numbers
        requests["num_sge"], requests["opcode"], requests["send_flags"] = PIECES, 0, 0
        requests["send_flags"][-1] = 2
        requests["remote_addr"], requests["rkey"] = self._to, 7


def _pyverbs() -> Callable[[], object] | None:
    """A chain of pyverbs' objects, made and given back; None where pyverbs can't be imported."""
    if _DEBIAN not in sys.path:
        sys.path.append(_DEBIAN)
    try:
        wr = import_module("pyverbs.wr")
    except ImportError:
        return None

    def chain() -> None:
        made, following = [], None
        for number in reversed(range(CHAIN)):
            pieces = [wr.SGE(_BASE + (number * PIECES + k) * 256, 32, 5) for k in range(PIECES)]
            following = wr.SendWR(wr_id=number, opcode=0, num_sge=PIECES, sg=pieces, next_wr=following)
            following.set_wr_rdma(7, _BASE + number * PIECES * 32)
            made.append(following)
        for request in made:
            request.close()  # it holds its list outside Python's sight

    return chain
