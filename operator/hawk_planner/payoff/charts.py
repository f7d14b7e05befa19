"""The content of a picture, as data: lines, bars and spans, with no drawing in it.

The same value is drawn, written as CSV, or tested.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field

__all__ = ["Bar", "Bars", "BusySpan", "Chart", "Line", "Lines", "Mark", "Spans", "as_csv"]


@dataclass(frozen=True)
class Line:
    """One curve."""

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    dashed: bool = False


@dataclass(frozen=True)
class Mark:
    """A point worth naming, or with `horizontal` a level."""

    label: str
    x: float
    y: float
    horizontal: bool = False
    offset: tuple[int, int] = (8, 8)
    """Of the name from the point, in points."""


@dataclass(frozen=True)
class Lines:
    """Curves over one axis."""

    title: str
    subtitle: str
    x: str
    y: str
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = False
    """True if the vertical axis begins at 0."""


@dataclass(frozen=True)
class Bar:
    """One bar with the range of its value."""

    label: str
    value: float
    low: float
    high: float
    note: str = ""
    kind: int = 0
    """Its colour: 0 and 1 tell two families apart."""
    muted: bool = False
    """Drawn pale: it misses an objective."""


@dataclass(frozen=True)
class Bars:
    """Values side by side, the first on top."""

    title: str
    subtitle: str
    x: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class BusySpan:
    """From when to when something is busy."""

    row: str
    label: str
    start: float
    end: float
    kind: int = 0
    """Its colour: 0 computing, 1 moving."""


@dataclass(frozen=True)
class Spans:
    """Spans on rows over time."""

    title: str
    subtitle: str
    x: str
    spans: tuple[BusySpan, ...]
    marks: tuple[Mark, ...] = field(default=())


Chart = Lines | Bars | Spans


def as_csv(chart: Chart) -> str:
    """Return the chart's data, one point a line, with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if isinstance(chart, Lines):
        writer.writerow(("series", chart.x, chart.y))
        writer.writerows(
            (line.label, x, y) for line in chart.lines for x, y in zip(line.xs, line.ys, strict=True)
        )
    elif isinstance(chart, Bars):
        writer.writerow(("way", chart.x, "low", "high", "note"))
        writer.writerows((bar.label, bar.value, bar.low, bar.high, bar.note) for bar in chart.bars)
    else:
        writer.writerow(("row", "what", "start", "end"))
        writer.writerows((span.row, span.label, span.start, span.end) for span in chart.spans)
    return text.getvalue()
