"""Accepting connections so that nothing ends it, and so that nobody's silence keeps others out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from hawk_agent.supervision import Duty, TaskSupervisor

log = logging.getLogger(__name__)

REST_SECONDS = 0.2
"""After a connection that couldn't be accepted, for want of descriptors mostly."""
GREETING_SECONDS = 1.0
"""In which a connection must have shown what it is for."""
MAX_STRANGERS = 64
"""Connections that haven't yet; beyond, the one that has been silent for longest is closed."""


class Acceptor:
    """Hands each connection of a listening, non-blocking socket to `admit`, which owns it then."""

    def __init__(
        self,
        name: str,
        listener: socket.socket,
        admit: Callable[[socket.socket], None],
        supervisor: TaskSupervisor,
    ) -> None:
        self._name = name
        self._listener = listener
        self._admit = admit
        self._ready = asyncio.Event()
        self._duty: Duty = supervisor.keep(f"accepting {name}", self._accept)

    def close(self) -> None:
        """Accept no more. The listener stays the caller's."""
        self._duty.cancel()
        asyncio.get_running_loop().remove_reader(self._listener)

    async def _accept(self) -> None:
        failing = False
        while True:
            # Waited for and then taken at once: a connection can't be lost between two steps of the loop.
            self._ready.clear()
            asyncio.get_running_loop().add_reader(self._listener, self._wake)
            await self._ready.wait()
            error = self._take_all()
            if error is not None:
                if not failing:
                    log.warning("%s: a connection could not be accepted: %s", self._name, error)
                await asyncio.sleep(REST_SECONDS)
            failing = error is not None

    def _wake(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._ready.set()

    def _take_all(self) -> OSError | None:
        """Admit those that wait; why one of them couldn't be accepted now."""
        while True:
            try:
                client, _ = self._listener.accept()
            except BlockingIOError:
                return None
            except OSError as error:  # out of descriptors, or the client is gone already
                return error
            client.setblocking(False)
            self._admit(client)


class Strangers:
    """Connections that must show something first: within a second, and few at a time.

    `greet` reads what a connection shows, and returns whether it has taken the connection over.
    """

    def __init__(self, greet: Callable[[socket.socket], Awaitable[bool]]) -> None:
        self._greet = greet
        self._known: dict[asyncio.Task[bool], socket.socket] = {}

    def admit(self, client: socket.socket) -> None:
        """Greet a connection; it is closed unless it is taken over."""
        if len(self._known) >= MAX_STRANGERS:
            next(iter(self._known)).cancel()
        task = asyncio.create_task(self._met(client))
        self._known[task] = client
        task.add_done_callback(partial(self._done, client))

    async def _met(self, client: socket.socket) -> bool:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(GREETING_SECONDS):
                return await self._greet(client)
        return False

    def _done(self, client: socket.socket, task: asyncio.Task[bool]) -> None:
        self._known.pop(task, None)
        if task.cancelled() or task.exception() is not None or not task.result():
            client.close()

    async def close(self) -> None:
        """Close them all."""
        tasks = tuple(self._known)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_exactly(client: socket.socket, count: int) -> bytes:
    """So many bytes of a non-blocking socket. ConnectionResetError when it is closed before."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < count:
        part = await loop.sock_recv(client, count - len(data))
        if not part:
            raise ConnectionResetError(f"closed after {len(data)} of {count} bytes")
        data += part
    return data
