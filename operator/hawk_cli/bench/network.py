"""TCP between two processes: the agent's, which translates on the way, against the same bytes as they are.

This process sends; another, ``python -m hawk_cli.bench.network MIB``, receives and says when it was done.
All go through sockets of the same settings on the loopback, and no bytes are checked while the clock runs.
Plain TCP comes twice: as it is usually written, and read as the agent reads, so that the second ratio is the
price of translation alone.
"""

from __future__ import annotations

import asyncio
import json
import resource
import select
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from hawk_agent.net import sockets
from hawk_agent.net.reading import Reader
from hawk_agent.protocol import peer_pb2
from hawk_agent.supervision import TaskSupervisor
from hawk_agent.transfer.chunks import Chunk
from hawk_agent.transfer.translation import Selection, Translation
from hawk_agent.transports.tcp import Tcp
from hawk_cli.bench.copying import memory, named
from hawk_cli.bench.errors import BenchError
from hawk_cli.bench.measure import Taken, interleave_cases
from hawk_cli.bench.workload import workload

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable

    from hawk_agent.memory.region import CacheRegion

_HOST = "127.0.0.1"
_PAIR = ("row-major", "tiles-16x16")
_KEY = 0x5EED
_CHUNK = Chunk(0, 0, 1)
_CASES = ("translated", "plain", "plain_low_water")
_SLICE = 1 << 20
"""Bytes that plain TCP sends and reads at a time; less and more were slower."""
_WAIT_SECONDS = 60


@dataclass
class _Memory:
    """As much of a region as a transport looks at."""

    memory: mmap.mmap

    @property
    def region(self) -> CacheRegion:
        return cast("CacheRegion", self)


def bench_tcp(mebibytes: int, rounds: int) -> dict[str, Any]:
    """Measure, and return what `hawk bench tcp` prints.

    Raises:
        BenchError: the other process failed, or what arrived isn't what was sent.
        LayoutError: the size isn't one that a benchmark takes.
    """
    with ExitStack() as stack:
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        pool = stack.enter_context(ThreadPoolExecutor(2))
        sender = _Sender(mebibytes, loop, pool, stack)
        found = interleave_cases({name: sender.turn(name) for name in _CASES}, rounds)
        sender.check()
    answer: dict[str, Any] = {"size_bytes": mebibytes << 20, "rounds": rounds}
    answer |= named("tcp_over_plain_tcp", found.speedup("translated", "plain"))
    answer |= named("tcp_over_plain_tcp_cpu", found.speedup("translated", "plain", cpu=True))
    answer |= named("tcp_over_low_water_tcp", found.speedup("translated", "plain_low_water"))
    for case in found.taken:
        answer[f"tcp_{case}_seconds"] = found.seconds(case).median
        answer[f"tcp_{case}_cpu_seconds"] = found.seconds(case, cpu=True).median
    return answer


class _Sender:
    """This process' end, and the process at the other."""

    def __init__(
        self, mebibytes: int, loop: asyncio.AbstractEventLoop, pool: ThreadPoolExecutor, stack: ExitStack
    ) -> None:
        self._work = workload(*_PAIR, mebibytes)
        self._loop = loop
        self._source = memory(self._work.nbytes)
        np.frombuffer(self._source, np.uint8)[:] = np.random.default_rng(1).integers(
            0, 256, len(self._source), dtype=np.uint8
        )
        command = [sys.executable, "-m", "hawk_cli.bench.network", str(mebibytes)]
        self._other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(self._stop)
        hello = self._answer()
        transport = Tcp(_HOST, 0, _HOST, sending=pool, receiving=pool, supervisor=TaskSupervisor())
        _, self._end = transport.offer(_translation(mebibytes), _Memory(self._source).region)
        answer = peer_pb2.Answer.FromString(bytes.fromhex(hello["answer"]))
        loop.run_until_complete(self._end.connect(answer))
        stack.callback(lambda: loop.run_until_complete(self._end.close()))
        self._plain = stack.enter_context(socket.create_connection((_HOST, hello["port"]), _WAIT_SECONDS))
        sockets.tune_socket(self._plain)

    def turn(self, name: str) -> Callable[[], Taken]:
        """One case: from the first byte to the moment the other process has the last in its place."""

        def turn() -> Taken:
            self._say(name)
            self._answer()
            cpu, wall = _used(), time.monotonic()
            if name == "translated":
                self._loop.run_until_complete(self._end.send(_CHUNK))
            else:
                self._send_plain()
            own = _used() - cpu
            done = self._answer()
            return Taken(done["done"] - wall, own + done["cpu_seconds"])

        return turn

    def _send_plain(self) -> None:
        with memoryview(self._source) as view:
            for start in range(0, len(view), _SLICE):
                self._plain.sendall(view[start : start + _SLICE])

    def check(self) -> None:
        """Refuse to report figures of a transfer that was wrong."""
        self.turn("translated")()
        self._say("digest")
        if self._answer()["digest"] != self._work.nest.digest_source(self._source, _KEY):
            raise BenchError("digest: what arrived over TCP differs; the figures mean nothing")

    def _say(self, word: str) -> None:
        cast("IO[str]", self._other.stdin).write(f"{word}\n")
        cast("IO[str]", self._other.stdin).flush()

    def _answer(self) -> dict[str, Any]:
        out = cast("IO[str]", self._other.stdout)
        ready, _, _ = select.select([out], [], [], _WAIT_SECONDS)
        line = out.readline() if ready else ""
        if not line:
            raise BenchError(f"receiver: no answer within {_WAIT_SECONDS} s; see its messages above")
        found: dict[str, Any] = json.loads(line)
        return found

    def _stop(self) -> None:
        cast("IO[str]", self._other.stdin).close()
        try:
            self._other.wait(5)
        except subprocess.TimeoutExpired:
            self._other.kill()
            self._other.wait(5)
        cast("IO[str]", self._other.stdout).close()


def _translation(mebibytes: int) -> Translation:
    nest = workload(*_PAIR, mebibytes).nest
    return Translation(Selection(nest.source), Selection(nest.destination))


def _used() -> float:
    """Processor seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def receive(mebibytes: int) -> None:
    """Serve the other process' words until there are no more."""
    nest = workload(*_PAIR, mebibytes).nest
    target = memory(nest.destination.nbytes)
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(2) as pool, socket.create_server((_HOST, 0)) as server:
        transport = Tcp(_HOST, 0, _HOST, sending=pool, receiving=pool, supervisor=TaskSupervisor())
        await transport.start()
        offer = peer_pb2.Offer(transport=transport.name)
        answer, end = await transport.accept(offer, _translation(mebibytes), _Memory(target).region, "bench")
        _print(answer=answer.SerializeToString().hex(), port=server.getsockname()[1])
        plain, _ = await loop.run_in_executor(pool, server.accept)
        sockets.tune_socket(plain)
        while word := (await loop.run_in_executor(pool, sys.stdin.readline)).strip():
            if word == "digest":
                _print(digest=nest.digest_destination(target, _KEY))
                continue
            cpu = _used()
            _print(ready=True)
            if word == "translated":
                await end.receive(_CHUNK)
            else:
                read = _read_plain if word == "plain" else _read_at_low_water
                await loop.run_in_executor(pool, read, plain, target)
            _print(done=time.monotonic(), cpu_seconds=_used() - cpu)
        plain.close()
        await end.stop()
        await transport.close()


def _read_plain(plain: socket.socket, target: mmap.mmap) -> None:
    plain.settimeout(_WAIT_SECONDS)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    with memoryview(target) as view:
        done = 0
        while done < len(view):
            count = plain.recv_into(view[done : done + _SLICE])
            if not count:
                raise BenchError("the sender closed the connection before the last byte")
            done += count


def _read_at_low_water(plain: socket.socket, target: mmap.mmap) -> None:
    with memoryview(target) as view:
        Reader(plain, lambda: False).fill(view)


def _print(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(receive(int(sys.argv[1])))
