"""Follow a process: copy what it writes as it comes, until it has ended or its time is up."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

POLL_SECONDS = 0.05
TIMED_OUT, DIED = 124, 125


@dataclass(frozen=True)
class Ended:
    """The command's status, or 124 (time is up) or 125 (what ran it died), and then what to show."""

    status: int
    trouble: str = ""


def follow(
    source: BinaryIO, output: BinaryIO, status: Callable[[float], Ended | None], *, timeout: float
) -> Ended:
    """Copy `source` to `output` until `status`, asked with the seconds so far, says how it ended."""
    began = time.monotonic()
    while True:
        seconds = time.monotonic() - began
        # Asked before the copy: what was written before the end is then copied too.
        ended = status(seconds)
        while block := source.read(1 << 16):
            output.write(block)
            output.flush()
        if ended:
            return ended
        if seconds > timeout:
            return Ended(TIMED_OUT, f"the command still ran after {timeout:.0f} s and was ended")
        time.sleep(POLL_SECONDS)
