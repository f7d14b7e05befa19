"""Backing off where the API server asks for it (Retry-After): every thread stops calling for as long.

Without this, each worker would meet the 429 by itself and the storm would never end. The gate is one for the
process. While it is closed, calls fail at once, with the time to try again; nobody sleeps in here.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DEFAULT_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_BUSY: Final = frozenset({429, 503})


def retry_after(status: int, headers: Mapping[str, str]) -> float | None:
    """Seconds that a response asks to wait (0.1 to 60), or None where it asks nothing.

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
    """Closed until a moment on a monotonic clock; `throttled` hears each time that a response closes it."""

    def __init__(
        self, throttled: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._throttled = throttled
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
        self._throttled()
