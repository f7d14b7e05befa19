"""Free ports on 127.0.0.1 that stay ours between choosing and use."""

from __future__ import annotations

import socket
from typing import Self


class Ports:
    """Reserves ports until closed.

    Each port is held by a socket that is bound and never listens: the kernel gives the port to nobody else,
    while a server that sets SO_REUSEADDR (Go's and Python's do, gRPC too) can bind and listen beside it.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reserve(self) -> int:
        """Return a port that is free now and reserved from now on."""
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        self._held.append(held)
        port: int = held.getsockname()[1]
        return port

    def close(self) -> None:
        """Give all ports back."""
        while self._held:
            self._held.pop().close()
