"""Data paths that are wrong on purpose, to see that a wrong transfer is caught.

- `drop-chunk`: the receiver never places the second chunk of a transfer, and says that it did.
- `swap-heads`: the receiver exchanges the first two heads of each chunk after placing it.
- `corrupt`: the receiver flips one bit of the first byte of each chunk.

Canaries are spared, so that the link looks sound and the fault is left to be found in a real transfer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hawk_agent.layouts import compile_nest
from hawk_agent.transfer.transport import DestinationEnd, RailFacts, SourceEnd, Transport
from hawk_agent.transports.registry import TransportRegistry

if TYPE_CHECKING:
    from hawk_agent.layouts import Nest
    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.protocol import peer_pb2
    from hawk_agent.transfer.chunks import Chunk
    from hawk_agent.transfer.translation import Buffer, Translation
    from hawk_agent.transfer.transport import Forecast
    from hawk_agent.transports.registry import TransportFactory

FAULTS: Final = ("drop-chunk", "swap-heads", "corrupt")


def faulty(fault: str) -> TransportRegistry:
    """The installed transports under their own names, each with a fault at its receiving end."""
    if fault not in FAULTS:
        raise ValueError(f"fault {fault!r} is unknown; use one of {', '.join(FAULTS)}")

    def with_fault(make: TransportFactory) -> TransportFactory:
        return lambda context: Faulty(make(context), fault)

    sound = TransportRegistry()
    return TransportRegistry({name: with_fault(sound[name]) for name in ("shm", "tcp", "verbs")})


class Faulty(Transport):
    """A transport with a fault at the receiving end."""

    def __init__(self, inner: Transport, fault: str) -> None:
        self.name = inner.name
        self.same_host_only = inner.same_host_only  # type: ignore[misc]
        self._inner = inner
        self._fault = fault

    async def start(self) -> None:
        """As the inner one."""
        await self._inner.start()

    async def close(self) -> None:
        """As the inner one."""
        await self._inner.close()

    def offer(self, translation: Translation, source: CacheRegion) -> tuple[peer_pb2.Offer, SourceEnd]:
        """As the inner one."""
        return self._inner.offer(translation, source)

    async def accept(
        self, offer: peer_pb2.Offer, translation: Translation, destination: CacheRegion, origin: str
    ) -> tuple[peer_pb2.Answer, DestinationEnd]:
        """As the inner one, wrong for every region that an engine registered."""
        answer, end = await self._inner.accept(offer, translation, destination, origin)
        if not destination.pool:
            return answer, end
        return answer, _FaultyEnd(end, translation, destination, self._fault)

    @property
    def rails(self) -> tuple[RailFacts, ...]:
        """As the inner one."""
        return self._inner.rails

    async def adopt(self, region: CacheRegion) -> None:
        """As the inner one."""
        await self._inner.adopt(region)

    def forecast(self, translation: Translation, offer: peer_pb2.Offer) -> Forecast | None:
        """As the inner one."""
        return self._inner.forecast(translation, offer)

    def keep(self, origin: str, regions: frozenset[str]) -> None:
        """As the inner one."""
        self._inner.keep(origin, regions)

    def forget(self, origin: str) -> None:
        """As the inner one."""
        self._inner.forget(origin)


class _FaultyEnd(DestinationEnd):
    def __init__(
        self, inner: DestinationEnd, translation: Translation, destination: CacheRegion, fault: str
    ) -> None:
        self._inner = inner
        self._memory = destination.memory
        self._table = translation.destination.table
        layout = translation.destination.layout
        self._nest = compile_nest(layout, layout)
        self._fault = fault
        # Taken before the sender has an answer: a path that writes from afar may be ahead of `receive`.
        self._stale = bytearray(self._memory) if fault == "drop-chunk" else bytearray()

    async def receive(self, chunk: Chunk) -> int:
        nest = self._nest.layers(chunk.first, chunk.count)
        if self._fault == "drop-chunk" and chunk.index == 1:
            nbytes = await self._inner.receive(chunk)
            self._write(nest, self._read(nest, self._stale))
            return nbytes
        nbytes = await self._inner.receive(chunk)
        if self._fault == "swap-heads":
            first, second = nest.window("h", 0, 1), nest.window("h", 1, 2)
            one, other = self._read(first, self._memory), self._read(second, self._memory)
            self._write(first, other)
            self._write(second, one)
        elif self._fault == "corrupt":
            content = self._read(nest, self._memory)
            content[0] ^= 1
            self._write(nest, content)
        return nbytes

    def _read(self, nest: Nest, memory: Buffer) -> bytearray:
        content = bytearray(nest.payload_nbytes)
        nest.pack(memory, content, 0, len(content), source_blocks=self._table)
        return content

    def _write(self, nest: Nest, content: bytearray) -> None:
        nest.unpack(content, self._memory, 0, len(content), destination_blocks=self._table)

    async def stop(self) -> None:
        await self._inner.stop()
