"""From one process to another: memory that both map, an event to start, an event when done.

The receiver copies from the sender's memory into its own, in its own layout, as the agent's shared-memory
transport does. The time is the sender's, from its event to the receiver's. Baselines run in an environment of
their own, two processes each, and are timed in the same rounds.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import select
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from hawk_agent.layouts.engines import engine
from hawk_cli.bench.baselines.environments import Baseline, baseline
from hawk_cli.bench.copying import named
from hawk_cli.bench.errors import BenchError
from hawk_cli.bench.measure import Measurements, Taken, interleave_cases
from hawk_cli.bench.worker import ACTIONS, KEY
from hawk_cli.bench.workload import workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WAIT_SECONDS = 60
PAIR = ("row-major", "tiles-16x16")
OWN = ACTIONS[:-1]
_PR_SET_PTRACER, _ANYONE = 0x59616D61, ctypes.c_ulong(-1)


def bench_between(mebibytes: int, rounds: int, *, baselines: tuple[str, ...] = ()) -> dict[str, Any]:
    """Measure between processes; keys begin with ``process_`` and ``speedup_over_``.

    Raises:
        BenchError: a process or a baseline failed, or what arrived isn't what was sent.
    """
    if engine() == "numpy":
        raise BenchError(
            "HAWK_ENGINE: the numpy engine has no plain copy of its own to compare with; build the C kernel"
        )
    with ExitStack() as stack:
        pair = stack.enter_context(_pair(mebibytes))
        cases: dict[str, Callable[[], Taken]] = {name: _turn(pair, name) for name in OWN}
        for name in baselines:
            other = stack.enter_context(baseline(name, mebibytes))
            cases |= {f"{name}{suffix}": _ask(other, mode) for suffix, mode in other.modes.items()}
        found = interleave_cases(cases, rounds)
        for action in ("fused", "cma_bounce"):
            pair.wipe()
            pair.run(action)
            pair.check()
    return _report(found)


def bench_descriptors(mebibytes: int, rounds: int) -> dict[str, Any]:
    """The engine against a descriptor list of NIXL's, 32 bytes a descriptor, both translating.

    Raises:
        BenchError: as `bench_between`.
    """
    with ExitStack() as stack:
        pair = stack.enter_context(_pair(mebibytes))
        other = stack.enter_context(baseline("nixl", mebibytes))
        cases = {"fused": _turn(pair, "fused"), "nixl_descriptors": _ask(other, "descriptors")}
        found = interleave_cases(cases, rounds)
        pair.check()
    return {
        "descriptors": (mebibytes << 20) // 32,
        **named("speedup_over_nixl_descriptors", found.speedup("fused", "nixl_descriptors")),
        **{f"descriptors_{case}_seconds": found.seconds(case).median for case in cases},
    }


class _Pair:
    """This process as the sender, and the receiver."""

    def __init__(self, mebibytes: int, stack: ExitStack) -> None:
        self.work = workload(*PAIR, mebibytes)
        fds = [os.memfd_create("hawk-bench"), os.memfd_create("hawk-bench")]
        self._go, self._done = os.eventfd(0), os.eventfd(0)
        fds += [self._go, self._done]
        for fd in fds:
            stack.callback(os.close, fd)
        os.ftruncate(fds[0], self.work.nest.source.nbytes)
        os.ftruncate(fds[1], self.work.nest.destination.nbytes)
        self.source = stack.enter_context(mmap.mmap(fds[0], 0))
        self.target = stack.enter_context(mmap.mmap(fds[1], 0))
        data = np.random.default_rng(1).integers(0, 256, len(self.source), dtype=np.uint8)
        self.source[:] = data.tobytes()
        address = np.frombuffer(self.source, np.uint8).ctypes.data
        command = [sys.executable, "-m", "hawk_cli.bench.worker", *map(str, fds), *PAIR]
        command += map(str, (mebibytes, os.getpid(), address))
        # Where only a debugger may read another process, this lets the worker do so.
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYONE, 0, 0, 0)
        self._process = subprocess.Popen(command, pass_fds=fds)
        stack.callback(self._stop)
        self._wait()

    def run(self, action: str) -> None:
        """Have the receiver do one thing, and wait until it has."""
        os.eventfd_write(self._go, ACTIONS.index(action) + 1)
        self._wait()

    def wipe(self) -> None:
        """Clear the destination, so that what is checked next is what was moved next."""
        np.frombuffer(self.target, np.uint8)[:] = 0

    def check(self) -> None:
        """Refuse to report figures of a copy that was wrong."""
        left, right = self.work.digests(self.source, self.target, KEY)
        if left != right:
            raise BenchError("digest: what arrived in the other process differs; the figures mean nothing")

    def _wait(self) -> None:
        ready, _, _ = select.select([self._done], [], [], _WAIT_SECONDS)
        if not ready or self._process.poll() is not None:
            raise BenchError(f"worker: no answer within {_WAIT_SECONDS} s; see its messages above")
        os.eventfd_read(self._done)

    def _stop(self) -> None:
        if self._process.poll() is None:
            os.eventfd_write(self._go, len(ACTIONS))
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(5)


@contextmanager
def _pair(mebibytes: int) -> Iterator[_Pair]:
    with ExitStack() as stack:
        yield _Pair(mebibytes, stack)


def _turn(pair: _Pair, action: str) -> Callable[[], Taken]:
    def turn() -> Taken:
        own = resource.getrusage(resource.RUSAGE_SELF)
        start = time.perf_counter()
        pair.run(action)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_SELF)
        return Taken(wall, max(after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime, 1e-9))

    return turn


def _ask(other: Baseline, mode: str) -> Callable[[], Taken]:
    return lambda: Taken(other.transfer(mode), 1e-9)


def _report(found: Measurements) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for case in found.taken:
        answer[f"process_{case}_seconds"] = found.seconds(case).median
        if case in OWN[1:]:
            answer |= named(f"process_fused_over_{case}", found.speedup("fused", case))
        elif case != "fused":
            answer |= named(f"speedup_over_{case}", found.speedup("fused", case))
    return answer
