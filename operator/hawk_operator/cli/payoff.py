"""hawk payoff: the bare arithmetic of splitting inference, each figure from what is on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from hawk_api.catalogue import shipped
from hawk_api.models import ConfigError, parse_config, preset
from hawk_api.v1alpha1 import DataType
from hawk_operator.cli.output import Output, OutputOption, emit, fail, rows
from hawk_operator.payoff import pictures, reports
from hawk_operator.payoff.checks import InputError
from hawk_operator.payoff.draw import write
from hawk_operator.payoff.published import comparisons
from hawk_operator.payoff.sweep import parse_sweeps, sweep
from hawk_operator.payoff.systems import PAIRS, Named, unknown_figures

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from hawk_api.models import Geometry
    from hawk_operator.payoff.charts import Chart

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


class First(StrEnum):
    """Who emits the first output token."""

    DECODE = "decode"
    PREFILL = "prefill"


Model = Annotated[
    str | None, typer.Option(help="A model known by name (hawk kv --list).", show_default=False)
]
Config = Annotated[Path | None, typer.Option(help="The model's config.json instead.", show_default=False)]
Link = Annotated[float, typer.Option(help="Link rate in Gb/s (of one rail).")]
Hidden = Annotated[float, typer.Option(help="Share of the transfer that is hidden, 0 to 1.")]
KvDtype = Annotated[DataType, typer.Option(help="Element type of the KV cache.")]
Sweep = Annotated[
    list[str] | None,
    typer.Option("--sweep", help="NAME=V1,V2,... or NAME=FROM:TO:COUNT; repeats.", show_default=False),
]
Plot = Annotated[
    Path | None, typer.Option(help="Write the figure: .png, .svg, or .csv for its data.", show_default=False)
]
Figure = Annotated[str, typer.Option(help="Key of the figure that a swept plot shows.")]


@app.command()
def pd(
    *,
    model: Model = None,
    config: Config = None,
    prompt_tokens: Annotated[int, typer.Option(help="Tokens that are prefilled.")] = 16_384,
    output_tokens: Annotated[int, typer.Option(help="Tokens that are decoded.")] = 128,
    link_gbps: Link = 200.0,
    decode_saving_ms_per_token: Annotated[
        float, typer.Option(help="How much sooner a decode step ends on the receiver, ms; negative: later.")
    ] = 0.0,
    hidden: Hidden = 0.0,
    first_token: Annotated[First, typer.Option(help="Who emits the first token.")] = First.DECODE,
    requests_per_second: Annotated[
        float | None, typer.Option(help="Requests a second, for the link's load.", show_default=False)
    ] = None,
    kv_dtype: KvDtype = DataType.FLOAT16,
    sweeps: Sweep = None,
    figure: Figure = "delta_ms",
    plot: Plot = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Prefill here, decode there: transfer, exposed time and break-evens of one request."""
    geometry = _geometry(model, config)
    inputs = reports.PdInputs(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        link_gbps=link_gbps,
        decode_saving_ms_per_token=decode_saving_ms_per_token,
        hidden=hidden,
        first_token=first_token.value,
        requests_per_second=requests_per_second,
        kv_dtype=kv_dtype,
    )
    asked = Asked(sweeps or [], figure, plot, output)
    _answer(
        inputs,
        asked,
        lambda one: reports.report_pd(geometry, one),
        lambda: pictures.pd_chart(geometry, inputs),
    )


@app.command()
def afd(
    *,
    model: Model = None,
    config: Config = None,
    batch: Annotated[int, typer.Option(help="Sequences in a decode step.")] = 128,
    link_gbps: Link = 200.0,
    ffn_saving_ms: Annotated[float, typer.Option(help="How much sooner the FFN of one step ends, ms.")] = 0.0,
    hidden: Hidden = 0.0,
    context_tokens: Annotated[int, typer.Option(help="Tokens that a request retains.")] = 16_384,
    ffn_ranks: Annotated[
        int | None, typer.Option(help="FFN devices that experts are spread over.", show_default=False)
    ] = None,
    waiting_requests: Annotated[
        float | None, typer.Option(help="Requests that wait for KV space.", show_default=False)
    ] = None,
    tokens_per_expert_limit: Annotated[
        float | None, typer.Option(help="Tokens a step that fill an expert.", show_default=False)
    ] = None,
    kv_dtype: KvDtype = DataType.FLOAT16,
    sweeps: Sweep = None,
    figure: Figure = "delta_ms",
    plot: Plot = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Attention here, FFN there: the exchange of one step, and what the freed memory is worth."""
    geometry = _geometry(model, config)
    inputs = reports.AfdInputs(
        batch=batch,
        link_gbps=link_gbps,
        ffn_saving_ms=ffn_saving_ms,
        hidden=hidden,
        context_tokens=context_tokens,
        ffn_ranks=ffn_ranks,
        waiting_requests=waiting_requests,
        tokens_per_expert_limit=tokens_per_expert_limit,
        kv_dtype=kv_dtype,
    )
    asked = Asked(sweeps or [], figure, plot, output)
    _answer(
        inputs,
        asked,
        lambda one: reports.report_afd(geometry, one),
        lambda: pictures.afd_chart(geometry, inputs),
    )


@app.command()
def td(
    *,
    model: Model = None,
    config: Config = None,
    draft_tokens: Annotated[int, typer.Option(help="Candidates a round.")] = 8,
    feature_vectors: Annotated[int, typer.Option(help="Hidden vectors sent to the drafter a round.")] = 0,
    link_gbps: Link = 200.0,
    acceptance: Annotated[
        float | None, typer.Option(help="Chance that a draft is accepted, 0 to 1.", show_default=False)
    ] = None,
    draft_ms_per_token: Annotated[
        float | None, typer.Option(help="Drafting, ms.", show_default=False)
    ] = None,
    verify_ms: Annotated[float | None, typer.Option(help="One verification, ms.", show_default=False)] = None,
    target_ms_per_token: Annotated[
        float | None, typer.Option(help="A plain step of the target, ms.", show_default=False)
    ] = None,
    verify_ms_per_draft: Annotated[float, typer.Option(help="Added to a verification a draft, ms.")] = 0.0,
    synchronisation_ms: Annotated[float, typer.Option(help="Start-up and waiting of a round, ms.")] = 0.0,
    draft_overlap: Annotated[float, typer.Option(help="Share of drafting under verification, 0 to 1.")] = 0.0,
    longest: Annotated[int, typer.Option(help="Longest draft that may be chosen.")] = 8,
    sweeps: Sweep = None,
    figure: Figure = "transfer_us",
    plot: Plot = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Draft here, verify there: messages of a round, and the round where its times are given."""
    geometry = _geometry(model, config)
    inputs = reports.TdInputs(
        draft_tokens=draft_tokens,
        feature_vectors=feature_vectors,
        link_gbps=link_gbps,
        acceptance=acceptance,
        draft_ms_per_token=draft_ms_per_token,
        verify_ms=verify_ms,
        target_ms_per_token=target_ms_per_token,
        verify_ms_per_draft=verify_ms_per_draft,
        synchronisation_ms=synchronisation_ms,
        draft_overlap=draft_overlap,
        longest=longest,
    )
    asked = Asked(sweeps or [], figure, plot, output)
    _answer(
        inputs,
        asked,
        lambda one: reports.report_td(geometry, one),
        lambda: pictures.td_chart(geometry, inputs),
    )


@app.command()
def pipeline(
    *,
    model: Model = None,
    config: Config = None,
    tokens: Annotated[int, typer.Option(help="Tokens that are prefilled.")] = 32_768,
    chunk_layers: Annotated[int, typer.Option(help="Layers sent together.")] = 16,
    compute_ms_per_chunk: Annotated[float, typer.Option(help="Computing of one chunk, ms.")] = 18.2,
    rails: Annotated[int, typer.Option(help="Network ports used by one request.")] = 1,
    link_gbps: Link = 400.0,
    overhead_us_per_chunk: Annotated[float, typer.Option(help="Posting and detecting one chunk, us.")] = 0.0,
    kv_dtype: KvDtype = DataType.FLOAT16,
    sweeps: Sweep = None,
    figure: Figure = "exposed_ms",
    plot: Plot = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Chunks of layers on rails: how much of the transfer is left when prefill ends."""
    geometry = _geometry(model, config)
    inputs = reports.PipelineInputs(
        tokens=tokens,
        chunk_layers=chunk_layers,
        compute_ms_per_chunk=compute_ms_per_chunk,
        rails=rails,
        link_gbps=link_gbps,
        overhead_us_per_chunk=overhead_us_per_chunk,
        kv_dtype=kv_dtype,
    )
    asked = Asked(sweeps or [], figure, plot, output)
    _answer(
        inputs,
        asked,
        lambda one: reports.report_pipeline(geometry, one),
        lambda: pictures.pipeline_chart(geometry, inputs),
    )


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
    emit({"figures": listed}, output, table)


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

    emit({"pairs": listed}, output, table)


@dataclass(frozen=True)
class Asked:
    """How an answer is wanted."""

    sweeps: list[str]
    figure: str
    plot: Path | None
    output: Output


Inputs = TypeVar("Inputs")


def _answer(
    inputs: Inputs, asked: Asked, report: Callable[[Inputs], dict[str, Any]], chart: Callable[[], Chart]
) -> None:
    """Print one report, or one a combination of the sweeps, and draw where asked."""
    try:
        if asked.sweeps:
            _swept(inputs, asked, report)
            return
        found = report(inputs)
        if asked.plot is not None:
            write(chart(), asked.plot)
    except InputError as error:
        _refuse(error)
    emit(found, asked.output, lambda: _table(found))


def _swept(inputs: Inputs, asked: Asked, report: Callable[[Inputs], dict[str, Any]]) -> None:
    values = parse_sweeps(asked.sweeps, inputs, ALIASES)
    found = [{k: v for k, v in row.items() if k != "timeline"} for row in sweep(inputs, values, report)]
    if not isinstance(found[0].get(asked.figure), int | float):
        known = ", ".join(key for key, value in found[0].items() if isinstance(value, int | float))
        raise InputError("--figure", f"{asked.figure} is no figure of this report", f"choose one of {known}")
    if asked.plot is not None:
        write(pictures.swept_chart(found, list(values), asked.figure), asked.plot)
    columns = [*values, asked.figure]

    def table() -> Table:
        lines = ([_shown(row[key]) for key in columns] for row in found)
        return rows(f"{found[0]['model']}", [f"#{column}" for column in columns], lines)

    emit({"sweep": found}, asked.output, table)


def _table(report: dict[str, Any]) -> Table:
    shown = ((key, _shown(value)) for key, value in report.items() if value is not None and key != "timeline")
    return rows(None, ("", "#"), shown)


def _shown(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.3f}" if abs(value) >= 1 else f"{value:.5g}"


def _geometry(model: str | None, config: Path | None) -> Geometry:
    if (model is None) == (config is None):
        fail("--model: give exactly one of --model and --config; hawk kv --list prints the known models")
    try:
        return preset(model) if model is not None else parse_config(_read(config), str(config))
    except ConfigError as error:
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
    if not option.startswith("-"):
        option = OPTIONS.get(option, "--" + option.replace(" ", "-"))
    fail(f"{option}: {error.problem}; {error.remedy}")
