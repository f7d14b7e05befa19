"""hawk payoff: decisions that depend on the current load, from measured figures.

Times are given in milliseconds, rates in Gb/s (10**9 bits a second), shares from 0 to 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hawk_cli.support.geometry import ConfigOption, ModelOption, chosen_geometry
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows
from hawk_cli.support.refusal import refuse_input
from hawk_planner.payoff import checks
from hawk_planner.payoff.bottleneck import Observed, suggest_splits
from hawk_planner.payoff.checks import InputError
from hawk_planner.payoff.decisions import (
    DecodeLoad,
    Path,
    decide_offload,
    mean_residual_tokens,
    path_problem,
    place_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.table import Table

OPTIONS = {
    "decode step here": "--step-ms-here",
    "decode step there": "--step-ms-there",
    "queue here": "--queue-ms-here",
    "queue there": "--queue-ms-there",
    "exposed transfer": "--transfer-ms",
    "suffix time here": "--suffix-ms-here",
    "suffix time there": "--suffix-ms-there",
    "recompute time": "--recompute-ms",
    "prefix bytes": "--prefix-tokens",
}
"""Options of the fields that aren't called like them."""

Measured = Annotated[
    float | None,
    typer.Option("--path-gbps", help="Measured rate of whole transfers, Gb/s.", show_default=False),
]
Layouts = Annotated[
    bool, typer.Option("--layouts-differ", help="The layouts differ, and no translation is compiled.")
]
Precisions = Annotated[bool, typer.Option("--precisions-differ", help="The element types differ.")]
Shards = Annotated[bool, typer.Option("--shards-differ", help="The heads are sharded differently.")]
Owners = Annotated[bool, typer.Option("--owners-differ", help="The sides name different requests or epochs.")]


def choose_offload(
    *,
    step_ms_here: Annotated[float, typer.Option(help="A decode step here, with this request, ms.")],
    step_ms_there: Annotated[float, typer.Option(help="A decode step there, with this request, ms.")],
    transfer_ms: Annotated[float, typer.Option(help="Exposed time of its KV transfer, ms.")],
    remaining_tokens: Annotated[
        float | None, typer.Option(help="Remaining output, tokens.", show_default=False)
    ] = None,
    output_lengths: Annotated[
        str | None,
        typer.Option(
            help="Past output lengths in tokens, N1,N2,..., to estimate it instead.", show_default=False
        ),
    ] = None,
    produced_tokens: Annotated[int, typer.Option(help="Output so far in tokens, for --output-lengths.")] = 0,
    queue_ms_here: Annotated[float, typer.Option(help="Wait for a slot here, ms.")] = 0.0,
    queue_ms_there: Annotated[float, typer.Option(help="Wait for a slot there, ms.")] = 0.0,
    others_here: Annotated[int, typer.Option(help="Other requests here that it slows down.")] = 0,
    others_there: Annotated[int, typer.Option(help="Other requests there that it slows down.")] = 0,
    slowdown_ms_here: Annotated[float, typer.Option(help="Time it adds to their steps here, ms.")] = 0.0,
    slowdown_ms_there: Annotated[float, typer.Option(help="Time it adds to their steps there, ms.")] = 0.0,
    weight_of_others: Annotated[
        float, typer.Option(help="Weight of their delay, 0 (ignored) to 1 (as its own).")
    ] = 0.0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Decide if a running decode should move to the other device, at the current load of both."""
    try:
        remaining = _remaining(remaining_tokens, output_lengths, produced_tokens)
        found = decide_offload(
            DecodeLoad(step_ms_here / 1e3, queue_ms_here / 1e3, others_here, slowdown_ms_here / 1e3),
            DecodeLoad(step_ms_there / 1e3, queue_ms_there / 1e3, others_there, slowdown_ms_there / 1e3),
            remaining_tokens=remaining,
            exposed_transfer_seconds=transfer_ms / 1e3,
            weight_of_others=weight_of_others,
        )
    except InputError as error:
        refuse_input(error, OPTIONS)
    report = {
        "move": found.move,
        "remaining_tokens": remaining,
        "stay_ms": found.stay_seconds * 1e3,
        "move_ms": found.move_seconds * 1e3,
        "relief_of_others_ms": found.relief_seconds * 1e3,
        "break_even_tokens": found.break_even_tokens,
        "reason": found.reason,
    }
    emit_output(report, output, lambda: _table(report))


def _remaining(remaining: float | None, lengths: str | None, produced: int) -> float:
    if (remaining is None) == (lengths is None):
        fail("--remaining-tokens: give exactly one of --remaining-tokens and --output-lengths")
    if remaining is not None:
        return remaining
    try:
        past = [int(part) for part in (lengths or "").split(",")]
    except ValueError:
        fail(f"--output-lengths: {lengths!r} is not a list of token counts; write it as 120,480,90")
    estimate = mean_residual_tokens(past, produced)
    if estimate is None:
        fail(
            f"--output-lengths: none exceeds the {produced} tokens produced, so there is no estimate; "
            "give --remaining-tokens"
        )
    return estimate


def choose_prefix(
    *,
    prefix_tokens: Annotated[int, typer.Option(help="Length of the prefix cached there, tokens.")],
    recompute_ms: Annotated[float, typer.Option(help="Prefill of the prefix here, ms.")],
    suffix_ms_here: Annotated[float, typer.Option(help="Prefill of the rest of the prompt here, ms.")],
    suffix_ms_there: Annotated[float, typer.Option(help="Prefill of the rest of the prompt there, ms.")],
    queue_ms_here: Annotated[float, typer.Option(help="Wait for a slot here, ms.")] = 0.0,
    queue_ms_there: Annotated[float, typer.Option(help="Wait for a slot there, ms.")] = 0.0,
    path_gbps: Measured = None,
    layouts_differ: Layouts = False,
    precisions_differ: Precisions = False,
    shards_differ: Shards = False,
    owners_differ: Owners = False,
    model: ModelOption = None,
    config: ConfigOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Decide how to use a prefix that is cached elsewhere: there, fetched, or recomputed here."""
    geometry = chosen_geometry(model, config)
    try:
        tokens = checks.whole("--prefix-tokens", prefix_tokens)
        nbytes = geometry.kv_bytes(tokens)
        found = place_prefix(
            prefix_bytes=nbytes,
            path=_path(path_gbps, layouts_differ, precisions_differ, shards_differ, owners_differ),
            suffix_seconds_here=suffix_ms_here / 1e3,
            suffix_seconds_there=suffix_ms_there / 1e3,
            queue_seconds_here=queue_ms_here / 1e3,
            queue_seconds_there=queue_ms_there / 1e3,
            recompute_seconds=recompute_ms / 1e3,
        )
    except InputError as error:
        refuse_input(error, OPTIONS)
    report = {
        "model": geometry.name,
        "prefix_bytes": nbytes,
        "choice": str(found.choice),
        "ttft_ms": {str(way): seconds * 1e3 for way, seconds in found.seconds.items()},
        "unusable": {str(way): why for way, why in found.unusable.items()},
    }
    emit_output(report, output, lambda: _table(report))


def check_path(
    *,
    path_gbps: Measured = None,
    layouts_differ: Layouts = False,
    precisions_differ: Precisions = False,
    shards_differ: Shards = False,
    owners_differ: Owners = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check if there is a usable path between two devices. Exit status 1 if not."""
    problem = path_problem(_path(path_gbps, layouts_differ, precisions_differ, shards_differ, owners_differ))
    report = {"usable": problem is None, "problem": problem}
    emit_output(report, output, lambda: _table(report))
    if problem is not None:
        raise typer.Exit(1)


def _path(gbps: float | None, layouts: bool, precisions: bool, shards: bool, owners: bool) -> Path:
    return Path(
        layouts_agree=not layouts,
        precision_agrees=not precisions,
        sharding_agrees=not shards,
        owner_agrees=not owners,
        bytes_per_second=None if gbps is None else gbps * 1e9 / 8,
    )


def suggest_by_bottleneck(
    *,
    prefill_share_of_decode_gaps: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Prefill's share of the time between tokens.", show_default=False),
    ] = None,
    decode_fits_other_device: Annotated[
        bool | None,
        typer.Option(help="Weights and KV fit a second device as fast or cheaper.", show_default=False),
    ] = None,
    waiting_for_kv: Annotated[
        float | None, typer.Option(min=0, help="Requests waiting for KV space.", show_default=False)
    ] = None,
    tokens_per_expert: Annotated[
        float | None, typer.Option(min=0, help="Tokens per step that an expert gets.", show_default=False)
    ] = None,
    tokens_per_expert_limit: Annotated[
        float | None, typer.Option(min=0, help="Tokens per step that fill an expert.", show_default=False)
    ] = None,
    draft_acceptance: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Accepted share of a drafter's tokens.", show_default=False),
    ] = None,
    decode_utilisation: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Utilization of the decode devices.", show_default=False),
    ] = None,
    other_device_utilisation: Annotated[
        float | None, typer.Option(min=0, max=1, help="Utilization of the second device.", show_default=False)
    ] = None,
    idle_share: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Idle share of two pools' capacity.", show_default=False),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Suggest splits for an observed bottleneck, and what a benchmark of each must show."""
    found = suggest_splits(
        Observed(
            prefill_share_of_decode_gaps=prefill_share_of_decode_gaps,
            decode_fits_other_device=decode_fits_other_device,
            waiting_for_kv=waiting_for_kv,
            tokens_per_expert=tokens_per_expert,
            tokens_per_expert_limit=tokens_per_expert_limit,
            draft_acceptance=draft_acceptance,
            decode_utilisation=decode_utilisation,
            other_device_utilisation=other_device_utilisation,
            idle_share=idle_share,
        )
    )
    listed = [{"split": str(one.kind), "observed": one.observed, "must_show": one.must_show} for one in found]
    title = None if listed else "nothing observed suggests a split"
    columns = ("split", "observed", "a benchmark has to show")
    emit_output(
        {"suggestions": listed},
        output,
        lambda: rows(title, columns, (one.values() for one in listed)),
    )


def _table(report: dict[str, Any]) -> Table:
    return rows(None, ("", ""), ((key, _text(value)) for key, value in report.items()))


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items()) or "none"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return {None: "none", True: "yes", False: "no"}.get(value, str(value))  # type: ignore[call-overload,no-any-return]


COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "offload": choose_offload,
    "prefix": choose_prefix,
    "path": check_path,
    "bottleneck": suggest_by_bottleneck,
}
