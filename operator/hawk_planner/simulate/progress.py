"""Progress of a comparison, on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawk_planner.simulate.run import Tell


@contextmanager
def watched(requests: int) -> Iterator[Tell | None]:
    """A progress bar on stderr for the runs of each policy; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}
        runs: dict[str, int] = {}

        def tell(name: str, come: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=requests)
            if come == 0:
                runs[name] = runs.get(name, 0) + 1
            bar.update(tasks[name], completed=come, description=f"{name}, run {runs[name]}")

        yield tell
