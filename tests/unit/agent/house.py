"""Agents in this process, and engines that talk to them over real sockets with real memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hawk_agent.client import AgentClient, allocate_shared
from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.service.agent import NodeAgent
from hawk_agent.service.links import LinkState
from hawk_agent.service.settings import AgentSettings, PeerAddress
from hawk_agent.transfer.outcome import TransferOutcome

if TYPE_CHECKING:
    import mmap
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from hawk_agent.client import TransferResult
    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.transports.registry import TransportRegistry

GEOMETRY = {"l": 6, "c": 2, "b": 1, "h": 4, "s": 64, "d": 32}
ROWS = "l c b h s d"
TILES = "l c b h s1 d1 s0 d0"
TILE = {"s0": 16, "d0": 16}
PAGES = "l c [s1] s0 h d"


async def eventually(check: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until it holds; a limit, not a measurement."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 -- what is waited for has no event of its own
            await asyncio.sleep(0.01)


@dataclass
class Cache:
    """A region as its engine sees it."""

    engine: AgentClient
    name: str
    layout: Layout
    descriptor: int
    memory: mmap.mmap

    @property
    def array(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        return np.frombuffer(self.memory, np.uint8)

    def fill(self, seed: int) -> None:
        self.memory[:] = np.random.default_rng(seed).integers(0, 255, len(self.memory), np.uint8).tobytes()

    def clear(self, byte: int = 0xEE) -> None:
        self.memory[:] = bytes([byte]) * len(self.memory)

    def close(self) -> None:
        self.memory.close()
        os.close(self.descriptor)


def region_of(agent: NodeAgent, name: str = "kv") -> CacheRegion:
    """An agent's one region of that name."""
    [found] = [region for region in agent.regions if region.name == name]
    return found


def open_cache(
    engine: AgentClient,
    name: str,
    notation: str,
    sizes: Mapping[str, int],
    group: str,
    pool: str = "default/llama",
) -> Cache:
    layout = Layout.parse(notation, dict(sizes), "float16")
    descriptor, memory = allocate_shared(name, layout.nbytes)
    engine.register(
        name, descriptor, notation, sizes, "float16", pool="default/llama", group=group, worker=f"{group}-0"
    )
    return Cache(engine, name, layout, descriptor, memory)


async def transfer_all(
    source: Cache, destination: Cache, chunk_layers: int = 2, request: str = "r1"
) -> tuple[TransferResult, TransferResult]:
    """Move a whole cache into another of the same layers, see that it is right, and acknowledge it.

    Returns:
        How it ended for the sender and for the receiver.
    """
    last = destination.layout.extent("l").size - 1
    lease = await off(destination.engine.reserve, destination.name, request)
    transfer = await off(source.engine.push, lease.ticket, source.name, chunk_layers, all_complete=True)
    assert (await off(destination.engine.wait, lease, last)).complete
    received = await off(destination.engine.acknowledge, lease)
    sent = await off(transfer.result)
    assert sent.outcome is received.outcome is TransferOutcome.SUCCESS
    assert bytes(destination.memory) == translated(source, destination)
    return sent, received


def translated(source: Cache, destination: Cache) -> bytes:
    """Return the bytes that the destination must hold, by the layouts' own reference."""
    out = bytearray(len(destination.memory))
    compile_nest(source.layout, destination.layout).run(bytes(source.memory), out)
    return bytes(out)


@dataclass
class House:
    """Agents by node, wired as the test says; everything is closed at the end."""

    folder: Path
    agents: dict[str, NodeAgent] = field(default_factory=dict)
    stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def agent(self, node: str, registry: TransportRegistry | None = None, **changes: Any) -> NodeAgent:
        quiet = {"listen": "127.0.0.1:0", "metrics": "127.0.0.1:0", "insecure": True, "copy_threads": 2}
        quiet |= {"socket": self.folder / f"{node}.sock", "stall": 60.0}  # a busy machine isn't a lost peer
        settings = AgentSettings(node=node, **quiet | changes)
        agent = NodeAgent(settings, registry=registry)
        await agent.start()
        self.agents[node] = agent
        self.stack.push_async_callback(self._stop, node, agent)
        return agent

    def region(self, node: str, name: str = "kv") -> CacheRegion:
        """The one region of that name on a node."""
        return region_of(self.agents[node], name)

    async def _stop(self, node: str, agent: NodeAgent) -> None:
        if self.agents.get(node) is agent:
            await self.stop(node)

    async def stop(self, node: str) -> None:
        await self.agents.pop(node).stop()

    async def wire(self, *pairs: tuple[str, str]) -> None:
        """Links from the first of each pair to the second, proved."""
        for one in {pair[0] for pair in pairs}:
            peers = [PeerAddress(self.agents[b].address, b) for a, b in pairs if a == one]
            self.agents[one].links.wire(peers)
        for one, other in pairs:
            await self.verified(one, other)

    async def verified(self, one: str, other: str) -> None:
        def there() -> bool:
            facts = self.agents[one].links.facts()
            return any(f.node == other and f.state is LinkState.VERIFIED for f in facts)

        try:
            await eventually(there)
        except TimeoutError:
            raise AssertionError(f"{one} -> {other}: {self.agents[one].links.facts()}") from None

    async def engine(self, node: str) -> AgentClient:
        engine = await asyncio.to_thread(AgentClient, self.agents[node].settings.socket)
        self.stack.push_async_callback(asyncio.to_thread, engine.close)
        return engine

    async def cache(
        self, engine: AgentClient, name: str, notation: str, sizes: Mapping[str, int], group: str
    ) -> Cache:
        cache = await asyncio.to_thread(open_cache, engine, name, notation, sizes, group)
        self.stack.callback(cache.close)
        return cache

    async def pair(
        self, transport: str, registry: TransportRegistry | None = None, **changes: Any
    ) -> tuple[Cache, Cache]:
        """Two wired agents, rows on one and tiles on the other."""
        for node in ("gpu", "npu"):
            await self.agent(node, registry, **{"transports": (transport,), **changes})
        await self.wire(("gpu", "npu"))
        source = await self.cache(await self.engine("gpu"), "kv", ROWS, GEOMETRY, "prefill")
        destination = await self.cache(await self.engine("npu"), "kv", TILES, GEOMETRY | TILE, "decode")
        source.fill(7)
        destination.clear()
        return source, destination


@contextlib.asynccontextmanager
async def house(folder: Path) -> AsyncIterator[House]:
    built = House(folder)
    async with built.stack:
        yield built


def off(function: Callable[..., Any], *arguments: Any, **named: Any) -> Awaitable[Any]:
    """Call the blocking client beside the loop that serves it."""
    return asyncio.to_thread(function, *arguments, **named)
