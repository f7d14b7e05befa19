"""Show what takes long: a spinner on a terminal, plain lines in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.status import Status

LINE_EVERY_SECONDS = 15.0


class Step:
    """One thing under way; `update` says how far it is and may be called as often as one likes."""

    def __init__(self, title: str, console: Console, spinner: Status | None) -> None:
        self.title = title
        self.started = time.monotonic()
        self._console = console
        self._spinner = spinner
        self._last_line = self.started

    @property
    def seconds(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self.started

    def update(self, detail: str) -> None:
        """Show `detail` beside the title and the time elapsed."""
        if self._spinner:
            self._spinner.update(f"{self.title} [dim]{detail} ({self.seconds:.0f} s)[/dim]")
        elif time.monotonic() - self._last_line >= LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            line(self._console, f"    {detail} ({self.seconds:.0f} s)")


class Progress:
    """Prints steps and their times to standard error, so that standard output stays for results."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(file=sys.stderr)

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show `title` while the block runs and its seconds when it has ended."""
        if self.console.is_terminal:
            with self.console.status(title) as spinner:
                step = Step(title, self.console, spinner)
                yield step
        else:
            line(self.console, f"==> {title}")
            step = Step(title, self.console, None)
            yield step
        line(self.console, f"    {title}: {step.seconds:.1f} s")

    def say(self, text: str) -> None:
        """Print one line."""
        line(self.console, f"    {text}")


class Silent(Progress):
    """Shows nothing; for callers that have no screen of their own."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))


def line(console: Console, text: str) -> None:
    """Print one line as it is, however long."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
