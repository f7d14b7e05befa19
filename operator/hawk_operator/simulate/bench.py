"""The table of policies in docs/scaling.md: `python -m hawk_operator.simulate.bench [TRACE FILE …]`.

Every policy on every traffic, peers tuned on the first ten minutes, all scored on the rest. Prints Markdown;
`--pictures FOLDER` writes the ratio over time for each traffic, and cost against attainment, as SVG.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hawk_api.v1alpha1.enums import QueueOrder, Role
from hawk_operator.simulate.engine import Settings
from hawk_operator.simulate.generate import scenario
from hawk_operator.simulate.hindsight import GOOD, oracle_curve
from hawk_operator.simulate.policies import Hawk, decode_side, fixed
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
    "dynamo",
    "fixed:1:1",
    "fixed:1:2",
    "fixed:1:4",
    "static-best",
)
GENERATED = ("rag", "shift", "swing", "diurnal", "burst", "agent")


class Serving(StrEnum):
    """What the router does, for every policy alike."""

    ARRIVAL = "arrival"
    """Prompts in order of arrival, roles apart."""
    SLACK = "slack"
    """Prompts in order of slack, roles apart."""
    LENT = "lent"
    """Prompts in order of slack, decode workers lend themselves (role Both)."""


def served(problem: Problem, serving: Serving) -> Problem:
    """The pool under a serving."""
    order = QueueOrder.ARRIVAL if serving is Serving.ARRIVAL else QueueOrder.SLACK
    lent = serving is Serving.LENT
    groups = tuple(
        replace(g, role=Role.BOTH) if lent and g.role is Role.DECODE else g for g in problem.groups
    )
    return replace(problem, queue_order=order, groups=groups)


def frontier(chosen: Arena, scores: Sequence[Score]) -> dict[str, list[Score]]:
    """Cost against attainment: static splits and our decision at several objectives; the others as points."""
    ready = chosen.begun
    prefill, decode = ready.problem.side(Role.PREFILL)[0].name, decode_side(ready.problem)[0].name
    most = ready.settings.initial
    found: dict[str, list[Score]] = {s.policy: [s] for s in scores if s.policy not in {"hawk", "static-best"}}
    found["static"] = [
        ready.judge(fixed({prefill: n, decode: most[decode]}, "static")) for n in range(1, most[prefill] + 3)
    ]
    ours = []
    for share in (0.5, 0.8, 0.9, 0.95, 0.98, 0.99):
        ttft = ready.problem.ttft
        assert ttft is not None
        ours.append(ready.judge(Hawk(replace(ready.problem, ttft=replace(ttft, share=share)))))
    found["hawk"] = ours
    return found


def table(trace: Trace, serving: Serving, scores: Sequence[Score], curve: Sequence[Score]) -> str:
    """One traffic's table, in Markdown. `curve` is the clairvoyant's cost against attainment."""
    best = min((s for s in curve if s.of_attainable >= GOOD), key=lambda s: s.cost_usd, default=None)
    lines = [
        f"### {trace.name}, {serving}: {len(trace.requests)} requests in {trace.seconds / 60:.0f} min",
        "",
        "| policy | of attainable | attainable | TTFT | ITL | USD | over oracle | at equal | turns | kWh |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for s in [*scores, *([replace(best, policy="oracle")] if best else [])]:
        mark = "**" if s.of_attainable >= GOOD else ""
        equal = [o.cost_usd for o in curve if o.of_attainable >= s.of_attainable - NEAR]
        lines.append(
            f"| {s.policy} | {mark}{s.of_attainable:.2%}{mark} | {s.attainable:.1%} "
            f"| {s.ttft_attainment:.2%} | {s.itl_attainment:.2%} | {s.cost_usd:.2f} "
            f"| {'' if best is None else f'{s.cost_usd / best.cost_usd:.2f}'} "
            f"| {f'{s.cost_usd / min(equal):.2f}' if equal else ''} | {s.direction_changes} "
            f"| {'' if s.energy_kwh is None else f'{s.energy_kwh:.1f}'} |"
        )
    return "\n".join(lines)


NEAR = 0.0005
"""How near an attainment counts as equal."""


def main(
    traces: Annotated[list[Path] | None, typer.Argument(help="Files beside generated traffic.")] = None,
    *,
    pictures: Annotated[Path | None, typer.Option(help="A folder for pictures.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the generated traffic.")] = 1,
    only: Annotated[list[str] | None, typer.Option(help="Generated traffic to take; repeats.")] = None,
    serving: Annotated[list[Serving] | None, typer.Option(help="What the router does; repeats.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="Policies to take; repeats.")] = None,
) -> None:
    """Compare every policy on every traffic."""
    names = GENERATED if only is None else tuple(name for name in only if name)
    for trace in [*(load(path) for path in traces or ()), *(scenario(name, seed) for name in names)]:
        for kind in serving or [Serving.SLACK]:
            began = time.monotonic()
            problem = served(sample(), kind)
            chosen = Arena.of(trace, problem, Settings(order=problem.queue_order))
            scores = compare(chosen, policy or POLICIES)
            curve = [s for _, s in oracle_curve(trace, problem, chosen.settings, chosen.judge)]
            typer.echo(table(trace, kind, scores, curve) + "\n")
            if pictures is not None:
                _draw(pictures, chosen, scores, curve)
            sys.stderr.write(f"{trace.name}, {kind}: {time.monotonic() - began:.0f} s\n")


def _draw(folder: Path, chosen: Arena, scores: Sequence[Score], curve: Sequence[Score]) -> None:
    from hawk_operator.simulate import plot  # noqa: PLC0415 -- heavy

    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{chosen.trace.name.partition('.')[0].replace(':', '-')}-{chosen.settings.order.lower()}"
    best = min((s for s in curve if s.of_attainable >= GOOD), key=lambda s: s.cost_usd, default=None)
    shown = [s for s in scores if s.policy in {"hawk", "hpa", "dynamo"}] + ([best] if best else [])
    plot.over_time(folder / f"{stem}-ratio.svg", chosen.trace, chosen.problem, shown)
    points = {**frontier(chosen, scores), "oracle": list(curve)}
    plot.frontier(folder / f"{stem}-frontier.svg", chosen.trace.name, points)


if __name__ == "__main__":
    typer.run(main)
