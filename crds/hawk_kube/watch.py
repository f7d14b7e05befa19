"""A watch: the API server's stream of changes, with a time-out on both sides.

The official client's own `Watch` gives plain dictionaries only without its error events, and begins anew by
itself from wherever it was; here an error event is raised like any other answer's.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import urllib3

from hawk_kube.errors import UnavailableError, failure

if TYPE_CHECKING:
    from collections.abc import Generator


class Watch:
    """An iterator of (type, object), such as `("MODIFIED", {...})`; one thread reads it.

    It ends when the server ends it, when `close` is called, by any thread, or after `seconds`: with an
    UnavailableError where the server should have ended it and didn't, or broke off.
    """

    def __init__(self, call: str, response: urllib3.HTTPResponse, seconds: float) -> None:
        self._call = call
        self._response = response
        self._deadline = time.monotonic() + seconds
        self._closed = False
        self._reading = threading.Lock()
        self._lines = self._read()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[str, dict[str, Any]]:
        try:
            with self._reading:
                line = next(self._lines)
        finally:
            if self._closed:  # asked after the lock is free: `close` either got it or is seen here
                self._response.close()
        try:
            event = json.loads(line)
            kind, body = event["type"], event["object"]
        except (ValueError, TypeError, KeyError) as error:
            self._end()
            raise UnavailableError(f"{self._call}: a line that is no event: {line[:100]!r}") from error
        if kind == "ERROR":
            self._end()
            raise failure(self._call, int(body.get("code") or 500), json.dumps(body).encode())
        return kind, body

    def close(self) -> None:
        """End it; a thread that waits for the next event finds that there is none.

        The connection is closed by that thread, or here where nobody reads.
        """
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # it has ended by itself meanwhile
            self._response.shutdown()
        if self._reading.acquire(blocking=False):
            try:
                self._response.close()
            finally:
                self._reading.release()

    def _end(self) -> None:
        """End it from within the thread that reads it."""
        self._closed = True
        self._lines.close()

    def _read(self) -> Generator[bytes, None, None]:
        buffer = b""
        try:
            for part in self._response.stream():
                *lines, buffer = (buffer + part).split(b"\n")
                yield from (line for line in lines if line)
                if self._closed:
                    return
                if time.monotonic() > self._deadline:
                    raise UnavailableError(f"{self._call}: the server didn't end it in time")
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            if not self._closed:
                raise UnavailableError(f"{self._call}: {type(error).__name__}: {error}") from error
        finally:
            self._closed = True
            self._response.close()
