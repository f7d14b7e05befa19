"""hawk bench: what this machine reaches, against its own limit and the peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hawk_agent.layouts import LayoutError
from hawk_operator.cli.output import Output, OutputOption, emit, fail, rows

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(
    help="Measure this machine: ours, the peers' and the limit, interleaved.", no_args_is_help=True
)


@app.callback()
def _root() -> None:
    """Measure this machine: ours, the peers' and the limit, interleaved."""


@app.command()
def copy(
    *,
    mib: Annotated[int, typer.Option(help="Bytes of KV to move, in MiB.")] = 64,
    rounds: Annotated[int, typer.Option(help="Rounds; each runs every case once.")] = 9,
    processes: Annotated[bool, typer.Option(help="Also measure between two processes.")] = True,
    peer: Annotated[
        list[str] | None, typer.Option(help="Also measure a peer (nixl, mooncake); installed on first use.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """The fused copy against plain copies, and between processes against the peers."""
    from hawk_agent.bench.between import bench_between  # noqa: PLC0415 - measuring is all these are for
    from hawk_agent.bench.copying import bench_copy  # noqa: PLC0415
    from hawk_agent.bench.errors import BenchError  # noqa: PLC0415

    if not 1 <= rounds <= 1000:
        fail(f"--rounds: {rounds}; give a number from 1 to 1000")
    try:
        answer = bench_copy(mib, rounds)
        if processes or peer:
            answer |= bench_between(mib, rounds, peers=tuple(peer or ()))
    except LayoutError as error:
        fail(str(error))
    except BenchError as error:
        fail(str(error), 1)
    emit(answer, output, lambda: _table(answer))


def _table(answer: dict[str, Any]) -> Table:
    lines = []
    for key, value in answer.items():
        if key.endswith("_spread"):
            continue
        between = answer.get(f"{key}_spread")
        lines.append((key, value if not isinstance(value, float) else f"{value:.4g}", _span(between)))
    return rows(None, ["", "#median", "quartiles"], lines)


def _span(between: list[float] | None) -> str:
    return f"{between[0]:.3g} to {between[1]:.3g}" if between else ""
