"""The charts of the bare arithmetic: break-evens of each split, and chunks on rails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import drafting
from .charts import BusySpan, Chart, Line, Lines, Mark, Spans
from .reports import report_afd, report_pd, report_pipeline

if TYPE_CHECKING:
    from hawk_api.models import Geometry

    from .inputs import AfdInputs, PdInputs, PipelineInputs, TdInputs

__all__ = ["afd_chart", "pd_chart", "pipeline_chart", "swept_chart", "td_chart"]

MOST_LABELS = 12


def _ratios(low: float, high: float, count: int = 49) -> tuple[float, ...]:
    return tuple(low * (high / low) ** (step / (count - 1)) for step in range(count))


def pd_chart(geometry: Geometry, inputs: PdInputs) -> Chart:
    """Return the saving a step needs over the output length, for three prompts, nothing hidden."""
    outputs = sorted({round(value) for value in _ratios(16, 4096)})
    prompts = sorted({4096, inputs.prompt_tokens, 24_576})

    def needed(prompt: int, output: int) -> float:
        report = report_pd(geometry, replace(inputs, prompt_tokens=prompt, output_tokens=output))
        return float(report["break_even_saving_ms_per_token"] or 0.0)

    here = report_pd(geometry, inputs)
    mark = float(here["break_even_saving_ms_per_token"] or 0.0)
    return Lines(
        title="How much faster must each decode step be?",
        subtitle=f"{geometry.name}, {inputs.link_gbps:g} Gb/s, nothing of the transfer hidden",
        x="output tokens",
        y="break-even saving, ms a token",
        lines=tuple(
            Line(
                f"{prompt:,}-token prompt",
                tuple(map(float, outputs)),
                tuple(needed(prompt, o) for o in outputs),
            )
            for prompt in prompts
        ),
        marks=(
            Mark(
                f"{mark:.3f} ms at {inputs.output_tokens:,} tokens",
                inputs.output_tokens,
                mark,
                offset=(-8, -16),
            ),
        ),
        log_x=True,
        log_y=True,
    )


def afd_chart(geometry: Geometry, inputs: AfdInputs) -> Chart:
    """Return the exchange of one step over the batch, for three links, beside the FFN's saving."""
    batches = sorted({round(value) for value in _ratios(1, 512)})
    links = sorted({100.0, inputs.link_gbps, 400.0})

    def exchange(link: float, batch: int) -> float:
        return float(report_afd(geometry, replace(inputs, link_gbps=link, batch=batch))["exposed_ms"])

    level = Mark(f"FFN saving {inputs.ffn_saving_ms:g} ms a step", 0.0, inputs.ffn_saving_ms, horizontal=True)
    return Lines(
        title="What does the exchange of every step cost?",
        subtitle=f"{geometry.name}: above the dotted line the split is later, {inputs.hidden:.0%} hidden",
        x="batch",
        y="exposed exchange, ms a step",
        lines=tuple(
            Line(f"{link:g} Gb/s", tuple(map(float, batches)), tuple(exchange(link, b) for b in batches))
            for link in links
        ),
        marks=(level,) if inputs.ffn_saving_ms > 0 else (),
        log_x=True,
        log_y=True,
    )


def td_chart(geometry: Geometry, inputs: TdInputs) -> Chart:
    """Return the tokens a round emits over the draft length, for several acceptances."""
    lengths = range(1, 17)
    rates = sorted({0.5, 0.7, 0.9, *({inputs.acceptance} if inputs.acceptance is not None else ())})
    return Lines(
        title="How many tokens does a round emit?",
        subtitle=f"target {geometry.name}: accepted drafts and one token of the target's own",
        x="draft tokens",
        y="tokens a round",
        lines=tuple(
            Line(
                f"{rate:.0%} accepted",
                tuple(map(float, lengths)),
                tuple(1 + drafting.accepted_tokens(rate, length) for length in lengths),
            )
            for rate in rates
        ),
    )


def pipeline_chart(geometry: Geometry, inputs: PipelineInputs) -> Chart:
    """Return the timeline of chunks: computing above, moving below."""
    report = report_pipeline(geometry, inputs)
    chunks = report["timeline"]
    labelled = len(chunks) <= MOST_LABELS
    spans = []
    for index, chunk in enumerate(chunks, start=1):
        name = str(index) if labelled else ""
        spans.append(BusySpan("compute", name, chunk["compute_start_ms"], chunk["compute_end_ms"], 0))
    for index, chunk in enumerate(chunks, start=1):
        name = str(index) if labelled else ""
        spans.append(BusySpan("transfer", name, chunk["transfer_start_ms"], chunk["transfer_end_ms"], 1))
    rails = f"{inputs.rails} rail{'s' if inputs.rails > 1 else ''}"
    return Spans(
        title=f"{report['exposed_ms']:.2f} ms of the transfer are exposed",
        subtitle=(
            f"{geometry.name}, {inputs.tokens:,} tokens, {inputs.chunk_layers} layers a chunk, "
            f"{rails} of {inputs.link_gbps:g} Gb/s: {report['resident_share']:.0%} resident when prefill ends"
        ),
        x="ms from the start of prefill",
        spans=tuple(spans),
        marks=(Mark("prefill ends", report["compute_ms"], 0.0),),
    )


def swept_chart(rows: list[dict[str, Any]], names: list[str], figure: str) -> Chart:
    """Return `figure` over the first swept input, a line for each value of the others."""
    first, rest = names[0], names[1:]
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        label = ", ".join(f"{name} {row[name]:g}" for name in rest) or figure
        if row[figure] is not None:
            lines.setdefault(label, []).append((row[first], row[figure]))
    return Lines(
        title=f"{figure.replace('_', ' ')} over {first.replace('_', ' ')}",
        subtitle=str(rows[0]["model"]),
        x=first.replace("_", " "),
        y=figure.replace("_", " "),
        lines=tuple(
            Line(label, tuple(x for x, _ in points), tuple(y for _, y in points))
            for label, points in lines.items()
        ),
    )
