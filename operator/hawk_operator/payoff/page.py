"""A plan as one HTML file: the verdict first, then the table, the pictures, and every assumption.

Nothing is loaded from elsewhere, so the file can be mailed and kept.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from .checks import InputError
from .draw import as_svg
from .plan_pictures import CHARTS
from .results import figure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .plan import Answer

__all__ = ["page"]

STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #52606d; --line: #e4e7eb; --accent: #1f6feb; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); margin: 0 auto; padding: 2.5rem 1.5rem;
  max-width: 62rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; }
p { max-width: 46rem; }
.soft, small { color: var(--soft); }
.verdict { border-left: 4px solid var(--accent); padding: .4rem 0 .4rem 1rem; margin: 1.4rem 0; }
.verdict b { font-size: 1.15rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
td.n, th.n { text-align: right; white-space: nowrap; }
tr.misses td { color: var(--soft); }
figure { margin: 1.2rem 0; }
figure svg { width: 100%; height: auto; max-width: 54rem; }
"""


def page(name: str, answer: Answer, data: dict[str, Any]) -> str:
    """Return the page of a plan for the pool `name`; `data` is what `results.plan_data` gave."""
    scenario = answer.scenario
    workload = scenario.workload
    traffic = (
        f"{workload.requests_per_second:g} requests/s of {workload.prompt_tokens:,} prompt and "
        f"{workload.output_tokens:,} output tokens"
    )
    parts = [
        f"<h1>Does splitting pay for {escape(name)}?</h1>",
        f'<p class="soft">{escape(scenario.work.geometry.name)}, {traffic}.</p>',
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
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n'
        f"<body>\n{chr(10).join(parts)}\n</body></html>\n"
    )


def _verdict(data: dict[str, Any]) -> str:
    best = f" Best: {data['best']}." if data["best"] else ""
    runner_up = f" Runner-up: {data['runner_up']}." if data["runner_up"] else ""
    return f"Splitting: {data['verdict']}.{best}{runner_up}"


def _table(head: Iterable[tuple[str, bool]], rows: Iterable[tuple[str, Iterable[tuple[str, bool]]]]) -> str:
    def cell(tag: str, text: str, number: bool) -> str:
        kind = ' class="n"' if number else ""
        return f"<{tag}{kind}>{escape(text)}</{tag}>"

    top = "".join(cell("th", text, number) for text, number in head)
    body = "\n".join(
        f'<tr class="{style}">{"".join(cell("td", text, number) for text, number in cells)}</tr>'
        for style, cells in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _candidates(found: list[dict[str, Any]]) -> str:
    head = [("way", False), ("devices", False), ("TTFT ms", True), ("ITL ms", True), ("USD/M tokens", True)]
    head += [("range", True), ("J/token", True), ("tokens/s", True), ("up to", True), ("bottleneck", False)]
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
    head = [("input", False), ("now", True), ("turns below", True), ("turns above", True), ("", False)]
    rows = [
        (
            "",
            [
                (turn["input"], False),
                (f"{turn['present']:,.4g}", True),
                ("never" if turn["turns_below"] is None else f"{turn['turns_below']:,.4g}", True),
                ("never" if turn["turns_above"] is None else f"{turn['turns_above']:,.4g}", True),
                (turn["unit"], False),
            ],
        )
        for turn in found
    ]
    return _table(head, rows)


def _figures(answer: Answer) -> list[str]:
    """Return the pictures that can be drawn; one that can't says why instead."""
    made = []
    for name, chart in CHARTS.items():
        try:
            made.append(f"<figure>{as_svg(chart(answer), name)}</figure>")
        except InputError as error:
            made.append(f'<p class="soft">{escape(f"{error.problem}; {error.remedy}")}</p>')
    return made


def _assumptions(found: list[dict[str, Any]]) -> str:
    head = [("input", False), ("value", True), ("range", True), ("unit", False), ("source", False)]
    rows = [
        (
            "",
            [
                (one["name"], False),
                (one["value"] if isinstance(one["value"], str) else f"{one['value']:,.6g}", True),
                ("" if one["low"] is None else f"{one['low']:g} to {one['high']:g}", True),
                (one["unit"], False),
                (one["source"] + (f" ({one['option']})" if one["option"] else ""), False),
            ],
        )
        for one in found
    ]
    return _table(head, rows)
