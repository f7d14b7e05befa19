"""hawk payoff: the arithmetic of splitting inference, from the figures on the command line."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from hawk_cli.commands import decisions, references
from hawk_cli.support.geometry import ConfigOption, ModelOption, chosen_geometry
from hawk_cli.support.output import Output, OutputOption, emit_output, rows
from hawk_cli.support.refusal import refuse_input
from hawk_planner.payoff import pictures, reports
from hawk_planner.payoff.checks import InputError
from hawk_planner.payoff.draw import write_figure
from hawk_planner.payoff.inputs import AfdInputs, PdInputs, PipelineInputs, TdInputs, bounded
from hawk_planner.payoff.sweep import parse_sweeps, sweep_inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from hawk_api.models import Geometry
    from hawk_planner.payoff.charts import Chart

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Calculate what splitting inference costs and saves."
)

OPTIONS = {
    "link bandwidth": "--link-gbps",
    "saving per token": "--decode-saving-ms-per-token",
    "verification time": "--verify-ms",
    "target time per token": "--target-ms-per-token",
    "draft time per token": "--draft-ms-per-token",
    "synchronisation time": "--synchronisation-ms",
    "compute time per chunk": "--compute-ms-per-chunk",
    "chunk overhead": "--overhead-us-per-chunk",
    "FFN ranks": "--ffn-ranks",
    "longest draft": "--longest",
}
"""Options whose name isn't the field's own."""
ALIASES = {"prompt": "prompt_tokens", "output": "output_tokens", "link": "link_gbps", "overlap": "hidden"}


Sweep = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep", help="NAME=V1,V2,... or NAME=FROM:TO:COUNT; may be repeated.", show_default=False
    ),
]
Plot = Annotated[
    Path | None, typer.Option(help="Write a plot: .png, .svg, or .csv for its data.", show_default=False)
]
Figure = Annotated[str, typer.Option(help="Key of the figure that a sweep shows.")]
AROUND: dict[str, tuple[Any, Any]] = {
    "model": (ModelOption, None),
    "config": (ConfigOption, None),
    "sweeps": (Sweep, None),
    "figure": (Figure, ""),
    "plot": (Plot, None),
    "output": (OutputOption, Output.TABLE),
}
"""Options that every split's command has round its own: annotation and default."""


@dataclass(frozen=True)
class Split:
    """One command of bare arithmetic: its inputs are its options."""

    name: str
    inputs: type[Any]
    report: Callable[[Geometry, Any], dict[str, Any]]
    chart: Callable[[Geometry, Any], Chart]
    figure: str
    """The figures that a swept plot shows by default."""


SPLITS = (
    Split("pd", PdInputs, reports.report_pd, pictures.pd_chart, "delta_ms"),
    Split("afd", AfdInputs, reports.report_afd, pictures.afd_chart, "delta_ms"),
    Split("td", TdInputs, reports.report_td, pictures.td_chart, "transfer_us"),
    Split("pipeline", PipelineInputs, reports.report_pipeline, pictures.pipeline_chart, "exposed_ms"),
)


def _split_command(split: Split) -> Callable[..., None]:
    """Return the command of a split, with an option for each field of its inputs."""
    hints = get_type_hints(split.inputs)
    own: dict[str, tuple[Any, Any]] = {
        field.name: (
            Annotated[
                hints[field.name],
                typer.Option(help=field.metadata["help"], show_default=field.default is not None),
            ],
            field.default,
        )
        for field in fields(split.inputs)
    }
    options = {"model": AROUND["model"], "config": AROUND["config"], **own, **AROUND}
    options["figure"] = (Figure, split.figure)

    def report_split(**given: Any) -> None:
        geometry = chosen_geometry(given.pop("model"), given.pop("config"))
        how = [given.pop(name) for name in ("sweeps", "figure", "plot", "output")]
        wanted = Wanted(how[0] or [], *how[1:])
        inputs = split.inputs(**given)
        _answer(
            inputs,
            wanted,
            lambda one: split.report(geometry, bounded(one)),
            lambda: split.chart(geometry, inputs),
        )

    report_split.__doc__ = split.inputs.__doc__
    report_split.__annotations__ = {name: kind for name, (kind, _) in options.items()}
    report_split.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in options.items()
        ]
    )
    return report_split


for _split in SPLITS:
    app.command(_split.name)(_split_command(_split))
for _name, _function in (*decisions.COMMANDS.items(), *references.COMMANDS.items()):
    app.command(_name)(_function)


@dataclass(frozen=True)
class Wanted:
    """How an answer is wanted."""

    sweeps: list[str]
    figure: str
    plot: Path | None
    output: Output


Inputs = TypeVar("Inputs")


def _answer(
    inputs: Inputs, wanted: Wanted, report: Callable[[Inputs], dict[str, Any]], chart: Callable[[], Chart]
) -> None:
    """Print one report, or one a combination of the sweeps, and draw where wanted."""
    try:
        if wanted.sweeps:
            _swept(inputs, wanted, report)
            return
        found = report(inputs)
        if wanted.plot is not None:
            write_figure(chart(), wanted.plot)
    except InputError as error:
        refuse_input(error, OPTIONS)
    emit_output(found, wanted.output, lambda: _table(found))


def _swept(inputs: Inputs, wanted: Wanted, report: Callable[[Inputs], dict[str, Any]]) -> None:
    values = parse_sweeps(wanted.sweeps, inputs, ALIASES)
    found = [
        {k: v for k, v in row.items() if k != "timeline"} for row in sweep_inputs(inputs, values, report)
    ]
    if not isinstance(found[0].get(wanted.figure), int | float):
        known = ", ".join(key for key, value in found[0].items() if isinstance(value, int | float))
        raise InputError(
            "--figure", f"{wanted.figure} is not a figure of this report", f"choose one of {known}"
        )
    if wanted.plot is not None:
        write_figure(pictures.swept_chart(found, list(values), wanted.figure), wanted.plot)
    columns = [*values, wanted.figure]

    def table() -> Table:
        lines = ([_shown(row[key]) for key in columns] for row in found)
        return rows(f"{found[0]['model']}", [f"#{column}" for column in columns], lines)

    emit_output({"sweep": found}, wanted.output, table)


def _table(report: dict[str, Any]) -> Table:
    shown = ((key, _shown(value)) for key, value in report.items() if value is not None and key != "timeline")
    return rows(None, ("", "#"), shown)


def _shown(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if not math.isfinite(value):
        return "without end"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.3f}" if abs(value) >= 1 else f"{value:.5g}"
