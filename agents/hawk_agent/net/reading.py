"""Reading a stream in large parts.

A sender on a fast path fills the receiver's socket some 64 KiB at a time. A reader that takes each part and
sleeps again is woken a thousand times for 64 MiB, and the *sender* pays for every wake-up; the faster the
reader, the more there are. So the reader asks the system to be woken at a low-water mark, and takes what is
there once a path turns out to be too slow for it.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from hawk_agent.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

LOW_WATER = 1 << 20
"""Bytes to be woken for. The system makes the receive buffer large enough for them."""
GATHER_SECONDS = 0.05
"""How long to wait for so many; then any byte will do, so that only silence counts as a stall."""
STALL_SECONDS = 8.0


class Reader:
    """Reads one connected socket, whose time-out and low-water mark it sets as it needs them."""

    def __init__(self, sock: socket.socket, stopped: Callable[[], bool]) -> None:
        self._sock = sock
        self._stopped = stopped
        self._mark = 0
        sock.settimeout(GATHER_SECONDS)

    def fill(self, target: memoryview) -> None:
        """Read until `target` is full.

        Raises:
            TransportError: `stopped` said so between two reads, or the peer closed before the last byte.
            TimeoutError: not a byte came for `STALL_SECONDS`.
            OSError: the connection broke.
        """
        done = 0
        while done < len(target):
            if self._stopped():
                raise TransportError("the transfer was stopped")
            count = self._read(target[done:])
            if count == 0:
                raise TransportError("the sender closed the connection before the last byte")
            done += count

    def _read(self, target: memoryview) -> int:
        """At least one byte, or 0 at the end of the stream."""
        # Never more than is still due: the last bytes of a chunk may be the last for long.
        self._wake_at(min(LOW_WATER, len(target)))
        try:
            return self._sock.recv_into(target)
        except TimeoutError:
            self._wake_at(1)
        self._sock.settimeout(STALL_SECONDS)
        try:
            return self._sock.recv_into(target)
        finally:
            self._sock.settimeout(GATHER_SECONDS)

    def _wake_at(self, nbytes: int) -> None:
        if nbytes != self._mark:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, nbytes)
            self._mark = nbytes
