"""hawk bench: measure this machine against its own limit and the baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hawk_agent.layouts import PRESETS, LayoutError
from hawk_agent.layouts.presets import unknown_preset_message
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

app = typer.Typer(
    help="Measure HawkPool, the baselines and this machine's limit, interleaved.", no_args_is_help=True
)


def _preset_names() -> list[str]:
    return list(PRESETS)


def _baseline_names() -> tuple[str, ...]:
    from hawk_cli.bench.baselines.environments import BASELINES  # noqa: PLC0415 - measuring is all these are for

    return BASELINES


MibOption = Annotated[int, typer.Option(help="KV to move, MiB.")]
RoundsOption = Annotated[int, typer.Option(help="Rounds of every case.")]


@app.callback()
def _root() -> None:
    """Measure HawkPool, the baselines and this machine's limit, interleaved."""


@app.command("copy")
def measure_copy(
    *,
    mib: MibOption = 64,
    rounds: RoundsOption = 9,
    processes: Annotated[bool, typer.Option(help="Also measure between two processes.")] = True,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            help="Also measure a baseline (nixl, mooncake); installed on first use.",
            autocompletion=_baseline_names,
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Measure the fused copy against plain copies, and between processes against the baselines."""
    from hawk_cli.bench.between import bench_between  # noqa: PLC0415 - as above
    from hawk_cli.bench.copying import bench_copy  # noqa: PLC0415
    from hawk_cli.bench.digesting import bench_digest  # noqa: PLC0415

    for name in baseline or ():
        if name not in _baseline_names():
            fail(f"--baseline: {name!r} isn't known; use one of {', '.join(_baseline_names())}")

    def measured() -> dict[str, Any]:
        answer = bench_copy(mib, rounds) | bench_digest(mib, rounds)
        if processes or baseline:
            answer |= bench_between(mib, rounds, baselines=tuple(baseline or ()))
        return answer

    _emit_measured(measured, rounds, output, mib=mib)


@app.command("descriptors")
def measure_descriptors(
    *, mib: MibOption = 4, rounds: RoundsOption = 5, output: OutputOption = Output.TABLE
) -> None:
    """Measure a translation by the nest against one by NIXL's list of 32-byte descriptors."""
    from hawk_cli.bench.between import bench_descriptors  # noqa: PLC0415 - as above

    _emit_measured(lambda: bench_descriptors(mib, rounds), rounds, output, mib=mib)


@app.command("tcp")
def measure_tcp(
    *, mib: MibOption = 64, rounds: RoundsOption = 9, output: OutputOption = Output.TABLE
) -> None:
    """Measure TCP that translates on the way against plain TCP of the same bytes."""
    from hawk_cli.bench.network import bench_tcp  # noqa: PLC0415 - as above

    _emit_measured(lambda: bench_tcp(mib, rounds), rounds, output, mib=mib)


@app.command("plan")
def measure_planning(
    *,
    source: Annotated[
        str, typer.Option("--from", help="The source's preset.", autocompletion=_preset_names)
    ] = "row-major",
    target: Annotated[
        str, typer.Option("--to", help="The destination's preset.", autocompletion=_preset_names)
    ] = "tiles-16x16",
    rounds: RoundsOption = 30,
    output: OutputOption = Output.TABLE,
) -> None:
    """Measure compiling, finding and pricing a 70B model's nest, at 32,768 and 131,072 tokens."""
    from hawk_cli.bench.planning import bench_plan  # noqa: PLC0415 - as above

    for option, name in (("--from", source), ("--to", target)):
        if name not in PRESETS:
            fail(f"{option}: {unknown_preset_message(name)}")
    _emit_measured(lambda: bench_plan(rounds, source=source, target=target), rounds, output)


@app.command("verbs")
def measure_posting(*, rounds: RoundsOption = 15, output: OutputOption = Output.TABLE) -> None:
    """Measure the CPU time of a work request, posted to a device that does nothing; needs no RDMA."""
    from hawk_cli.bench.posting import bench_posting  # noqa: PLC0415 - as above

    _emit_measured(lambda: bench_posting(rounds), rounds, output)


def _emit_measured(
    measured: Callable[[], dict[str, Any]], rounds: int, output: Output, *, mib: int | None = None
) -> None:
    from hawk_cli.bench.errors import BenchError  # noqa: PLC0415 - as above
    from hawk_cli.bench.workload import MOST_MEBIBYTES  # noqa: PLC0415 - as above

    if not 1 <= rounds <= 1000:
        fail(f"--rounds: {rounds}; give a number from 1 to 1000")
    if mib is not None and not 1 <= mib <= MOST_MEBIBYTES:
        fail(f"--mib: {mib}; give a size from 1 to {MOST_MEBIBYTES} MiB")
    try:
        answer = measured()
    except LayoutError as error:
        fail(str(error))
    except BenchError as error:
        fail(str(error), 1)
    emit_output(answer, output, lambda: _table(answer))


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
