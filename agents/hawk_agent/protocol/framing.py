"""Length-prefixed frames, and the descriptors that travel with them. Pure but for `receive` and `send`."""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque

from hawk_agent.errors import FrameError

MAX_FRAME = 4 << 20
"""Bytes of one message: room for a block table of half a million entries."""
MAX_DESCRIPTORS = 250
"""Descriptors of one frame; the kernel passes at most 253 at once."""

_LENGTH = struct.Struct(">I")
_CHUNK = 256 << 10


def encode_frame(payload: bytes) -> bytes:
    """A frame."""
    if len(payload) > MAX_FRAME:
        raise FrameError(f"a message of {len(payload)} bytes is above the limit of {MAX_FRAME}")
    return _LENGTH.pack(len(payload)) + payload


class Decoder:
    """Bytes in, whole messages out. Nothing is kept beyond one unfinished frame."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that these bytes complete. FrameError for a length above the limit."""
        self._buffer += data
        messages: list[bytes] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > self._limit:
                raise FrameError(f"a frame of {length} bytes is above the limit of {self._limit}")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            messages.append(bytes(self._buffer[start + _LENGTH.size : end]))
            start = end
        del self._buffer[:start]
        return messages

    @property
    def pending(self) -> bool:
        """True if an unfinished frame waits for more."""
        return bool(self._buffer)


class Descriptors:
    """File descriptors received and not yet claimed by a message; owns them until then."""

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()

    def add(self, received: list[int]) -> None:
        """Take ownership. FrameError when more wait than one frame can claim."""
        self._waiting.extend(received)
        if len(self._waiting) > MAX_DESCRIPTORS:
            raise FrameError(
                f"{len(self._waiting)} descriptors wait; a message takes at most {MAX_DESCRIPTORS}"
            )

    def take(self, count: int) -> list[int]:
        """Hand over the oldest `count`. FrameError when there are fewer."""
        if count > len(self._waiting):
            raise FrameError(f"the message claims {count} descriptors, {len(self._waiting)} came with it")
        return [self._waiting.popleft() for _ in range(count)]

    def __len__(self) -> int:
        return len(self._waiting)

    def close(self) -> None:
        """Close what nobody claimed."""
        close_descriptors(self._waiting)
        self._waiting.clear()


def close_descriptors(descriptors: list[int] | deque[int]) -> None:
    """Close each; one that is closed already doesn't keep the others open."""
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError:
            continue


class DescriptorsCutError(FrameError):
    """Descriptors came that this process has no room for; they are closed. `data` came with them."""

    def __init__(self, data: bytes) -> None:
        super().__init__(
            "descriptors were cut off: too many in one message, or the limit of open files is reached"
        )
        self.data = data


def receive_frame(sock: socket.socket) -> tuple[bytes, list[int]]:
    """One read: bytes (none at the end of the stream) and descriptors. DescriptorsCutError if some were cut
    off."""
    room = socket.CMSG_SPACE(253 * 4)
    data, ancillary, flags, _ = sock.recvmsg(_CHUNK, room, socket.MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
            descriptors += numbers
    if flags & socket.MSG_CTRUNC:
        close_descriptors(descriptors)
        raise DescriptorsCutError(data)
    return data, descriptors


def send_frame(sock: socket.socket, payload: bytes, descriptors: list[int] | None = None) -> None:
    """Write a whole frame to a blocking socket; the descriptors go with its first byte."""
    frame = memoryview(encode_frame(payload))
    sent = 0
    if descriptors:
        if len(descriptors) > MAX_DESCRIPTORS:
            raise FrameError(f"{len(descriptors)} descriptors in one message; {MAX_DESCRIPTORS} is the limit")
        sent = socket.send_fds(sock, [frame], descriptors)
    sock.sendall(frame[sent:])
