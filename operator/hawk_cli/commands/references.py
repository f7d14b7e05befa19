"""hawk payoff: published figures, named systems, shipped classes, and times of AIConfigurator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hawk_api.catalogue import shipped, sources
from hawk_api.models import load_preset
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows
from hawk_cli.support.refusal import refuse_input
from hawk_planner.payoff.aiconfigurator import Asked, estimator
from hawk_planner.payoff.aiconfigurator import rows as rows_of
from hawk_planner.payoff.amounts import amount
from hawk_planner.payoff.checks import InputError, whole
from hawk_planner.payoff.measured import as_csv
from hawk_planner.payoff.published import comparisons
from hawk_planner.payoff.systems import PAIRS, Named, unknown_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.table import Table

Counts = Annotated[str, typer.Option(help="Points to estimate: V1,V2,...")]


def estimate_times(
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
    """Estimate engine times with AIConfigurator, if it is installed: a file for hawk plan --measured."""
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
        refuse_input(error)
    except ValueError as error:
        fail(f"--model: {error}")
    typer.echo(as_csv(made), nl=False)


def _counts(option: str, text: str) -> list[int]:
    try:
        return sorted({whole(option, float(part)) for part in text.split(",")})
    except InputError:
        raise
    except ValueError:
        raise InputError(option, f"{text!r} is not a list of counts", "write it as 512,1024,2048") from None


def list_published(output: OutputOption = Output.TABLE) -> None:
    """List published figures and what their own inputs give."""
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


def list_systems(output: OutputOption = Output.TABLE) -> None:
    """List the pairs of devices named for each split, and their unknown figures."""
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


def list_devices(output: OutputOption = Output.TABLE) -> None:
    """List the shipped AcceleratorClasses with their figures and sources."""
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


COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "times": estimate_times,
    "published": list_published,
    "systems": list_systems,
    "devices": list_devices,
}
