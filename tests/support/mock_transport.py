"""A transport inside one process: for tests of what surrounds a transport, and the shortest example of one.

It keeps every promise of `transfer.transport`, and it can be told to fail: the n-th `send` or `receive`
raises TransportError.
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from hawk_agent.errors import TransportError
from hawk_agent.protocol import peer_pb2
from hawk_agent.transfer.transport import DestinationEnd, SourceEnd, Transport
from hawk_agent.transfer.work import CopyWork
from hawk_agent.transports.registry import TransportRegistry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.transfer.chunks import Chunk
    from hawk_agent.transfer.translation import Translation

_offered: dict[bytes, CacheRegion] = {}


class MockTransport(Transport):
    """Copies from region to region of one process."""

    name = "mock"

    def __init__(self, *, fail_send: int | None = None, fail_receive: int | None = None) -> None:
        self.sends = 0
        self.receives = 0
        self.fail_send = fail_send
        self.fail_receive = fail_receive
        self.before_receive: Callable[[Chunk], Awaitable[None]] | None = None
        self.pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mock")

    def registry(self) -> TransportRegistry:
        """With nothing but this one."""
        return TransportRegistry({self.name: lambda _: self})

    def offer(self, translation: Translation, source: CacheRegion) -> tuple[peer_pb2.Offer, SourceEnd]:
        """Remember the region under a token."""
        token = secrets.token_bytes(16)
        _offered[token] = source
        return peer_pb2.Offer(transport=self.name, token=token), _Source(self, token)

    async def accept(
        self, offer: peer_pb2.Offer, translation: Translation, destination: CacheRegion, origin: str
    ) -> tuple[peer_pb2.Answer, DestinationEnd]:
        """Find it again."""
        source = _offered.get(offer.token)
        if source is None:
            raise TransportError("the offer isn't from this process; the mock transport has no other")
        return peer_pb2.Answer(), _Destination(self, translation, source, destination)


class _Source(SourceEnd):
    def __init__(self, transport: MockTransport, token: bytes) -> None:
        self._transport = transport
        self._token = token

    async def connect(self, answer: peer_pb2.Answer) -> None:
        return

    async def send(self, chunk: Chunk) -> None:
        self._transport.sends += 1
        if self._transport.sends == self._transport.fail_send:
            raise TransportError(f"chunk {chunk.index} could not be posted (told to fail)")

    async def close(self) -> None:
        _offered.pop(self._token, None)


class _Destination(DestinationEnd):
    def __init__(
        self,
        transport: MockTransport,
        translation: Translation,
        source: CacheRegion,
        destination: CacheRegion,
    ) -> None:
        self._transport = transport
        self._translation = translation
        self._source = source
        self._destination = destination
        self._work = CopyWork(transport.pool)

    async def receive(self, chunk: Chunk) -> int:
        self._transport.receives += 1
        if self._transport.receives == self._transport.fail_receive:
            raise TransportError(f"chunk {chunk.index} could not be placed (told to fail)")
        if self._transport.before_receive is not None:
            await self._transport.before_receive(chunk)

        def copy() -> bool:
            return self._translation.copy(
                chunk, self._source.memory, self._destination.memory, lambda: self._work.stopped
            )

        if not await self._work.run(copy):
            raise TransportError(f"chunk {chunk.index} was stopped")
        return self._translation.nbytes_of(chunk)

    async def stop(self) -> None:
        await self._work.drained()
