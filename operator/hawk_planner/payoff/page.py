"""A plan as one HTML file: the verdict first, then the table, the pictures, and every assumption.

Nothing is loaded from elsewhere, so the file can be mailed and kept.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from .amounts import amount, figure
from .checks import InputError
from .draw import as_svg
from .plan_pictures import CHARTS
from .results import tie_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .plan import CapacityPlan

__all__ = ["html_page"]

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2933; --soft: #52606d; --line: #e4e7eb;
  --pale: #9aa5b1; --accent: #1f6feb; --whole: #5b6770; }
@media (prefers-color-scheme: dark) { :root { --paper: #12181f; --ink: #e6eaee; --soft: #a3afbb;
  --line: #2c3640; --pale: #66727e; --accent: #4d8ef7; --whole: #8794a0; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  padding: 2.5rem 1.5rem; max-width: 66rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; }
p { max-width: 46rem; }
.soft { color: var(--soft); }
.verdict { border-left: 4px solid var(--accent); padding: .4rem 0 .4rem 1rem; margin: 1.4rem 0; }
.verdict b { font-size: 1.15rem; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
tbody th { color: var(--ink); font-weight: 400; min-width: 8rem; }
td.n, th.n { text-align: right; white-space: nowrap; }
tr.misses > *, tr.unknown > * { color: var(--soft); }
figure { margin: 1.6rem 0; overflow-x: auto; }
figure svg { width: 100%; height: auto; min-width: 36rem; max-width: 54rem; }
@media (max-width: 44rem) {
  body { padding: 1.5rem 1rem; }
  thead { position: absolute; left: -999rem; }
  tr { display: block; border-bottom: 1px solid var(--line); padding: .5rem 0; }
  th, td, td.n { display: flex; gap: 1rem; justify-content: space-between; text-align: right;
    white-space: normal; border: 0; padding: .1rem 0; }
  tbody th { font-weight: 600; text-align: left; }
  td:empty { display: none; }
  td::before { content: attr(data-name); color: var(--soft); text-align: left; flex: none; }
}
@media print { tr, figure { break-inside: avoid; } }
"""


def html_page(name: str, answer: CapacityPlan, data: dict[str, Any]) -> str:
    """Return the page of a plan for the pool `name`; `data` is what `results.plan_data` gave."""
    scenario = answer.scenario
    workload = scenario.workload
    traffic = (
        f"{workload.requests_per_second:g} requests/s of {workload.prompt_tokens:,} prompt and "
        f"{workload.output_tokens:,} output tokens"
    )
    parts = [
        f"<h1>Does splitting pay for {escape(name)}?</h1>",
        f'<p class="soft">{escape(scenario.work.name)}, {traffic}.</p>',
        f'<div class="verdict"><b>{escape(_verdict(data))}</b><br>{escape(data["reason"])}</div>',
        "<h2>Ways of serving, ranked</h2>",
        _candidates(data["candidates"]),
        "<h2>What would turn the verdict on the declared split</h2>",
        _turns(data["turning_points"]),
        *_figures(answer),
        "<h2>What this rests on</h2>",
        "<p>Figures are computed from these inputs and from nothing else.</p>",
        _assumptions(data["assumptions"]),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Plan for {escape(name)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body><main>\n{chr(10).join(parts)}\n</main></body></html>\n"
    )


def _verdict(data: dict[str, Any]) -> str:
    best = f" Best: {data['best']}." if data["best"] else ""
    runner_up = f" Runner-up: {data['runner_up']}." if data["runner_up"] else ""
    return f"Splitting: {data['verdict']}.{best}{runner_up}"


Cell = tuple[str, bool]
"""A text, and whether it is a number."""


def _table(head: Sequence[Cell], rows: Iterable[tuple[str, Sequence[Cell]]]) -> str:
    """Return a table; on a narrow screen each row becomes a card whose lines carry the column's name."""

    def cell(column: Cell, text: str) -> str:
        kind = ' class="n"' if column[1] else ""
        return f'<td{kind} data-name="{escape(column[0])}">{escape(text)}</td>'

    def line(style: str, cells: Sequence[Cell]) -> str:
        first = f'<th scope="row">{escape(cells[0][0])}</th>'
        rest = "".join(cell(column, text) for column, (text, _) in zip(head[1:], cells[1:], strict=True))
        return f'<tr class="{style}">{first}{rest}</tr>'

    def title(text: str, number: bool) -> str:
        kind = ' class="n"' if number else ""
        return f'<th scope="col"{kind}>{escape(text)}</th>'

    top = "".join(title(*column) for column in head)
    body = "\n".join(line(style, cells) for style, cells in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _candidates(found: list[dict[str, Any]]) -> str:
    head = [("way", False), ("devices", False), ("TTFT ms", True), ("ITL ms", True), ("USD/M tokens", True)]
    head += [("range", True), ("J/token", True), ("tokens/s", True), ("up to", True)]
    head += [("ties with the best at, USD/h", False), ("bottleneck", False)]
    rows = []
    for one in found:
        low, high = one["usd_per_million_tokens_low"], one["usd_per_million_tokens_high"]
        cells = [
            (one["title"], False),
            (devices(one), False),
            (figure(one["ttft_ms"], 0), True),
            (figure(one["itl_ms"]), True),
            (figure(one["usd_per_million_tokens"], 3), True),
            ("" if low is None else f"{low:,.2f} to {high:,.2f}", True),
            (figure(one["joules_per_token"], 2), True),
            (figure(one["output_tokens_per_second"], 0), True),
            (figure(one["most_output_tokens_per_second"], 0), True),
            (tie_text(one["ties"]), False),
            (one["problem"] or one["bottleneck"] or "", False),
        ]
        rows.append((one["standing"], cells))
    return _table(head, rows)


def devices(one: dict[str, Any]) -> str:
    """Return a candidate's pools in words."""
    return ", ".join(
        f"{pool['replicas']} x {pool['devices_per_replica']} {pool['accelerator_class']} ({pool['role']})"
        for pool in one["pools"]
    )


def _turns(found: list[dict[str, Any]]) -> str:
    head = [("input", False), ("now", True), ("turns below", True), ("turns above", True)]

    def shown(value: float | None, unit: str) -> str:
        return "none found" if value is None else amount(value, unit)

    rows = [
        (
            "",
            [
                (turn["input"], False),
                (amount(turn["present"], turn["unit"]), True),
                (shown(turn["turns_below"], turn["unit"]), True),
                (shown(turn["turns_above"], turn["unit"]), True),
            ],
        )
        for turn in found
    ]
    return _table(head, rows)


def _figures(answer: CapacityPlan) -> list[str]:
    """Return the pictures that can be drawn; one that can't says why instead."""
    made = []
    for name, chart in CHARTS.items():
        try:
            made.append(f"<figure>{as_svg(chart(answer), name)}</figure>")
        except InputError as error:
            made.append(f'<p class="soft">{escape(f"{error.problem}; {error.remedy}")}</p>')
    return made


def _assumptions(found: list[dict[str, Any]]) -> str:
    head = [("input", False), ("value", True), ("range", True), ("source", False), ("changed by", False)]
    rows = [
        (
            "",
            [
                (one["name"], False),
                (one["value"] if isinstance(one["value"], str) else amount(one["value"], one["unit"]), True),
                ("" if one["low"] is None else f"{one['low']:g} to {one['high']:g}", True),
                (one["source"], False),
                (one["option"] or "", False),
            ],
        )
        for one in found
    ]
    return _table(head, rows)
