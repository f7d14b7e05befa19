"""What happens when the API server says "not now": every thread stops asking for as long as it asked.

Without this, each worker would meet the 429 by itself and the storm would never end. The gate is one for the
process. While it is closed, calls fail at once with `ThrottledError`, whose `remaining` says when to
try again; nobody sleeps in here.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import httpx2

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DEFAULT_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_BUSY: Final = frozenset({429, 503})


class ThrottledError(Exception):
    """The API server asked for patience; `remaining` is in seconds."""

    def __init__(self, remaining: float) -> None:
        super().__init__(f"the API server is overloaded and asked to wait; {remaining:.1f} s are left")
        self.remaining = remaining


def wait_asked(status: int, headers: Mapping[str, str]) -> float | None:
    """Seconds that a response asks to wait, or None where it asks nothing.

    503 counts only with a Retry-After: without one it is an ordinary failure.
    """
    if status not in _BUSY:
        return None
    text = headers.get("Retry-After", "")
    try:
        asked = float(text)
    except ValueError:
        return _DEFAULT_WAIT if status == 429 else None
    return min(max(asked, 0.1), _LONGEST_WAIT)


class Gate:
    """Closed until a moment on a monotonic clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0

    def remaining(self) -> float:
        """Seconds for which the gate stays closed; 0 when it is open."""
        return max(0.0, self._until - self._clock())

    def close(self, seconds: float) -> None:
        """Close for at least `seconds` from now."""
        with self._lock:
            self._until = max(self._until, self._clock() + seconds)


class GatedTransport(httpx2.BaseTransport):
    """Lets requests through while the gate is open, and closes it when a response asks for that."""

    def __init__(self, inner: httpx2.BaseTransport, gate: Gate, throttled: Callable[[], None]) -> None:
        self._inner = inner
        self._gate = gate
        self._throttled = throttled

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send, or raise ThrottledError."""
        remaining = self._gate.remaining()
        if remaining > 0:
            raise ThrottledError(remaining)
        response = self._inner.handle_request(request)
        asked = wait_asked(response.status_code, response.headers)
        if asked is not None:
            self._gate.close(asked)
            self._throttled()
            response.close()
            raise ThrottledError(asked)
        return response

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()
