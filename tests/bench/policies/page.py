"""Write the tables in docs/scaling.md and the pictures beside it from the committed results.

`python -m tests.bench.policies.page` rewrites them, `--check` fails when they are not current.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import QueueOrder
from hawk_planner.simulate.hindsight import GOOD
from hawk_planner.simulate.plot import costs, over_time
from hawk_planner.simulate.run import HINDSIGHT
from tests.bench.policies.results import OURS, Result, Row, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DOCS = Path(__file__).parents[3] / "docs"
PAGE, RESULTS = "scaling.md", "policies"
BEGIN, END = "<!-- policies: begin -->", "<!-- policies: end -->"
NEAR = 0.0005
"""How near an attainment counts as equal."""
_ORDER = ("rag", "agent", "mooncake-conversation", "shift", "diurnal", "burst", "azure-2023-code")
"""From steady to bursty."""
_COLUMNS = "policy", "of attainable", "TTFT", "ITL", "USD", "over clairvoyant", "at equal", "turns", "kWh"


def tables(found: Sequence[Result]) -> str:
    """All tables, in Markdown."""
    ordered = sorted(found, key=lambda r: _ORDER.index(r.traffic) if r.traffic in _ORDER else len(_ORDER))
    slack = [r for r in ordered if r.order is QueueOrder.SLACK]
    arrival = [r for r in ordered if r.order is QueueOrder.ARRIVAL]
    parts = [_goals(slack)]
    parts += [_traffic(result) for result in slack]
    if arrival:
        parts.append(_matrix(arrival))
    return "\n\n".join(parts)


def cheapest(found: Result) -> Row | None:
    """The cheapest baseline that meets the objectives and doesn't know the trace."""
    baselines = [r for r in found.rows if r.policy not in {*OURS, *HINDSIGHT} and r.of_attainable >= GOOD]
    return min(baselines, key=lambda r: r.usd, default=None)


def _goals(found: Iterable[Result]) -> str:
    lines = ["### Ours, the clairvoyant and the cheapest baseline, order by slack", ""]
    lines += _head(
        "traffic",
        "attainable",
        "ours of it",
        "USD",
        "over clairvoyant",
        "at equal",
        "turns an hour",
        "kWh",
        "cheapest baseline that meets 99%",
        "its USD",
        "its kWh",
        "ours over its cost",
    )
    for result in found:
        ours, baseline = result.row("hawk"), cheapest(result)
        assert ours is not None
        lines.append(
            _line(
                f"[{result.traffic}](#{result.stem})",
                f"{result.attainable:.2%}",
                _share(ours),
                f"{ours.usd:.2f}",
                *_over(result, ours),
                f"{ours.turns / result.scored_s * 3600:.1f}",
                _kwh(ours),
                baseline.policy if baseline else "none",
                f"{baseline.usd:.2f}" if baseline else "",
                _kwh(baseline) if baseline else "",
                f"{ours.usd / baseline.usd - 1:+.0%}" if baseline else "",
            )
        )
    return "\n".join(lines)


def _traffic(result: Result) -> str:
    title = f"{result.requests:,} requests in {result.seconds / 60:.0f} min, order by slack"
    lines = [
        f'### <a name="{result.stem}"></a>{result.traffic}: {title}',
        "",
        *_head(*_COLUMNS),
        *(_line(row.policy, *_scores(result, row)) for row in result.rows),
    ]
    if result.courses:
        lines += ["", f"![Ratio and workers over time beside the traffic]({RESULTS}/{result.stem}-ratio.svg)"]
    if result.curves:
        lines += ["", f"![Cost against attainment of every policy]({RESULTS}/{result.stem}-cost.svg)"]
    return "\n".join(lines)


def _scores(result: Result, row: Row) -> tuple[object, ...]:
    shares = _share(row), f"{row.ttft:.2%}", f"{row.itl:.2%}"
    return *shares, f"{row.usd:.2f}", *_over(result, row), row.turns, _kwh(row)


def _matrix(found: Sequence[Result]) -> str:
    """Share in time and US dollars of each policy on each traffic."""
    lines = [
        "### In order of arrival: of attainable, and USD",
        "",
        *_head("policy", *(r.traffic for r in found)),
    ]
    for name in dict.fromkeys(row.policy for result in found for row in result.rows):
        rows = (result.row(name) for result in found)
        lines.append(_line(name, *("" if r is None else f"{_share(r)} at {r.usd:.2f}" for r in rows)))
    return "\n".join(lines)


def _over(result: Result, row: Row) -> tuple[str, str]:
    """Cost over that of the clairvoyant's cheapest run with 99%, and with this attainment."""
    curve = result.curves.get("oracle", ())
    good = [usd for usd, share in curve if share >= GOOD]
    equal = [usd for usd, share in curve if share >= row.of_attainable - NEAR]
    first, second = (f"{row.usd / min(usd):.2f}" if usd else "" for usd in (good, equal))
    return first, second


def _share(row: Row) -> str:
    return f"**{row.of_attainable:.2%}**" if row.of_attainable >= GOOD else f"{row.of_attainable:.2%}"


def _kwh(row: Row) -> str:
    return "" if row.kwh is None else f"{row.kwh:.1f}"


def _head(*names: str) -> list[str]:
    return [_line(*names), "|---" * len(names) + "|"]


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _pictures(result: Result) -> Iterator[tuple[str, bytes]]:
    """(file, bytes) of each picture of a result."""
    if result.courses:
        yield f"{result.stem}-ratio.svg", over_time(result.traffic, result.load, result.courses)
    if result.curves:
        yield f"{result.stem}-cost.svg", costs(f"{result.traffic}: what attainment costs", result.curves)


def files(docs: Path = DOCS) -> dict[Path, bytes]:
    """Return the contents due to the page and the pictures, by path; the page changes in its tables only."""
    found = load(docs / RESULTS)
    before, begin, rest = (docs / PAGE).read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    made = {docs / PAGE: f"{before}{begin}\n\n{tables(found)}\n\n{end}{after}".encode()}
    for result in found:
        made |= {docs / RESULTS / name: picture for name, picture in _pictures(result)}
    return made


def stale(docs: Path = DOCS) -> list[Path]:
    """Files that aren't what they should be."""
    return [path for path, new in files(docs).items() if not path.exists() or path.read_bytes() != new]


def write(docs: Path = DOCS) -> None:
    """Bring page and pictures up to date."""
    for path, content in files(docs).items():
        path.write_bytes(content)


def main() -> None:
    """Write page and pictures, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where one is not current")
    if not parser.parse_args().check:
        write()
    elif old := stale():
        sys.exit(f"{old[0]} is not current; run: python -m tests.bench.policies.page")


if __name__ == "__main__":
    main()
