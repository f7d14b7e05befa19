"""Two ends of the verbs data path in one process: the transports themselves, without agents around them."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hawk_agent.memory.region import CacheRegion
from hawk_agent.metrics import AgentMetrics
from hawk_agent.plans import Costs
from hawk_agent.transfer import chunks as chunking
from hawk_agent.transfer.translation import Selection, Translation
from hawk_agent.transports.verbs.library import LIBRARY
from hawk_agent.transports.verbs.transport import Verbs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from hawk_agent.layouts import Layout
    from hawk_agent.transfer.chunks import Chunk
    from hawk_agent.transports.verbs.ends import VerbsDestination, VerbsSource

SENTINEL = 0xEE
library = LIBRARY
"""Opens the transports' devices; the unit tests put a model of a device here."""
work: Callable[[], object] | None = None
"""Makes that model work off its requests; a device does so by itself."""


@contextlib.contextmanager
def region(layout: Layout, *, spare: int = 0, seed: int | None = None) -> Iterator[CacheRegion]:
    """A region with `spare` bytes behind its layout: random ones with a seed, else sentinels."""
    descriptor = os.memfd_create("region", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, layout.nbytes + spare)
    memory = mmap.mmap(descriptor, layout.nbytes + spare)
    memory[:] = bytes([SENTINEL]) * len(memory)
    if seed is not None:
        memory[:] = np.random.default_rng(seed).integers(0, 256, len(memory), np.uint8).tobytes()
    made = CacheRegion("kv", "pool", "group", "worker", layout, memory, descriptor, identity="1")
    try:
        yield made
    finally:
        made.retire()


@dataclass
class Pair:
    """A sending and a receiving transport with their metrics."""

    sender: Verbs
    receiver: Verbs
    metrics: tuple[AgentMetrics, AgentMetrics]

    async def open(
        self, translation: Translation, source: CacheRegion, destination: CacheRegion
    ) -> tuple[VerbsSource, VerbsDestination]:
        """Both ends of one transfer, connected."""
        offer, sending = self.sender.offer(translation, source)
        try:
            answer, receiving = await self.receiver.accept(offer, translation, destination, "peer/1")
        except BaseException:
            await sending.close()
            raise
        try:
            await sending.connect(answer)
        except BaseException:
            await receiving.stop()
            await sending.close()
            raise
        return sending, receiving  # type: ignore[return-value]

    async def move(
        self, translation: Translation, source: CacheRegion, destination: CacheRegion, chunk_layers: int = 0
    ) -> tuple[VerbsSource, VerbsDestination]:
        """One whole transfer, ended at both ends."""
        sending, receiving = await self.open(translation, source, destination)
        try:
            for chunk in chunking.plan_chunks(translation.layers, chunk_layers):
                await both(sending, receiving, chunk)
        finally:
            await receiving.stop()
            await sending.close()
        return sending, receiving


async def both(sending: VerbsSource, receiving: VerbsDestination, chunk: Chunk) -> int:
    """Send and receive a chunk; the first error of either ends both."""
    async with asyncio.timeout(60):
        tasks = [asyncio.create_task(receiving.receive(chunk)), asyncio.create_task(sending.send(chunk))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            return tasks[0].result()  # type: ignore[return-value]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def pair(sending: Sequence[str], receiving: Sequence[str], **options: Any) -> AsyncIterator[Pair]:
    """Transports over these devices, in this order; prices are taken for granted unless `costs` is None."""
    options = {"costs": Costs(), "library": library} | options
    metrics = (AgentMetrics(), AgentMetrics())
    async with contextlib.AsyncExitStack() as stack:
        if work is not None:
            working = asyncio.create_task(_working(work))
            stack.callback(working.cancel)
        made = []
        for devices, counts in zip((sending, receiving), metrics, strict=True):
            pools = [stack.enter_context(ThreadPoolExecutor(2)) for _ in range(2)]
            verbs = Verbs(pools[0], pools[1], counts, devices=devices, **options)
            await verbs.start()
            stack.push_async_callback(verbs.close)
            made.append(verbs)
        yield Pair(made[0], made[1], metrics)


def software(device: str) -> bool:
    """True if it is SoftRoCE: such a device names the network interface under it."""
    return Path(f"/sys/class/infiniband/{device}/parent").exists()


async def _working(step: Callable[[], object]) -> None:
    while True:
        step()
        await asyncio.sleep(0)


def translation(
    source: Layout,
    destination: Layout,
    source_blocks: Sequence[int] = (),
    destination_blocks: Sequence[int] = (),
) -> Translation:
    """The translation of whole layouts."""
    return Translation(
        Selection(source, tuple(source_blocks)), Selection(destination, tuple(destination_blocks))
    )


def expected(moved: Translation, source: CacheRegion, nbytes: int) -> bytes:
    """Return the bytes that the destination must hold afterwards, sentinels included, by the copy engine."""
    out = bytearray([SENTINEL]) * nbytes
    moved.nest.run(
        bytes(source.memory),
        out,
        source_blocks=moved.source.table,
        destination_blocks=moved.destination.table,
    )
    return bytes(out)
