"""The charts of a plan: cost by way of serving, chunks on rails, rooflines, cost over the link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import checks
from .candidate import Feasibility, ServingMode
from .charts import Bar, Bars, BusySpan, Chart, Line, Lines, Mark, Spans
from .colocated import cheapest_first, colocated
from .handover import hand_over
from .plan import SPLITS
from .roofline import Machine, Work, attainable_flops
from .split import split
from .times import prefill_seconds
from .ways import whole_parts

if TYPE_CHECKING:
    from .plan import CapacityPlan
    from .scenario import Scenario

__all__ = ["CHARTS", "cost_chart", "link_chart", "plan_chart", "roofline_chart", "timeline_chart"]

MOST_LABELS = 12
LINKS = tuple(round(12.5 * 2 ** (step / 4), 1) for step in range(29))
NAMES = {
    ServingMode.COLOCATED: "colocated",
    ServingMode.SPLIT: "prefill | decode",
    ServingMode.FLEXIBLE: "flexible roles",
    ServingMode.OFFLOAD: "decode offload",
    ServingMode.ATTENTION_FFN: "attention | FFN",
    ServingMode.TARGET_DRAFT: "target | draft",
}


def cost_chart(answer: CapacityPlan) -> Chart:
    """Return what each way of serving costs, with its range; pale ones miss an objective."""
    bars = []
    for one, band in zip(answer.ranking, answer.bands, strict=True):
        if one.usd_per_million_tokens is None:
            continue
        devices = " + ".join(f"{pool.devices} {pool.device}" for pool in one.pools)
        bars.append(
            Bar(
                label=NAMES[one.kind],
                value=one.usd_per_million_tokens,
                low=band.low if band else one.usd_per_million_tokens,
                high=band.high if band else one.usd_per_million_tokens,
                note=devices + (" (misses)" if one.standing is Feasibility.MISSES else ""),
                kind=0 if one.kind in SPLITS else 1,
                muted=one.standing is Feasibility.MISSES,
            )
        )
    workload = answer.scenario.workload
    if not bars:
        raise checks.MissingInputError(
            "price", "no way of serving has a known cost", "pass --set CLASS.pricePerHour=USD"
        )
    return Bars(
        title="What a million output tokens cost",
        subtitle=(
            f"{answer.scenario.work.name}, {workload.requests_per_second:g} requests/s of "
            f"{workload.prompt_tokens:,} + {workload.output_tokens:,} tokens; blue: split; line: range"
        ),
        x="USD a million output tokens",
        bars=tuple(bars),
    )


def timeline_chart(answer: CapacityPlan) -> Chart:
    """Return the chunks of one prompt on the rails against the computing of the declared prefill group."""
    scenario = answer.scenario
    alone = prefill_seconds(scenario, scenario.prefill.replica)
    handover = hand_over(scenario, alone)
    chunks = handover.timeline.chunks
    labelled = len(chunks) <= MOST_LABELS
    spans = [
        BusySpan(row, str(index) if labelled else "", start * 1e3, end * 1e3, kind)
        for row, kind in (("prefill", 0), ("transfer", 1))
        for index, chunk in enumerate(chunks, start=1)
        for start, end in (
            (
                (chunk.compute_start, chunk.compute_end)
                if kind == 0
                else (chunk.transfer_start, chunk.transfer_end)
            ),
        )
    ]
    device = scenario.prefill.replica
    return Spans(
        title=f"{handover.exposed_seconds * 1e3:.2f} ms of the transfer are exposed",
        subtitle=(
            f"{scenario.workload.prompt_tokens:,} tokens on {device.devices} x {device.device.name}, "
            f"{_layers(handover.chunk_layers)} a chunk, {scenario.link.rails} x "
            f"{scenario.link.bytes_per_second * 8 / 1e9:g} Gb/s"
        ),
        x="ms from the start of prefill",
        spans=tuple(spans),
        marks=(Mark("prefill ends", alone * 1e3, 0.0),),
    )


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"


def roofline_chart(answer: CapacityPlan) -> Chart:
    """Return both devices' rooflines with where prefill and decode lie on them."""
    scenario, work = answer.scenario, answer.scenario.work
    context = scenario.workload.mean_context
    step = work.decode(context)
    lines, marks = [], []
    devices = {part.replica.device.name: part.replica.device for part in (scenario.prefill, scenario.decode)}
    peaks = [Machine(d.known("flops"), d.known("bandwidth")).ridge for d in devices.values()]
    intensities = tuple(sorted({*(0.25 * 2.0**power for power in range(17)), *peaks}))
    for device in devices.values():
        machine = Machine(device.known("flops"), device.known("bandwidth"))
        heights = tuple(attainable_flops(x, machine) / 1e12 for x in intensities)
        lines.append(Line(device.name, intensities, heights))
    decode = Work(step.flops, step.weight_bytes + step.state_bytes).intensity
    batch = _batch(answer)
    batched = Work(batch * step.flops, step.weight_bytes + batch * step.state_bytes).intensity
    second = scenario.decode.replica.device
    slower = Machine(second.known("flops"), second.known("bandwidth"))
    for name, at in (("decode, one sequence", decode), (f"decode, batch {batch:.0f}", batched)):
        marks.append(Mark(name, at, attainable_flops(at, slower) / 1e12, offset=(10, -12)))
    first = scenario.prefill.replica.device
    whole = work.prompt(scenario.workload.prompt_tokens)
    prompt = Work(whole.flops, whole.nbytes).intensity
    faster = Machine(first.known("flops"), first.known("bandwidth"))
    at = min(prompt, intensities[-1])
    marks.append(Mark("prefill", at, attainable_flops(at, faster) / 1e12, offset=(10, -18)))
    return Lines(
        title="What each device can do at best",
        subtitle=f"{work.name}, context of {context:,.0f} tokens; peaks, before any efficiency",
        x="FLOPs a byte",
        y="TFLOP/s of one device",
        lines=tuple(lines),
        marks=tuple(marks),
        log_x=True,
        log_y=True,
    )


def _batch(answer: CapacityPlan) -> float:
    for one in answer.ranking:
        if one.kind is ServingMode.SPLIT and "batch" in one.parts:
            return max(1.0, one.parts["batch"])
    return 1.0


def link_chart(answer: CapacityPlan) -> Chart:
    """Return the cost of the declared split over the link, beside the best that doesn't split."""
    scenario = answer.scenario
    xs, ys = [], []
    for gbps in LINKS:
        found = split(scenario.at(bytes_per_second=gbps * 1e9 / 8))
        if found.usd_per_million_tokens is not None and found.standing is Feasibility.MEETS:
            xs.append(float(gbps))
            ys.append(found.usd_per_million_tokens)
    whole = min(
        (colocated(scenario, part) for part in whole_parts(scenario)), key=cheapest_first, default=None
    )
    level = whole.usd_per_million_tokens if whole and whole.standing is Feasibility.MEETS else None
    if not xs:
        raise checks.InputError(
            "--chart",
            "the declared split meets the objectives at no link",
            "see the table for what it misses",
        )
    marks = (Mark(f"{whole.title}", 0.0, level, horizontal=True),) if whole and level is not None else ()
    return Lines(
        title="From which link on does the split pay?",
        subtitle=_traffic(scenario),
        x="Gb/s of one rail",
        y="USD a million output tokens",
        lines=(Line("prefill | decode", tuple(xs), tuple(ys)),),
        marks=marks,
        log_x=True,
        from_zero=True,
    )


def _traffic(scenario: Scenario) -> str:
    workload = scenario.workload
    return (
        f"{workload.requests_per_second:g} requests/s of {workload.prompt_tokens:,} + "
        f"{workload.output_tokens:,} tokens, {scenario.link.rails} rail(s)"
    )


CHARTS = {"cost": cost_chart, "timeline": timeline_chart, "roofline": roofline_chart, "link": link_chart}


def plan_chart(name: str, answer: CapacityPlan) -> Chart:
    """Return a chart by its name; raises InputError for another name."""
    if name not in CHARTS:
        raise checks.InputError("--chart", f"{name} is none of {', '.join(CHARTS)}", "choose one of them")
    return CHARTS[name](answer)
