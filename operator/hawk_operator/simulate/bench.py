"""The table of policies in docs/scaling.md: `python -m hawk_operator.simulate.bench [TRACE FILE …]`.

Every policy on every traffic, peers tuned on the first ten minutes, all scored on the rest. Prints Markdown;
`--pictures FOLDER` writes the ratio over time for each traffic, and cost against attainment.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hawk_api.v1alpha1.enums import Role
from hawk_operator.simulate.engine import Settings
from hawk_operator.simulate.generate import scenario
from hawk_operator.simulate.hindsight import GOOD
from hawk_operator.simulate.policies import Hawk, fixed
from hawk_operator.simulate.run import Arena, compare
from hawk_operator.simulate.sample import sample
from hawk_operator.simulate.score import Score
from hawk_operator.simulate.traces import Trace, load
from hawk_operator.sizing import Problem

POLICIES = (
    "hawk",
    "hpa",
    "hpa-queue",
    "keda",
    "llm-d",
    "aibrix",
    "fixed:1:1",
    "fixed:1:2",
    "fixed:1:4",
    "static-best",
    "oracle",
)
GENERATED = ("rag", "shift", "swing", "diurnal", "burst")
SHARE = 0.995
"""What each of TTFT and ITL must reach so that both together reach GOOD."""


def arena(trace: Trace, problem: Problem) -> Arena:
    """The pool of the comparison: its objectives as shares that together make GOOD."""
    ttft, itl = problem.ttft, problem.itl
    assert ttft is not None
    assert itl is not None
    return Arena.of(
        trace, replace(problem, ttft=replace(ttft, share=SHARE), itl=replace(itl, share=SHARE)), Settings()
    )


def frontier(chosen: Arena, scores: Sequence[Score]) -> dict[str, list[Score]]:
    """Cost against attainment: static splits and our decision at several objectives; the others as points."""
    ready = chosen.begun
    prefill, decode = (ready.problem.side(role)[0].name for role in (Role.PREFILL, Role.DECODE))
    most = ready.settings.initial
    found: dict[str, list[Score]] = {s.policy: [s] for s in scores if s.policy not in {"hawk", "static-best"}}
    found["static"] = [
        ready.judge(fixed({prefill: n, decode: most[decode]}, "static")) for n in range(1, most[prefill] + 3)
    ]
    ours = []
    for share in (0.5, 0.8, 0.9, 0.95, 0.99, SHARE, 0.999):
        ttft = ready.problem.ttft
        assert ttft is not None
        ours.append(ready.judge(Hawk(replace(ready.problem, ttft=replace(ttft, share=share)))))
    found["hawk"] = ours
    return found


def table(trace: Trace, scores: Sequence[Score]) -> str:
    """One traffic's table, in Markdown."""
    best = next(s.cost_usd for s in scores if s.policy == "oracle")
    lines = [
        f"### {trace.name}: {len(trace.requests)} requests in {trace.seconds / 60:.0f} min",
        "",
        "| policy | of attainable | TTFT | ITL | USD | over oracle | turns | kWh |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for s in scores:
        mark = "**" if s.of_attainable >= GOOD else ""
        lines.append(
            f"| {s.policy} | {mark}{s.of_attainable:.2%}{mark} | {s.ttft_attainment:.2%} "
            f"| {s.itl_attainment:.2%} | {s.cost_usd:.2f} | {s.cost_usd / best:.2f} | {s.direction_changes} "
            f"| {'' if s.energy_kwh is None else f'{s.energy_kwh:.1f}'} |"
        )
    return "\n".join(lines)


def main(
    traces: Annotated[list[Path] | None, typer.Argument(help="Files beside generated traffic.")] = None,
    *,
    pictures: Annotated[Path | None, typer.Option(help="A folder for pictures.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the generated traffic.")] = 1,
    only: Annotated[list[str] | None, typer.Option(help="Generated traffic to take; repeats.")] = None,
) -> None:
    """Compare every policy on every traffic."""
    problem = sample()
    names = GENERATED if only is None else tuple(name for name in only if name)
    for trace in [*(load(path) for path in traces or ()), *(scenario(name, seed) for name in names)]:
        began = time.monotonic()
        chosen = arena(trace, problem)
        scores = compare(chosen, POLICIES)
        typer.echo(table(trace, scores) + "\n")
        if pictures is not None:
            from hawk_operator.simulate import plot  # noqa: PLC0415 -- heavy

            pictures.mkdir(parents=True, exist_ok=True)
            stem = trace.name.partition(".")[0].replace(":", "-")
            shown = [s for s in scores if s.policy in {"hawk", "hpa", "oracle"}]
            plot.over_time(pictures / f"{stem}-ratio.png", trace, problem, shown)
            plot.frontier(pictures / f"{stem}-frontier.png", trace.name, frontier(chosen, scores))
        sys.stderr.write(f"{trace.name}: {time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    typer.run(main)
