"""hawk bench: what this machine reaches, against its own limit and the peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hawk_agent.layouts import LayoutError
from hawk_operator.cli.output import Output, OutputOption, emit, fail, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

app = typer.Typer(
    help="Measure this machine: ours, the peers' and the limit, interleaved.", no_args_is_help=True
)


MibOption = Annotated[int, typer.Option(help="Bytes of KV to move, in MiB.")]
RoundsOption = Annotated[int, typer.Option(help="Rounds; each runs every case once.")]


@app.callback()
def _root() -> None:
    """Measure this machine: ours, the peers' and the limit, interleaved."""


@app.command()
def copy(
    *,
    mib: MibOption = 64,
    rounds: RoundsOption = 9,
    processes: Annotated[bool, typer.Option(help="Also measure between two processes.")] = True,
    peer: Annotated[
        list[str] | None, typer.Option(help="Also measure a peer (nixl, mooncake); installed on first use.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """The fused copy against plain copies, and between processes against the peers."""
    from hawk_agent.bench.between import bench_between  # noqa: PLC0415 - measuring is all these are for
    from hawk_agent.bench.copying import bench_copy  # noqa: PLC0415
    from hawk_agent.bench.digesting import bench_digest  # noqa: PLC0415

    def measured() -> dict[str, Any]:
        answer = bench_copy(mib, rounds) | bench_digest(mib, rounds)
        if processes or peer:
            answer |= bench_between(mib, rounds, peers=tuple(peer or ()))
        return answer

    _run(measured, rounds, output)


@app.command()
def descriptors(*, mib: MibOption = 4, rounds: RoundsOption = 5, output: OutputOption = Output.TABLE) -> None:
    """A translation as the nest against the same as NIXL's list of 32-byte descriptors."""
    from hawk_agent.bench.between import bench_descriptors  # noqa: PLC0415 - as above

    _run(lambda: bench_descriptors(mib, rounds), rounds, output)


@app.command()
def tcp(*, mib: MibOption = 64, rounds: RoundsOption = 9, output: OutputOption = Output.TABLE) -> None:
    """TCP that translates on the way, against plain TCP of the same bytes."""
    from hawk_agent.bench.network import bench_tcp  # noqa: PLC0415 - as above

    _run(lambda: bench_tcp(mib, rounds), rounds, output)


@app.command()
def plan(
    *,
    source: Annotated[str, typer.Option("--from", help="The source's preset.")] = "row-major",
    target: Annotated[str, typer.Option("--to", help="The destination's preset.")] = "tiles-16x16",
    rounds: RoundsOption = 30,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compiling, finding and pricing the nest of a 70B model's KV, at 32,768 and 131,072 tokens."""
    from hawk_agent.bench.planning import bench_plan  # noqa: PLC0415 - as above

    _run(lambda: bench_plan(rounds, source=source, target=target), rounds, output)


@app.command()
def verbs(*, rounds: RoundsOption = 15, output: OutputOption = Output.TABLE) -> None:
    """What a work request costs the processor, posted to a device that does nothing; needs no RDMA."""
    from hawk_agent.bench.posting import bench_posting  # noqa: PLC0415 - as above

    _run(lambda: bench_posting(rounds), rounds, output)


def _run(measured: Callable[[], dict[str, Any]], rounds: int, output: Output) -> None:
    from hawk_agent.bench.errors import BenchError  # noqa: PLC0415 - as above

    if not 1 <= rounds <= 1000:
        fail(f"--rounds: {rounds}; give a number from 1 to 1000")
    try:
        answer = measured()
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
