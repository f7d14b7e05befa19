"""Scenarios of a transfer in which any one wait of any task of an agent is cut off.

A peer's disconnection cancels the calls that it made, a closed channel those that wait on it, an engine's its
requests. Which task that is, and where it stood, is nothing that the outcome may depend on. So every wait
that a scenario meets can be cut, one a run, in both ways in which that happens; after each run nothing may be
held, every link is proved again, and the next transfer is right.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hawk_agent.client import AgentClient, layer_events
from hawk_agent.errors import HawkAgentError
from hawk_agent.service.links import LinkState
from hawk_agent.service.settings import PeerAddress
from hawk_agent.streaming import conversation, sender
from hawk_agent.transfer.outcome import TransferOutcome
from tests.unit.agent.cutting import Cutter, Wait, alive
from tests.unit.agent.house import (
    GEOMETRY,
    ROWS,
    TILE,
    TILES,
    Cache,
    House,
    eventually,
    off,
    open_cache,
    transfer_all,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Any

    from hawk_agent.client import LeaseHandle, Transfer
    from hawk_agent.streaming.job import SendJob
    from hawk_agent.streaming.report import Report

QUIET_SECONDS = 60.0
"""A limit for a loaded machine."""
SILENCE_SECONDS = 0.3
"""After so long a call whose handler was cut off is missed, in a run with a cut. A run that others keep busy
may miss more; whatever it missed, both ends must agree on the outcome."""
TERMS = {"grant": 2.0, "stall": 2.0, "grace": 0.1, "max_grace": 20.0}
OTHERS = 6
"""Connections of links that are being made anew; what each of a hundred cuts kept would be more."""
SIZES = GEOMETRY | {"l": 3, "s": 16}


def descriptors() -> Counter[str]:
    """Open files by kind."""
    kinds: Counter[str] = Counter()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            kinds[str(link.readlink()).split(":[")[0]] += 1
    return kinds


class Pair:
    """Two agents with an engine each; the engines come back when they are cut off."""

    def __init__(self, house: House, transport: str) -> None:
        self.house = house
        self.transport = transport
        self.caches: dict[str, Cache] = {}
        self.reports: list[Report] = []
        self.seed = 0
        self.hurried = False
        self.tasks = 0
        self.files: Counter[str] = Counter()

    async def start(self) -> None:
        for node in ("gpu", "npu"):
            await self.house.agent(node, transports=(self.transport,), **TERMS)
        await self.house.wire(("gpu", "npu"), ("npu", "gpu"))  # as the operator does: pairs
        self.gpu, self.npu = self.house.agents["gpu"], self.house.agents["npu"]
        for node in ("gpu", "npu"):
            await self.engine(node)
        count, make = self.gpu.sends._count, self.gpu.sends._job

        def counted(report: Report) -> None:
            self.reports.append(report)
            count(report)

        def hurried(*arguments: Any) -> SendJob:
            job = make(*arguments)
            if self.hurried:
                job.terms = replace(job.terms, stall=SILENCE_SECONDS)
            return job

        self.gpu.sends._count = counted  # type: ignore[method-assign]
        self.gpu.sends._job = hurried  # type: ignore[method-assign]

    @contextlib.contextmanager
    def hurry(self, lease: LeaseHandle) -> Iterator[None]:
        """Let both ends of one transfer miss each other soon."""
        held = self.npu.table.get(lease.id)
        held.lease = replace(held.lease, terms=replace(held.lease.terms, stall=SILENCE_SECONDS))
        with pytest.MonkeyPatch.context() as patch:
            for module in (conversation, sender):
                patch.setattr(module, "ANSWER_SECONDS", SILENCE_SECONDS)
            self.hurried = True
            yield
            self.hurried = False

    async def engine(self, node: str) -> Cache:
        """The node's cache, of an engine that is connected."""
        known = self.caches.get(node)
        if known is not None and known.engine.alive:
            return known
        if known is not None:
            await off(known.engine.close)
            known.close()
        notation, sizes = (ROWS, SIZES) if node == "gpu" else (TILES, SIZES | TILE)
        async with asyncio.timeout(10):
            while True:
                try:
                    engine = await off(AgentClient, self.house.agents[node].settings.socket, timeout=10)
                    cache: Cache = await off(open_cache, engine, "kv", notation, sizes, node)
                    break
                except HawkAgentError:
                    await asyncio.sleep(0.05)
        self.caches[node] = cache
        return cache

    async def close(self) -> None:
        for cache in self.caches.values():
            await off(cache.engine.close)
            cache.close()

    async def reserve(self) -> LeaseHandle:
        """A lease; the request for it may be cut off, and is made again."""
        return await again(self._reserve)

    async def _reserve(self) -> LeaseHandle:
        destination = await self.engine("npu")
        return await off(destination.engine.reserve, "kv", "r")  # type: ignore[no-any-return]

    async def quiet(self) -> None:
        """Nothing is held, every link is proved."""

        def held() -> list[str]:
            found = [f"{len(agent.table)} leases" for agent in (self.gpu, self.npu) if len(agent.table)]
            found += [
                f"{region.name} has {region.users} users"
                for agent in (self.gpu, self.npu)
                for region in agent.regions
                if region.users
            ]
            found += [f"{len(a.sends.running)} sending" for a in (self.gpu, self.npu) if a.sends.running]
            facts = [f for agent in (self.gpu, self.npu) for f in agent.links.facts()]
            found += [str(f) for f in facts if f.state is not LinkState.VERIFIED]
            found += [p for a in (self.gpu, self.npu) if (p := a.unhealthy())]
            if self.tasks and len(alive()) > self.tasks:
                names = Counter(task.get_name() for task in alive())
                found.append(f"{len(alive())} tasks for {self.tasks}: {names}")
            if self.files and (descriptors() - self.files).total() > OTHERS:
                gc.collect()
                if (more := descriptors() - self.files).total() > OTHERS:
                    found.append(f"descriptors: {more} more")
            return found

        for node in ("gpu", "npu"):
            await self.engine(node)
        try:
            await eventually(lambda: not held(), QUIET_SECONDS)
        except TimeoutError:
            raise AssertionError("; ".join(held())) from None


async def again(request: Callable[[], Awaitable[Any]]) -> Any:
    """A request that is cut off is told so, and is made again."""
    for _ in range(9):
        try:
            return await request()
        except HawkAgentError:
            await asyncio.sleep(0.05)
    return await request()


async def push(pair: Pair, lease: LeaseHandle, *, layers: int) -> Transfer | None:
    """Start to fill a lease, and let so many of three layers be complete. None if the agent refused."""
    source = await pair.engine("gpu")
    events = layer_events(3)
    for event in events[:layers]:
        os.eventfd_write(event, 1)
    try:
        return await off(source.engine.push, lease.ticket, "kv", 1, events)  # type: ignore[no-any-return]
    except HawkAgentError:
        return None
    finally:
        for event in events:
            os.close(event)


async def received(pair: Pair, lease: LeaseHandle, layer: int) -> bool:
    try:
        return bool((await off(pair.caches["npu"].engine.wait, lease, layer, 10)).present)
    except HawkAgentError:
        return False


async def acknowledge(pair: Pair, lease: LeaseHandle) -> None:
    if await received(pair, lease, 2):
        with contextlib.suppress(HawkAgentError):
            await again(lambda: off(pair.caches["npu"].engine.acknowledge, lease))


async def success(pair: Pair, lease: LeaseHandle) -> None:
    await push(pair, lease, layers=3)
    await acknowledge(pair, lease)


async def abort(pair: Pair, lease: LeaseHandle) -> None:
    transfer = await push(pair, lease, layers=1)
    await received(pair, lease, 0)
    if transfer is not None:
        with contextlib.suppress(HawkAgentError):
            await off(transfer.abort)


async def release(pair: Pair, lease: LeaseHandle) -> None:
    await push(pair, lease, layers=1)
    await received(pair, lease, 0)
    with contextlib.suppress(HawkAgentError):
        await off(pair.caches["npu"].engine.release, lease)


async def leave(pair: Pair, lease: LeaseHandle) -> None:
    """The prefill engine goes when its KV has arrived; decode uses it all the same."""
    await push(pair, lease, layers=3)
    if await received(pair, lease, 2):
        await off(pair.caches["gpu"].engine.close)
        with contextlib.suppress(HawkAgentError):
            await again(lambda: off(pair.caches["npu"].engine.acknowledge, lease))


async def unwire(pair: Pair, lease: LeaseHandle) -> None:
    """The peer is un-wired while its transfer waits for the acknowledgement, and wired again."""
    await push(pair, lease, layers=3)
    await received(pair, lease, 2)
    pair.gpu.links.wire([])
    await asyncio.sleep(0)
    pair.gpu.links.wire([PeerAddress(pair.npu.address, "npu")])
    await acknowledge(pair, lease)


SCENARIOS = {work.__name__: work for work in (success, abort, release, leave, unwire)}


async def run(
    pair: Pair, cutter: Cutter, scenario: str, target: Wait | None, *, thrown: bool = False
) -> None:
    """One scenario with one cut; then what must hold."""
    lease = await pair.reserve()
    pair.reports.clear()
    with pair.hurry(lease) if target else contextlib.nullcontext():
        cutter.arm(target, thrown=thrown)
        await SCENARIOS[scenario](pair, lease)
        await asyncio.sleep(0)
        cutter.target = None
        with contextlib.suppress(HawkAgentError):  # what the cut left unused
            await off(pair.caches["npu"].engine.release, lease)
        await pair.quiet()

    received_as = pair.npu.table.get(lease.id).lease.outcome
    assert received_as is not None
    sent_as = {report.outcome for report in pair.reports}
    assert len(pair.reports) <= 1
    if sent_as and TransferOutcome.SUCCESS in {received_as, *sent_as}:
        assert sent_as == {received_as}, f"sent {pair.reports[0]}, received {received_as}"
    if scenario in {"leave", "unwire"} and target is None:
        assert received_as is TransferOutcome.SUCCESS


async def transfer_unharmed(pair: Pair) -> None:
    """A transfer without a cut."""
    source, destination = pair.caches["gpu"], pair.caches["npu"]
    pair.seed += 1
    source.fill(pair.seed)
    destination.clear()
    await transfer_all(source, destination, chunk_layers=1)


async def cut_waits(house: House, transport: str, scenario: str, stride: int) -> int:
    """Every stride-th wait of a scenario, cut in both ways; how many runs that were."""
    cutter = Cutter()
    cutter.install()
    pair = Pair(house, transport)
    await pair.start()
    house.stack.push_async_callback(pair.close)
    for _ in range(2):
        await run(pair, cutter, scenario, None)
        await transfer_unharmed(pair)
    await pair.quiet()
    met = [Wait(name, n + 1) for name, count in sorted(cutter.waits.items()) for n in range(count)]
    pair.tasks, pair.files = len(alive()), descriptors()
    runs = 0
    for number, target in enumerate(met):
        for thrown in (False, True):
            if (2 * number + thrown) % stride:
                continue
            try:
                await run(pair, cutter, scenario, target, thrown=thrown)
            except AssertionError as error:
                raise AssertionError(f"{target}, {'thrown' if thrown else 'cancelled'}: {error}") from None
            runs += 1
        if number % 10 == 0:
            await transfer_unharmed(pair)
    await transfer_unharmed(pair)
    return runs
