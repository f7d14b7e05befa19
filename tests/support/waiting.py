"""Wait for something to become true, for a bounded time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
PATIENCE_SECONDS = 180.0
"""Enough for a machine that others keep busy. Only what never becomes so is waited for this long."""


def until(
    probe: Callable[[], T],
    *,
    what: str,
    timeout: float = PATIENCE_SECONDS,
    interval: float = 0.1,
    ignore: tuple[type[Exception], ...] = (AssertionError,),
) -> T:
    """Return the first true value of `probe()`.

    Exceptions of the types in `ignore` count as "not yet". Raises TimeoutError after `timeout` seconds, with
    what the last look saw.
    """
    deadline = time.monotonic() + timeout
    while True:
        cause: Exception | None = None
        try:
            seen: object = probe()
        except ignore as error:
            seen, cause = error, error
        else:
            if seen:
                return seen  # type: ignore[return-value]
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not so within {timeout:g} s; last seen: {seen!r}") from cause
        time.sleep(interval)
