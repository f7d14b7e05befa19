"""One connection to the agent: requests from any thread, one reader that hands out replies."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path

from hawk_agent.errors import (
    AgentTimeoutError,
    AgentUnavailableError,
    HawkAgentError,
    TransferFailedError,
    by_name,
)
from hawk_agent.protocol import engine_pb2, framing
from hawk_agent.transfer.outcome import outcome_from_wire

GRACE_SECONDS = 5.0
"""How much longer than the agent's own time-out the client waits for its reply."""


class Connection:
    """Thread-safe. After `close`, or when the agent goes, every request raises AgentUnavailableError."""

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[engine_pb2.Reply]] = {}
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._gone: AgentUnavailableError | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(path)
            _check_server(self._socket, Path(path))
            self._socket.settimeout(None)
        except AgentUnavailableError:
            self._socket.close()
            raise
        except OSError as error:
            self._socket.close()
            raise AgentUnavailableError(
                f"no agent answers at {path} ({error.strerror or error}); is it running, and mounted?"
            ) from error
        self._reader = threading.Thread(target=self._read, name="hawk-engine", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        """True if the agent still is at the other end; once False, it stays so."""
        with self._lock:
            return self._gone is None

    def ask(
        self, request: engine_pb2.Request, descriptors: list[int] | None = None, timeout: float | None = None
    ) -> engine_pb2.Reply:
        """Send a request and wait for its reply. Raises the error that the agent named."""
        answer: Future[engine_pb2.Reply] = Future()
        request.id = next(self._numbers)
        request.descriptors = len(descriptors or ())
        with self._lock:
            if self._gone is not None:
                raise AgentUnavailableError(str(self._gone))
            self._waiting[request.id] = answer
        try:
            with self._sending:
                framing.send_frame(self._socket, request.SerializeToString(), descriptors)
            reply = answer.result(self._timeout if timeout is None else timeout + GRACE_SECONDS)
        except FutureTimeout as error:
            raise AgentTimeoutError(f"the agent at {self._path} gave no answer in time") from error
        except OSError as error:
            raise AgentUnavailableError(
                f"the agent at {self._path} is gone ({error.strerror or error})"
            ) from error
        finally:
            with self._lock:
                self._waiting.pop(request.id, None)
        if reply.WhichOneof("body") == "failure":
            raise _error(reply.failure)
        return reply

    def _read(self) -> None:
        decoder = framing.Decoder()
        why = "closed the connection"
        try:
            while data := self._socket.recv(1 << 16):
                for frame in decoder.feed(data):
                    self._hand_out(engine_pb2.Reply.FromString(frame))
        except OSError as error:
            why = f"is gone ({error.strerror or error})"
        except Exception as error:  # noqa: BLE001 -- whoever waits must hear of it
            why = f"sent what is no reply ({error})"
        self._fail(AgentUnavailableError(f"the agent at {self._path} {why}"))

    def _hand_out(self, reply: engine_pb2.Reply) -> None:
        if reply.id == 0:
            self._fail(
                AgentUnavailableError(
                    f"the agent at {self._path} closes the connection: {reply.failure.message}"
                )
            )
            return
        with self._lock:
            answer = self._waiting.get(reply.id)
        if answer is not None and not answer.done():
            answer.set_result(reply)

    def _fail(self, error: AgentUnavailableError) -> None:
        with self._lock:
            self._gone = self._gone or error
            waiting = list(self._waiting.values())
        for answer in waiting:
            if not answer.done():
                answer.set_exception(self._gone)

    def close(self) -> None:
        """Close; the agent then ends this engine's leases and transfers, and forgets its regions."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join(self._timeout)
        self._socket.close()


def _check_server(connected: socket.socket, path: Path) -> None:
    _, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    refuse_stranger(user, path.parent.stat().st_uid, path)


def refuse_stranger(user: int, owner: int, path: Path) -> None:
    """Raise unless root or the owner of the socket's folder listens: nobody else is shown a token."""
    if user not in {0, owner}:
        raise AgentUnavailableError(
            f"user {user} listens at {path}, whose folder belongs to user {owner}: that is no agent; "
            "look who put the socket there"
        )


def _error(failure: engine_pb2.Failure) -> HawkAgentError:
    if failure.kind == TransferFailedError.__name__:
        outcome = outcome_from_wire(failure.outcome)
        return TransferFailedError(outcome, failure.message.removeprefix(f"{outcome.label}: "))
    return by_name(failure.kind)(failure.message)
