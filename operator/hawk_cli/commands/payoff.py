"""hawk payoff: the bare arithmetic of splitting inference, each figure from what is on the command line."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, get_type_hints

import typer

from hawk_api.catalogue import shipped, sources
from hawk_api.models import ModelConfigError, load_preset, parse_config
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows
from hawk_planner.payoff import pictures, reports
from hawk_planner.payoff.aiconfigurator import Asked, estimator
from hawk_planner.payoff.aiconfigurator import rows as rows_of
from hawk_planner.payoff.amounts import amount
from hawk_planner.payoff.checks import InputError, whole
from hawk_planner.payoff.draw import write_figure
from hawk_planner.payoff.inputs import AfdInputs, PdInputs, PipelineInputs, TdInputs, bounded
from hawk_planner.payoff.measured import as_csv
from hawk_planner.payoff.published import comparisons
from hawk_planner.payoff.sweep import parse_sweeps, sweep_inputs
from hawk_planner.payoff.systems import PAIRS, Named, unknown_figures

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from hawk_api.models import Geometry
    from hawk_planner.payoff.charts import Chart

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The arithmetic of splitting inference.")

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


Model = Annotated[
    str | None, typer.Option(help="A model known by name (hawk kv --list).", show_default=False)
]
Config = Annotated[Path | None, typer.Option(help="The model's config.json instead.", show_default=False)]
Sweep = Annotated[
    list[str] | None,
    typer.Option("--sweep", help="NAME=V1,V2,... or NAME=FROM:TO:COUNT; repeats.", show_default=False),
]
Plot = Annotated[
    Path | None, typer.Option(help="Write the figure: .png, .svg, or .csv for its data.", show_default=False)
]
Counts = Annotated[str, typer.Option(help="Where to estimate: V1,V2,...")]
Figure = Annotated[str, typer.Option(help="Key of the figure that a swept plot shows.")]
AROUND: dict[str, tuple[Any, Any]] = {
    "model": (Model, None),
    "config": (Config, None),
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


def _command(split: Split) -> Callable[..., None]:
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

    def run(**given: Any) -> None:
        geometry = _geometry(given.pop("model"), given.pop("config"))
        how = [given.pop(name) for name in ("sweeps", "figure", "plot", "output")]
        wanted = Wanted(how[0] or [], *how[1:])
        inputs = split.inputs(**given)
        _answer(
            inputs,
            wanted,
            lambda one: split.report(geometry, bounded(one)),
            lambda: split.chart(geometry, inputs),
        )

    run.__doc__ = split.inputs.__doc__
    run.__annotations__ = {name: kind for name, (kind, _) in options.items()}
    run.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in options.items()
        ]
    )
    return run


for _split in SPLITS:
    app.command(_split.name)(_command(_split))


@app.command()
def times(
    *,
    model: Annotated[str, typer.Option(help="The model, by its name here (hawk kv --list).")],
    model_path: Annotated[str, typer.Option(help="Its name on Hugging Face, or a folder with its config.")],
    accelerator_class: Annotated[str, typer.Option(help="The AcceleratorClass that the times are for.")],
    system: Annotated[str, typer.Option(help="AIConfigurator's name of the device, such as h100_sxm.")],
    backend: Annotated[str, typer.Option(help="Engine: vllm, sglang or trtllm.")] = "vllm",
    devices: Annotated[int, typer.Option(help="Devices of one replica, in tensor parallel.")] = 1,
    prompt_tokens: Counts = "512,1024,2048,4096,8192,16384",
    batch: Counts = "1,8,32,64,128,256",
    context_tokens: Counts = "1024,2048,4096,8192,16384",
) -> None:
    """Estimate engine times by AIConfigurator, where it is installed: a file for hawk plan --measured."""
    try:
        asked = Asked(
            model=load_preset(model).name,
            model_path=model_path,
            device=accelerator_class,
            system=system,
            backend=backend,
            devices=whole("devices", devices),
            prompts=_counts("--prompt-tokens", prompt_tokens),
            batches=_counts("--batch", batch),
            contexts=_counts("--context-tokens", context_tokens),
        )
        made = rows_of(*estimator(), asked)
    except InputError as error:
        _refuse(error)
    except ValueError as error:
        fail(f"--model: {error}")
    typer.echo(as_csv(made), nl=False)


def _counts(option: str, text: str) -> list[int]:
    try:
        return sorted({whole(option, float(part)) for part in text.split(",")})
    except InputError:
        raise
    except ValueError:
        raise InputError(option, f"{text!r} is no list of counts", "write such as 512,1024,2048") from None


@app.command()
def published(output: OutputOption = Output.TABLE) -> None:
    """Published figures beside what their own inputs give."""
    found = comparisons()

    def span(pair: tuple[float, float] | None) -> str:
        if pair is None:
            return ""
        low, high = (f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}" for value in pair)
        return low if low == high else f"{low} to {high}"

    def table() -> Table:
        lines = (
            (row.figure, row.unit, span(row.published), span(row.derived), row.standing, row.how)
            for row in found
        )
        return rows(None, ("figure", "unit", "#published", "#ours", "", "how"), lines)

    listed = [
        {
            "paper": row.paper,
            "figure": row.figure,
            "unit": row.unit,
            "published": row.published,
            "derived": row.derived,
            "standing": row.standing,
            "how": row.how,
        }
        for row in found
    ]
    emit_output({"figures": listed}, output, table)


@app.command()
def systems(output: OutputOption = Output.TABLE) -> None:
    """Pairs of devices that are named for each split, and what isn't known of them."""
    classes = shipped()

    def one(named: Named) -> dict[str, Any]:
        unknown = list(unknown_figures(named, classes))
        return {"name": named.name, "accelerator_class": named.accelerator_class, "unknown": unknown}

    listed: list[dict[str, Any]] = [
        {
            "split": str(pair.split),
            "system": pair.system,
            "first": one(pair.first),
            "second": one(pair.second),
        }
        for pair in PAIRS
    ]

    def shown(device: dict[str, Any]) -> str:
        return ", ".join(device["unknown"]) or "nothing"

    def table() -> Table:
        lines = (
            (
                pair["split"],
                pair["first"]["name"],
                shown(pair["first"]),
                pair["second"]["name"],
                shown(pair["second"]),
                pair["system"],
            )
            for pair in listed
        )
        return rows(None, ("split", "first", "unknown", "second", "unknown", "system"), lines)

    emit_output({"pairs": listed}, output, table)


@app.command()
def devices(output: OutputOption = Output.TABLE) -> None:
    """Shipped AcceleratorClasses: their figures, and where these are from."""
    from_ = sources()
    listed: list[dict[str, Any]] = [
        {
            "accelerator_class": name,
            "description": spec.description,
            "flops": {str(kind): float(rate) for kind, rate in (spec.flops or {}).items()},
            "memory_bytes": _number(spec.memory),
            "bandwidth_bytes_per_second": _number(spec.bandwidth),
            "power_watts": _number(spec.power),
            "price_usd": _number(spec.price),
            "source": from_[name],
        }
        for name, spec in shipped().items()
    ]

    def shown(value: float | None, unit: str) -> str:
        return "" if value is None else amount(value, unit)

    def table() -> Table:
        lines = (
            (
                one["accelerator_class"],
                shown(max(one["flops"].values(), default=None), "FLOP/s"),
                shown(one["memory_bytes"], "bytes"),
                shown(one["bandwidth_bytes_per_second"], "bytes/s"),
                shown(one["power_watts"], "W"),
                shown(one["price_usd"], "USD"),
                one["source"],
            )
            for one in listed
        )
        return rows(
            None, ("class", "#best rate", "#memory", "#bandwidth", "#power", "#price", "source"), lines
        )

    emit_output({"devices": listed}, output, table)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


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
        _refuse(error)
    emit_output(found, wanted.output, lambda: _table(found))


def _swept(inputs: Inputs, wanted: Wanted, report: Callable[[Inputs], dict[str, Any]]) -> None:
    values = parse_sweeps(wanted.sweeps, inputs, ALIASES)
    found = [
        {k: v for k, v in row.items() if k != "timeline"} for row in sweep_inputs(inputs, values, report)
    ]
    if not isinstance(found[0].get(wanted.figure), int | float):
        known = ", ".join(key for key, value in found[0].items() if isinstance(value, int | float))
        raise InputError("--figure", f"{wanted.figure} is no figure of this report", f"choose one of {known}")
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


def _geometry(model: str | None, config: Path | None) -> Geometry:
    if (model is None) == (config is None):
        fail("--model: give exactly one of --model and --config; hawk kv --list prints the known models")
    try:
        return load_preset(model) if model is not None else parse_config(_read(config), str(config))
    except ModelConfigError as error:
        fail(f"--config: {error}")
    except ValueError as error:
        fail(f"--model: {error}")


def _read(path: Path | None) -> str:
    try:
        return Path(path or "").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"--config: can't read {path}: {error}; give a config.json")


def _refuse(error: InputError) -> NoReturn:
    option = error.field
    if option == "AIConfigurator":
        fail(str(error), 1)
    if not option.startswith("-"):
        option = OPTIONS.get(option, "--" + option.replace(" ", "-"))
    fail(f"{option}: {error.problem}; {error.remedy}")
