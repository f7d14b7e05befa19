"""The engines' Unix socket: frames in, replies out, and what happens when an engine goes away.

A connection that sends what is no message gets one error and is closed; the others go on. Requests of a
connection run side by side, so that a long wait doesn't block an acknowledgement; how many at once is
bounded, and so is what waits to be written to an engine that doesn't read.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from hawk_agent.errors import FrameError, HawkAgentError, LimitReachedError, TransferFailedError
from hawk_agent.net import sockets
from hawk_agent.net.accepting import MAX_STRANGERS, Acceptor
from hawk_agent.protocol import engine_pb2, framing

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from hawk_agent.metrics import AgentMetrics
    from hawk_agent.service.requests import Requests
    from hawk_agent.supervision import Duty, TaskSupervisor

    MakeRequests = Callable[[object], Requests]

log = logging.getLogger(__name__)

MAX_ENGINES = 256
HELLO_SECONDS = 5.0
"""In which a connection must have said who it is."""
MAX_REQUESTS = 512
"""Requests of one connection that run at once."""
MAX_REPLIES = 2048
"""Replies that wait for one engine to read."""


class EngineServer:
    """Accepts engines at a path; `requests` makes what answers one connection, which owns what it makes."""

    def __init__(
        self,
        path: Path,
        mode: int,
        *,
        metrics: AgentMetrics,
        requests: MakeRequests,
        supervisor: TaskSupervisor,
    ) -> None:
        self._supervisor = supervisor
        self._metrics = metrics
        self._requests = requests
        self._path = path
        self._mode = mode
        self._listener: socket.socket | None = None
        self._acceptor: Acceptor | None = None
        self._connections: dict[EngineConnection, Duty] = {}

    async def start(self) -> None:
        """Listen. SocketInUseError when another process does."""
        self._listener = sockets.listen_unix(self._path, mode=self._mode)
        self._acceptor = Acceptor("engines", self._listener, self._admit, self._supervisor)

    def _admit(self, client: socket.socket) -> None:
        """Serve one more. Silent ones make room for it, engines don't."""
        strangers = [connection for connection in self._connections if not connection.greeted]
        if len(strangers) >= MAX_STRANGERS:
            strangers[0].hang_up()
        if len(self._connections) - len(strangers) >= MAX_ENGINES:
            client.close()
            return
        connection = EngineConnection(client, self._metrics, self._requests)
        duty = self._supervisor.finish("serving an engine", connection.run)
        self._connections[connection] = duty
        duty.done.add_done_callback(functools.partial(self._gone, connection))
        self._metrics.engines.set(len(self._connections))

    def _gone(self, connection: EngineConnection, _: asyncio.Future[None]) -> None:
        self._connections.pop(connection, None)
        self._metrics.engines.set(len(self._connections))

    async def close(self) -> None:
        """Stop accepting, and let every connection end as if its engine had gone."""
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in self._connections:
            connection.hang_up()
        await asyncio.gather(*(duty.done for duty in self._connections.values()), return_exceptions=True)
        if self._listener is not None:
            sockets.close_unix(self._listener, self._path)


@dataclass(slots=True)
class _Message:
    """A request with the descriptors that came with it; whoever takes one removes it from the list."""

    request: engine_pb2.Request
    descriptors: list[int]
    cut: bool = False
    """Its descriptors didn't come: this process has no room for them."""

    def close(self) -> None:
        framing.close_descriptors(self.descriptors)
        self.descriptors.clear()


class EngineConnection:
    """One engine."""

    def __init__(self, client: socket.socket, metrics: AgentMetrics, requests: MakeRequests) -> None:
        self._metrics = metrics
        self._client = client
        self._decoder = framing.Decoder()
        self._descriptors = framing.Descriptors()
        self._messages: asyncio.Queue[_Message | FrameError | None] = asyncio.Queue()
        self._replies: asyncio.Queue[engine_pb2.Reply] = asyncio.Queue(MAX_REPLIES)
        self._requests = requests(object())  # known by it in what outlives the connection
        self._running: dict[asyncio.Task[None], _Message] = {}
        self._writing: asyncio.Task[None] | None = None
        self._cut = False
        """Descriptors were cut off whose request isn't complete yet."""

    async def run(self) -> None:
        """Serve until the engine goes, or says what is no message. Begun again, it only ends what is left."""
        if self._writing is None:
            asyncio.get_running_loop().add_reader(self._client, self._readable)
            self._writing = asyncio.create_task(self._write())
            self._writing.add_done_callback(lambda _: self.hang_up())
            silence = asyncio.get_running_loop().call_later(HELLO_SECONDS, self._leave_silent)
            try:
                await self._serve()
            finally:
                silence.cancel()
        self.hang_up()
        await self._flush(self._writing)
        tasks = (self._writing, *self._running)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self._drop_unserved()
        await self._requests.close()
        self._client.close()

    def _leave_silent(self) -> None:
        if not self.greeted and not self._running:
            self._stop_reading(FrameError(f"no hello within {HELLO_SECONDS:g} s"))

    def _readable(self) -> None:
        """Take what has come. Runs in the loop; never blocks."""
        try:
            data, descriptors = framing.receive_frame(self._client)
        except BlockingIOError:
            return
        except framing.DescriptorsCutError as error:
            data, descriptors = error.data, []
            self._cut = True
        except OSError:
            self._stop_reading(None)
            return
        try:
            self._descriptors.add(descriptors)
            if not data:
                self._stop_reading(None)
                return
            for frame in self._decoder.feed(data):
                self._messages.put_nowait(self._parse(frame))
            self._refuse_unclaimed()
        except FrameError as error:
            self._stop_reading(error)

    def _refuse_unclaimed(self) -> None:
        if self._descriptors and not self._decoder.pending:
            raise FrameError(f"{len(self._descriptors)} descriptors came that no message claims")

    def _parse(self, frame: bytes) -> _Message:
        try:
            request = engine_pb2.Request.FromString(frame)
        except DecodeError as error:
            raise FrameError(f"a frame of {len(frame)} bytes is no request ({error})") from error
        if request.WhichOneof("body") is None:
            raise FrameError("a request without a body, or of a kind that this agent doesn't know")
        if self._cut and request.descriptors > len(self._descriptors):
            self._cut = False
            self._descriptors.close()
            return _Message(request, [], cut=True)
        return _Message(request, self._descriptors.take(request.descriptors))

    @property
    def greeted(self) -> bool:
        """True if it has said who it is."""
        return self._requests.greeted

    def hang_up(self) -> None:
        """End the connection from this side."""
        self._stop_reading(None)

    def _stop_reading(self, why: FrameError | None) -> None:
        if self._client.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._client)
        self._messages.put_nowait(why)

    async def _serve(self) -> None:
        while True:
            message = await self._messages.get()
            if message is None:
                return
            if isinstance(message, FrameError):
                self._metrics.bad_frames.inc()
                log.warning("an engine's connection is closed: %s", message)
                self.reply(_failure(0, message))
                return
            if message.cut:
                most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
                self.reply(
                    _failure(
                        message.request.id,
                        LimitReachedError(
                            f"the agent has no room for {message.request.descriptors} descriptors, its limit "
                            f"is {most} in all; wait for transfers to end, or raise the limit of open files"
                        ),
                    )
                )
                continue
            if len(self._running) >= MAX_REQUESTS:
                message.close()
                self.reply(
                    _failure(
                        message.request.id,
                        LimitReachedError(f"{MAX_REQUESTS} requests run already; wait for replies"),
                    )
                )
                continue
            task = asyncio.create_task(self._answer(message))
            self._running[task] = message
            task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        """A request that was cut off is told so, and what came with it and wasn't taken is closed."""
        message = self._running.pop(task)
        message.close()
        if task.cancelled():
            self.reply(_failure(message.request.id, HawkAgentError("the request was cut off; ask again")))

    async def _answer(self, message: _Message) -> None:
        request = message.request
        try:
            reply = await self._requests.answer(request, message.descriptors)
        except HawkAgentError as error:
            reply = _failure(request.id, error)
        except Exception as error:
            log.exception("request %s", request.WhichOneof("body"))
            reply = _failure(request.id, HawkAgentError(f"the agent failed: {type(error).__name__}: {error}"))
        self.reply(reply)

    def reply(self, reply: engine_pb2.Reply) -> None:
        """Queue a reply. An engine that lets thousands lie is cut off."""
        try:
            self._replies.put_nowait(reply)
        except asyncio.QueueFull:
            self._stop_reading(FrameError(f"{MAX_REPLIES} replies wait; the engine doesn't read"))

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while True:
                reply = await self._replies.get()
                await loop.sock_sendall(self._client, framing.encode_frame(reply.SerializeToString()))
                self._replies.task_done()

    async def _flush(self, writing: asyncio.Task[None]) -> None:
        """Let the last error out, if the engine reads."""
        joining = asyncio.create_task(self._replies.join())
        await asyncio.wait({joining, writing}, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
        joining.cancel()

    def _drop_unserved(self) -> None:
        self._descriptors.close()
        while not self._messages.empty():
            message = self._messages.get_nowait()
            if isinstance(message, _Message):
                message.close()


def _failure(request: int, error: HawkAgentError) -> engine_pb2.Reply:
    failure = engine_pb2.Failure(kind=type(error).__name__, message=str(error))
    if isinstance(error, TransferFailedError):
        failure.outcome = error.outcome.wire
    return engine_pb2.Reply(id=request, failure=failure)
