"""Shared memory between two agents of one host.

The sender's agent hands a read-only descriptor of the source's memory over a Unix socket, against a token
that the authenticated channel carried. The *receiver* copies, from the source's mapping into its own memory:
so the receiver can stop every write when a lease ends. The sender can't revoke a mapping; what keeps a late
reader harmless is that no chunk counts before the sender, with the source still held, has sealed it (see
`streaming`).

The socket stands in the file system, so two containers see each other's only with a shared folder.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections import OrderedDict
from typing import TYPE_CHECKING

from hawk_agent.errors import TransportError, TransportTimeoutError
from hawk_agent.memory import mapping
from hawk_agent.net import sockets
from hawk_agent.net.accepting import Acceptor, Strangers, read_exactly
from hawk_agent.protocol import framing, peer_pb2
from hawk_agent.transfer.transport import DestinationEnd, Forecast, SourceEnd, Transport
from hawk_agent.transfer.work import CopyWork
from hawk_agent.transports.calibration import machine_costs

if TYPE_CHECKING:
    import mmap
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.supervision import TaskSupervisor
    from hawk_agent.transfer.chunks import Chunk
    from hawk_agent.transfer.translation import Translation
    from hawk_agent.transfer.transport import TransportContext

TOKEN_BYTES = 32
CONNECT_SECONDS = 3.0
MAX_MAPPINGS = 128


class SharedMemory(Transport):
    """Serves its regions' descriptors at `path`, and keeps mappings of peers' regions while their incarnation
    lives."""

    name = "shm"
    same_host_only = True

    def __init__(self, path: Path, pool: ThreadPoolExecutor, supervisor: TaskSupervisor) -> None:
        self._path = path
        self._pool = pool
        self._supervisor = supervisor
        self._offered: dict[bytes, CacheRegion] = {}
        self._mappings = _Mappings()
        self._listener: socket.socket | None = None
        self._acceptor: Acceptor | None = None
        self._strangers = Strangers(self._hand_out)

    @classmethod
    def create(cls, context: TransportContext) -> SharedMemory:
        """As an agent uses it: the socket for agents stands beside the one for engines."""
        path = context.socket.with_name(context.socket.name + ".peer")
        return cls(path, context.receiving, context.supervisor)

    async def start(self) -> None:
        """Listen."""
        self._listener = sockets.listen_unix(self._path, mode=0o600)
        self._acceptor = Acceptor("askers of memory", self._listener, self._strangers.admit, self._supervisor)

    async def close(self) -> None:
        """Stop listening and unmap what nobody uses."""
        if self._acceptor is not None:
            self._acceptor.close()
        await self._strangers.close()
        if self._listener is not None:
            sockets.close_unix(self._listener, self._path)
        self._mappings.clear()

    def offer(self, translation: Translation, source: CacheRegion) -> tuple[peer_pb2.Offer, SourceEnd]:
        """Make the source's memory available against a fresh token."""
        token = secrets.token_bytes(TOKEN_BYTES)
        self._offered[token] = source
        offer = peer_pb2.Offer(
            transport=self.name,
            token=token,
            socket=str(self._path),
            region=source.identity,
            bytes=source.nbytes,
        )
        return offer, _SharedMemorySource(self._offered, token)

    async def accept(
        self, offer: peer_pb2.Offer, translation: Translation, destination: CacheRegion, origin: str
    ) -> tuple[peer_pb2.Answer, DestinationEnd]:
        """Map the source, unless an earlier transfer did."""
        if offer.bytes < translation.source.layout.nbytes:
            raise TransportError(
                f"the source offers {offer.bytes} bytes, its layout needs {translation.source.layout.nbytes}"
            )
        source = self._mappings.use(origin, offer.region)
        if source is None:
            source = self._mappings.add(origin, offer.region, await self._fetch(offer))
        return peer_pb2.Answer(), _SharedMemoryDestination(translation, source, destination, self._pool)

    def forecast(self, translation: Translation, offer: peer_pb2.Offer) -> Forecast | None:
        """One fused copy, by the receiver."""
        return Forecast("fused-copy", translation.nbytes / machine_costs().translate_bytes_per_s)

    def keep(self, origin: str, regions: frozenset[str]) -> None:
        """Unmap regions that the peer no longer has: a mapping would hold their memory for ever."""
        self._mappings.keep(origin, regions)

    def forget(self, origin: str) -> None:
        """Unmap an incarnation's regions, each when its last transfer ends."""
        self._mappings.forget(origin)

    async def _fetch(self, offer: peer_pb2.Offer) -> mmap.mmap:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, _fetch, offer)
        except TimeoutError as error:
            raise TransportTimeoutError(
                f"{offer.socket} gave no memory within {CONNECT_SECONDS:g} s"
            ) from error
        except OSError as error:
            raise TransportError(f"{offer.socket} can't be reached ({error.strerror or error})") from error

    async def _hand_out(self, client: socket.socket) -> bool:
        """Answer one token with one descriptor. A wrong token gets the end of the stream and no word."""
        region = self._offered.pop(await read_exactly(client, TOKEN_BYTES), None)
        if region is not None and region.descriptor >= 0:
            socket.send_fds(client, [b"\x01"], [region.descriptor])
        return False


def _fetch(offer: peer_pb2.Offer) -> mmap.mmap:
    """The source's memory, mapped to read. In one piece in a thread: who waits may be cancelled, and then
    nothing stays open but the mapping, which goes with its last reference."""
    label = f"peer region {offer.region}"
    descriptor = _ask(offer.socket, offer.token)
    try:
        mapping.check_descriptor(descriptor, offer.bytes, label)
        return mapping.map_memory(descriptor, offer.bytes, writable=False, label=label)
    finally:
        os.close(descriptor)


def _ask(path: str, token: bytes) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(CONNECT_SECONDS)
        client.connect(path)
        client.sendall(token)
        _, descriptors = framing.receive_frame(client)
    if len(descriptors) != 1:
        framing.close_descriptors(descriptors)
        raise OSError(f"{len(descriptors)} descriptors came for a token that stands for one")
    return descriptors[0]


class _SharedMemorySource(SourceEnd):
    """Nothing to send: the receiver reads. Closing takes the offer back."""

    def __init__(self, offered: dict[bytes, CacheRegion], token: bytes) -> None:
        self._offered = offered
        self._token = token

    async def connect(self, answer: peer_pb2.Answer) -> None:
        return

    async def send(self, chunk: Chunk) -> None:
        return

    async def close(self) -> None:
        self._offered.pop(self._token, None)


class _SharedMemoryDestination(DestinationEnd):
    def __init__(
        self, translation: Translation, source: _Mapping, destination: CacheRegion, pool: ThreadPoolExecutor
    ) -> None:
        self._translation = translation
        self._source = source
        self._destination = destination
        self._work = CopyWork(pool)
        self._held = True

    async def receive(self, chunk: Chunk) -> int:
        if not await self._work.run(lambda: self._copy(chunk)):
            raise TransportError(f"chunk {chunk.index} was stopped")
        return self._translation.nbytes_of(chunk)

    def _copy(self, chunk: Chunk) -> bool:
        return self._translation.copy(
            chunk, self._source.memory, self._destination.memory, lambda: self._work.stopped
        )

    async def stop(self) -> None:
        await self._work.drained()
        if self._held:
            self._held = False
            self._source.done()


class _Mapping:
    """A peer's region mapped here, with the number of transfers that read it."""

    def __init__(self, memory: mmap.mmap) -> None:
        self.memory = memory
        self.users = 0
        self.dropped = False

    def done(self) -> None:
        self.users -= 1
        self._close_if_idle()

    def drop(self) -> None:
        self.dropped = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self.dropped and self.users == 0 and not self.memory.closed:
            mapping.unmap_memory(self.memory)


class _Mappings:
    """Mappings by incarnation and region, the least recently used dropped beyond a bound."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Mapping] = OrderedDict()

    def use(self, origin: str, region: str) -> _Mapping | None:
        found = self._known.get((origin, region))
        if found is not None:
            self._known.move_to_end((origin, region))
            found.users += 1
        return found

    def add(self, origin: str, region: str, memory: mmap.mmap) -> _Mapping:
        known = self.use(origin, region)
        if known is not None:  # two transfers asked at once
            memory.close()
            return known
        fresh = _Mapping(memory)
        fresh.users = 1
        if not region:  # a scratch region, never used twice
            fresh.dropped = True
            return fresh
        self._known[origin, region] = fresh
        while len(self._known) > MAX_MAPPINGS:
            self._known.popitem(last=False)[1].drop()
        return fresh

    def keep(self, origin: str, regions: frozenset[str]) -> None:
        for key in [key for key in self._known if key[0] == origin and key[1] not in regions]:
            self._known.pop(key).drop()

    def forget(self, origin: str) -> None:
        self.keep(origin, frozenset())

    def clear(self) -> None:
        for found in self._known.values():
            found.drop()
        self._known.clear()
