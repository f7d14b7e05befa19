"""The demo's output while it runs and at its end: a live table, a summary, or JSON."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

MARKS = {"waiting": "dim", "running": "yellow", "PASS": "green", "FAIL": "bold red", "not run": "dim"}


class DemoError(Exception):
    """A step did not do what it promises; the message says what was seen instead."""


@dataclass
class Step:
    """One promise of the demo and how it went."""

    name: str
    title: str
    state: str = "waiting"
    detail: str = ""
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)


class Report:
    """The steps, the pool as it is now, its decisions so far, and the console they go to."""

    def __init__(self, steps: list[Step], *, as_json: bool) -> None:
        self.steps = {step.name: step for step in steps}
        self.decisions: list[dict[str, Any]] = []
        self._pool: list[str] = []
        self._as_json = as_json
        self._console = Console(stderr=as_json)
        self._live = Live(get_renderable=self._picture, console=self._console, refresh_per_second=4)

    def __enter__(self) -> "Report":
        # Where nobody watches (a log, CI) a table redrawn four times a second would only be noise.
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live.is_started:
            self._live.stop()

    @property
    def live(self) -> bool:
        """True if somebody watches the table while the demo runs."""
        return self._live.is_started

    def drive(self, demo: object) -> None:
        """Its steps in turn, each by the demo's method of its name; DemoError at the first that fails."""
        for name in self.steps:
            with self.step(name) as step:
                getattr(demo, name)(step)

    def say(self, line: str) -> None:
        """Print one line above the table."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def watch(self, pool: dict[str, Any], table: list[str]) -> None:
        """Show the pool as it is now, and keep every decision that it reports."""
        known = {decision["time"] + decision["message"] for decision in self.decisions}
        for decision in reversed(pool.get("status", {}).get("decisions", [])):
            if decision["time"] + decision["message"] not in known:
                self.decisions.append(decision)
        self._pool = [*table, *(f"  {d['reason']}: {d['message']}" for d in self.decisions[-1:])]

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Run one step: it passes if the body ends, and fails with what the body raised."""
        step, started = self.steps[name], time.monotonic()
        step.state = "running"
        self.say(f"[{name}] {step.title}")
        try:
            yield step
        except Exception as error:
            step.state = "FAIL"
            step.detail = (
                f"{type(error).__name__}: {error}" if not isinstance(error, DemoError) else str(error)
            )
            raise DemoError(step.detail) from error
        else:
            step.state = "PASS"
        finally:
            step.seconds = time.monotonic() - started
            self.say(f"[{name}] {step.state} after {step.seconds:.1f} s: {step.detail}")
            # A dead process's error ends with its log: all of it above, its last line in the table.
            step.detail = " … ".join(
                dict.fromkeys(step.detail.splitlines()[:: max(1, step.detail.count("\n"))])
            )

    @property
    def passed(self) -> bool:
        """True if every step passed."""
        return all(step.state == "PASS" for step in self.steps.values())

    def finish(self) -> None:
        """Print the summary, and the JSON where it was asked for."""
        for step in self.steps.values():
            if step.state in {"waiting", "running"}:
                step.state = "not run"
        self._console.print(self._picture())
        self._console.print(Text("PASS" if self.passed else "FAIL", MARKS["PASS" if self.passed else "FAIL"]))
        if self._as_json:
            steps = [{**vars(step), "seconds": round(step.seconds, 3)} for step in self.steps.values()]
            document = {"passed": self.passed, "steps": steps, "decisions": self.decisions}
            print(json.dumps(document, indent=2, default=str))

    def _picture(self) -> Group:
        table = Table("step", "", "s", "what was seen", expand=False)
        for step in self.steps.values():
            state = Text(step.state, MARKS[step.state])
            table.add_row(step.title, state, f"{step.seconds:.1f}" if step.seconds else "", Text(step.detail))
        return Group(table, *(Text(line) for line in self._pool))
