"""Compare every policy on every traffic: `python -m tests.bench.policies [TRACE FILE …]`.

Writes a result for each traffic and order beside docs/scaling.md, then the page's tables and pictures. Runs
are kept under the user's cache: what is interrupted goes on where it was, what is repeated takes seconds.
"""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from hawk_api.v1alpha1.enums import QueueOrder
from hawk_planner.simulate.cache import Store
from hawk_planner.simulate.generate import SCENARIOS, scenario
from hawk_planner.simulate.progress import watched
from hawk_planner.simulate.traces import TraceError, load_trace
from tests.bench.policies import page
from tests.bench.policies.measure import measure
from tests.bench.policies.results import save

GENERATED = ("rag", "agent", "shift", "diurnal", "burst")


def main(
    traces: Annotated[
        list[Path] | None, typer.Argument(help="Trace files, beside generated traffic.")
    ] = None,
    *,
    only: Annotated[
        list[str] | None, typer.Option(help=f"Generated traffic, of {', '.join(SCENARIOS)}; repeats.")
    ] = None,
    none: Annotated[bool, typer.Option("--no-generated", help="Only the trace files.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the generated traffic.")] = 1,
    order: Annotated[list[QueueOrder] | None, typer.Option(help="How prompts wait; repeats.")] = None,
    docs: Annotated[Path, typer.Option(help="The folder with scaling.md.")] = page.DOCS,
) -> None:
    """Measure, then write the page."""
    try:
        found = [*map(load_trace, traces or ()), *(scenario(name, seed) for name in _names(only, none=none))]
    except TraceError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    for trace in found:
        for kind in order or list(QueueOrder):
            began, store = time.monotonic(), Store()
            with watched(len(trace.requests)) as tell:
                # Order of arrival is there to show the rules as they are used; the rest is told by slack.
                result = measure(trace, kind, store=store, tell=tell, curves=kind is QueueOrder.SLACK)
            save(docs / page.RESULTS, result)
            took = time.monotonic() - began
            sys.stderr.write(f"{result.stem}: {took:.0f} s, {store.found} runs were known\n")
    page.write(docs)


def _names(only: list[str] | None, *, none: bool) -> tuple[str, ...]:
    names = () if none else tuple(only or GENERATED)
    for name in names:
        if name not in SCENARIOS:
            typer.echo(f"error: --only: {name!r} is unknown; use one of {', '.join(SCENARIOS)}", err=True)
            raise typer.Exit(2)
    return names


if __name__ == "__main__":
    typer.run(main)
