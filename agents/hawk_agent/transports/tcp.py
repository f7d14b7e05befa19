"""TCP between two agents, one connection a transfer.

The receiver listens; the sender connects and presents a one-time token that the authenticated channel
carried, so a connection is bound to one lease before its first byte.

Where a chunk is one range of the source it goes out as it is, and the receiver places it from a buffer of
cache size: reading into a warm buffer costs less than reading into cold memory, and that pays for the
translation. Else the sender packs the chunk in the order of the destination, a piece at a time, and the
receiver reads each piece straight into its place where the destination is one range, and through the buffer
where pages scatter it.

A chunk on the wire is a header (the order, its index, its bytes) and its bytes. The receiver reads only what
the plan says next.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import struct
from typing import TYPE_CHECKING

from hawk_agent.errors import TransportError, TransportTimeoutError
from hawk_agent.net import sockets
from hawk_agent.net.accepting import Acceptor, Strangers, read_exactly
from hawk_agent.net.reading import STALL_SECONDS, Reader
from hawk_agent.protocol import peer_pb2
from hawk_agent.transfer.transport import DestinationEnd, Forecast, SourceEnd, Transport
from hawk_agent.transfer.work import CopyWork
from hawk_agent.transports.calibration import machine_costs
from hawk_api import addresses

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.supervision import TaskSupervisor
    from hawk_agent.transfer.chunks import Chunk
    from hawk_agent.transfer.translation import Translation
    from hawk_agent.transfer.transport import TransportContext

TOKEN_BYTES = 32
CONNECT_SECONDS = 5.0
PIECE = 1 << 20
"""Bytes that are sent at a time, or read before they are placed: they must fit a cache in between."""

_HEADER = struct.Struct(">4sIQ")
_PACKED, _AS_IS = b"HKVp", b"HKVs"
"""A chunk in the order of the destination, and of the source."""


class Tcp(Transport):
    """Listens at host:port (port 0 takes a free one); `advertise` is the host that peers connect to."""

    name = "tcp"

    def __init__(
        self,
        host: str,
        port: int,
        advertise: str,
        *,
        sending: ThreadPoolExecutor,
        receiving: ThreadPoolExecutor,
        supervisor: TaskSupervisor,
    ) -> None:
        self._host = host
        self._port = port
        self._advertise = advertise
        self._sending = sending
        self._receiving = receiving
        self._supervisor = supervisor
        self._expected: dict[bytes, asyncio.Future[socket.socket]] = {}
        self._listener: socket.socket | None = None
        self._acceptor: Acceptor | None = None
        self._strangers = Strangers(self._greet)

    @classmethod
    def create(cls, context: TransportContext) -> Tcp:
        """As an agent uses it."""
        return cls(
            context.listen_host,
            context.data_port,
            context.advertised_host,
            sending=context.sending,
            receiving=context.receiving,
            supervisor=context.supervisor,
        )

    async def start(self) -> None:
        """Listen."""
        self._listener = sockets.listen_tcp(self._host, self._port)
        self._port = self._listener.getsockname()[1]
        self._acceptor = Acceptor("data connections", self._listener, self._strangers.admit, self._supervisor)

    async def close(self) -> None:
        """Stop listening; connections of running transfers are their ends' to close."""
        if self._acceptor is not None:
            self._acceptor.close()
        await self._strangers.close()
        if self._listener is not None:
            self._listener.close()

    @property
    def address(self) -> str:
        """The address that peers connect to."""
        return addresses.format_address(self._advertise, self._port)

    def offer(self, translation: Translation, source: CacheRegion) -> tuple[peer_pb2.Offer, SourceEnd]:
        """The sender needs nothing but the receiver's answer."""
        return peer_pb2.Offer(transport=self.name), _TcpSource(translation, source, self._sending)

    async def accept(
        self, offer: peer_pb2.Offer, translation: Translation, destination: CacheRegion, origin: str
    ) -> tuple[peer_pb2.Answer, DestinationEnd]:
        """Expect one connection with a fresh token."""
        token = secrets.token_bytes(TOKEN_BYTES)
        arrival: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
        self._expected[token] = arrival
        end = _TcpDestination(
            translation, destination, self._receiving, arrival, lambda: self._expected.pop(token, None)
        )
        return peer_pb2.Answer(token=token, address=self.address), end

    def forecast(self, translation: Translation, offer: peer_pb2.Offer) -> Forecast | None:
        """Translated and sent by one thread, a piece at a time; the receiver reads meanwhile."""
        costs = machine_costs()
        pace = 1 / costs.translate_bytes_per_s + 1 / costs.link_bytes_per_s
        return Forecast("tile-then-send", translation.nbytes * pace)

    async def _greet(self, client: socket.socket) -> bool:
        """Bind a connection to the lease whose token it presents; any other is closed without a word."""
        token = await read_exactly(client, TOKEN_BYTES)
        arrival = self._expected.pop(token, None)
        if arrival is None or arrival.done():
            return False
        sockets.tune_socket(client)
        arrival.set_result(client)
        return True


def _cut(sock: socket.socket | None) -> None:
    """Wake every thread that waits on a socket."""
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


class _TcpSource(SourceEnd):
    def __init__(self, translation: Translation, source: CacheRegion, pool: ThreadPoolExecutor) -> None:
        self._translation = translation
        self._source = source
        self._work = CopyWork(pool)
        self._sock: socket.socket | None = None
        self._bounce = bytearray(PIECE)

    async def connect(self, answer: peer_pb2.Answer) -> None:
        address = addresses.parse_address(answer.address)
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if address.is_ipv6 else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sockets.tune_socket(sock)
            async with asyncio.timeout(CONNECT_SECONDS):
                await loop.sock_connect(sock, tuple(address))
                await loop.sock_sendall(sock, answer.token)
        except TimeoutError as error:
            sock.close()
            raise TransportTimeoutError(
                f"{answer.address} took no connection within {CONNECT_SECONDS:g} s"
            ) from error
        except OSError as error:
            sock.close()
            raise TransportError(f"{answer.address} can't be reached ({error.strerror or error})") from error
        except BaseException:
            sock.close()
            raise
        sock.settimeout(STALL_SECONDS)
        self._sock = sock

    async def send(self, chunk: Chunk) -> None:
        await self._work.run(lambda: self._send(chunk))

    def _send(self, chunk: Chunk) -> None:
        assert self._sock is not None, "send before connect"
        total = self._translation.nbytes_of(chunk)
        try:
            first = self._translation.contiguous_source(chunk)
            order = _PACKED if first is None else _AS_IS
            self._sock.sendall(_HEADER.pack(order, chunk.index, total))
            for start in range(0, total, PIECE):
                if self._work.stopped:
                    raise TransportError(f"chunk {chunk.index} was stopped")
                self._send_piece(self._sock, chunk, first, start, min(start + PIECE, total))
        except TimeoutError as error:
            raise TransportTimeoutError(f"the receiver took no bytes for {STALL_SECONDS:g} s") from error
        except OSError as error:
            raise TransportError(f"the connection broke while sending ({error.strerror or error})") from error

    def _send_piece(
        self, sock: socket.socket, chunk: Chunk, first: int | None, start: int, stop: int
    ) -> None:
        if first is not None:
            with (
                memoryview(self._source.memory) as memory,
                memory[first + start : first + stop] as piece,
            ):
                sock.sendall(piece)
            return
        packed = memoryview(self._bounce)[: stop - start]
        self._translation.pack(chunk, self._source.memory, packed, start, stop)
        sock.sendall(packed)

    async def close(self) -> None:
        self._work.cancel()
        _cut(self._sock)
        await self._work.drained()
        if self._sock is not None:
            self._sock.close()


class _TcpDestination(DestinationEnd):
    def __init__(
        self,
        translation: Translation,
        destination: CacheRegion,
        pool: ThreadPoolExecutor,
        arrival: asyncio.Future[socket.socket],
        forget: Callable[[], object],
    ) -> None:
        self._translation = translation
        self._destination = destination
        self._work = CopyWork(pool)
        self._arrival = arrival
        self._forget = forget
        self._bounce = bytearray(PIECE)

    async def receive(self, chunk: Chunk) -> int:
        try:
            sock = await asyncio.wait_for(asyncio.shield(self._arrival), CONNECT_SECONDS)
        except TimeoutError as error:
            raise TransportTimeoutError(f"no data connection came within {CONNECT_SECONDS:g} s") from error
        return await self._work.run(lambda: self._receive(sock, chunk))

    def _receive(self, sock: socket.socket, chunk: Chunk) -> int:
        total = self._translation.nbytes_of(chunk)
        header = bytearray(_HEADER.size)
        try:
            reader = Reader(sock, lambda: self._work.stopped)
            reader.fill(memoryview(header))
            order, index, nbytes = _HEADER.unpack(header)
            if order not in {_PACKED, _AS_IS} or (index, nbytes) != (chunk.index, total):
                raise TransportError(
                    f"chunk {chunk.index} of {total} bytes was due; the connection has {index} of {nbytes}"
                )
            self._place(reader, chunk, total, as_is=order == _AS_IS)
        except TimeoutError as error:
            raise TransportTimeoutError(f"the sender sent no bytes for {STALL_SECONDS:g} s") from error
        except OSError as error:
            raise TransportError(
                f"the connection broke while receiving ({error.strerror or error})"
            ) from error
        return total

    def _place(self, reader: Reader, chunk: Chunk, total: int, *, as_is: bool) -> None:
        destination = self._destination.memory
        straight = None if as_is else self._translation.contiguous(chunk)
        if straight is not None:
            with memoryview(destination) as view, view[straight : straight + total] as target:
                reader.fill(target)
        else:
            place = self._translation.unpacker(chunk, destination, source_order=as_is)
            for start in range(0, total, PIECE):
                piece = memoryview(self._bounce)[: min(PIECE, total - start)]
                reader.fill(piece)
                place(piece, start, start + len(piece))
        self._translation.pad(chunk, destination)

    async def stop(self) -> None:
        self._forget()
        self._work.cancel()
        if not self._arrival.done():
            self._arrival.set_exception(TransportError("the transfer was stopped"))
        sock = None if self._arrival.exception() else self._arrival.result()
        _cut(sock)
        await self._work.drained()
        if sock is not None:
            sock.close()
