"""Charts as pictures: PNG, SVG, or CSV by the file's suffix.

Curves and bars carry their names beside them where there is room, so no legend has to be matched by colour.
"""

from __future__ import annotations

import io
import itertools
import re
from html import escape
from typing import TYPE_CHECKING, Any

from .charts import Bars, Chart, Lines, Spans, as_csv
from .checks import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

__all__ = ["FORMATS", "as_svg", "check_writable", "unwritable", "write_figure"]

FORMATS = (".png", ".svg", ".csv")
FEW_DECADES = 2000.0
"""Ratio of a logarithmic axis below which 2 and 5 are marked between the powers of ten."""
INK, SOFT, PALE, GRID, PAPER = "#1f2933", "#52606d", "#9aa5b1", "#e4e7eb", "#ffffff"
COLOURS = ("#1f6feb", "#d1632a", "#2a9d5c", "#8957c8", "#b8860b", "#5b6770")
FAMILIES = (COLOURS[0], COLOURS[5])
THEMED = {INK: "ink", SOFT: "soft", PALE: "pale", GRID: "line", PAPER: "paper", COLOURS[5]: "whole"}
"""Colours that a page has other values for in the dark, by the name of its variable."""
FONTS = ["DejaVu Sans", "Verdana", "Helvetica", "Arial"]
LABEL: dict[str, Any] = {
    "boxstyle": "square,pad=0.15",
    "facecolor": PAPER,
    "edgecolor": "none",
    "alpha": 0.85,
}


def write_figure(chart: Chart, path: Path, *, others: tuple[str, ...] = ()) -> None:
    """Write `chart` to `path` as its suffix says. Raises InputError for another suffix or a bad path.

    `others` are suffixes that the caller takes besides these.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        known = ", ".join((*FORMATS, *others))
        raise InputError("--plot", f"{path} ends in none of {known}", "choose one of these endings")
    try:
        check_writable(path)
        if suffix == ".csv":
            path.write_text(as_csv(chart), encoding="utf-8")
        else:
            path.write_bytes(_rendered(chart, suffix[1:]))
    except OSError as error:
        raise unwritable(path, error) from error


def check_writable(path: Path) -> None:
    """Raise OSError where no file can be written at `path`; one that wasn't there isn't left there."""
    there = path.exists()
    with path.open("ab"):
        pass
    if not there:
        path.unlink()


def unwritable(path: Path, error: OSError) -> InputError:
    """Return the refusal of a picture's path."""
    reason = error.strerror or str(error)
    return InputError("--plot", f"{path} can't be written ({reason})", "give the path of a file that can be")


def as_svg(chart: Chart, name: str) -> str:
    """Return the chart as an SVG element for a page; `name` keeps its ids apart from those of others.

    Ink, grid and paper are the page's variables, so that the picture follows its light or dark.
    """
    text = _rendered(chart, "svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r'(id="|href="#|url\(#)', rf"\1{name}-", text)
    for colour, variable in THEMED.items():
        text = text.replace(colour, f"var(--{variable})")
    label = escape(f"{chart.title}. {chart.subtitle}", quote=True)
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _rendered(chart: Chart, form: str) -> bytes:
    import matplotlib as mpl  # noqa: PLC0415 -- half a second that only pictures need
    from matplotlib.figure import Figure  # noqa: PLC0415

    style: Any = {
        "font.family": "sans-serif",
        "font.sans-serif": FONTS,
        "font.size": 10,
        "svg.fonttype": "none",
        "svg.hashsalt": "hawk",
        "text.color": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=_size(chart), layout="constrained")
        axes = figure.add_subplot()
        if isinstance(chart, Lines):
            _lines(axes, chart)
        elif isinstance(chart, Bars):
            _bars(axes, chart)
        else:
            _spans(axes, chart)
        _titled(axes, chart)
        buffer = io.BytesIO()
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type") if form == "svg" else ("Software",))
        figure.savefig(buffer, format=form, dpi=150, metadata=metadata)
    return buffer.getvalue()


def _size(chart: Chart) -> tuple[float, float]:
    if isinstance(chart, Bars):
        return 8.6, 1.6 + 0.52 * len(chart.bars)
    if isinstance(chart, Spans):
        return 8.6, 1.9 + 0.55 * len({span.row for span in chart.spans})
    return 8.6, 4.8


def _titled(axes: Axes, chart: Chart) -> None:
    axes.set_title(chart.title, loc="left", fontsize=13, fontweight="bold", pad=26)
    axes.annotate(
        chart.subtitle,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 9),
        textcoords="offset points",
        fontsize=9.5,
        color=SOFT,
    )
    axes.set_xlabel(chart.x)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(PALE)
    axes.tick_params(which="both", length=0)
    axes.set_axisbelow(True)


def _lines(axes: Axes, chart: Lines) -> None:
    axes.grid(color=GRID, linewidth=0.8)
    for index, line in enumerate(chart.lines):
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(line.xs, line.ys, color=colour, linewidth=2, linestyle="--" if line.dashed else "-")
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    axes.margins(x=0.0)
    axes.autoscale_view()
    if chart.from_zero:
        axes.set_ylim(0, 1.15 * max(max(line.ys) for line in chart.lines))
    for index, (line, y) in enumerate(zip(chart.lines, _spread(axes, chart), strict=True)):
        axes.annotate(
            line.label,
            (1.0, y),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=COLOURS[index % len(COLOURS)],
            annotation_clip=False,
        )
    _marks(axes, chart)
    axes.set_ylabel(chart.y)
    _plain_ticks(axes, chart)


def _spread(axes: Axes, chart: Lines) -> list[float]:
    """Return heights (0 to 1) for the labels at the right end, moved apart where lines end close together."""
    ends = []
    for line in chart.lines:
        _, y = axes.transAxes.inverted().transform(axes.transData.transform((line.xs[-1], line.ys[-1])))
        ends.append(float(min(1.0, max(0.0, y))))
    order = sorted(range(len(ends)), key=lambda index: ends[index])
    for before, after in itertools.pairwise(order):
        ends[after] = max(ends[after], ends[before] + 0.055)
    return ends


def _marks(axes: Axes, chart: Lines) -> None:
    for mark in chart.marks:
        if mark.horizontal:
            axes.axhline(mark.y, color=INK, linewidth=1, linestyle=":")
            axes.annotate(
                mark.label,
                (0.01, mark.y),
                xycoords=("axes fraction", "data"),
                xytext=(0, 4),
                textcoords="offset points",
                fontsize=9,
            )
        else:
            axes.plot([mark.x], [mark.y], "o", color=INK, markersize=5)
            axes.annotate(
                mark.label,
                (mark.x, mark.y),
                xytext=mark.offset,
                textcoords="offset points",
                ha="left" if mark.offset[0] > 0 else "right",
                fontsize=9,
                bbox=LABEL,
            )


def _plain_ticks(axes: Axes, chart: Lines) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    def plain(value: float, _position: int) -> str:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"

    limits = axes.get_xlim(), axes.get_ylim()
    for axis, log, (low, high) in zip(
        (axes.xaxis, axes.yaxis), (chart.log_x, chart.log_y), limits, strict=True
    ):
        axis.set_major_formatter(FuncFormatter(plain))
        if log:
            axis.set_minor_formatter(NullFormatter())
            if high / low < FEW_DECADES:
                axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def _bars(axes: Axes, chart: Bars) -> None:
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    names = [bar.label for bar in chart.bars]
    colours = [PALE if bar.muted else FAMILIES[bar.kind] for bar in chart.bars]
    axes.barh(names, [bar.value for bar in chart.bars], color=colours, height=0.6)
    for row, bar in enumerate(chart.bars):
        if bar.high > bar.low:
            axes.plot([bar.low, bar.high], [row, row], color=INK, linewidth=1.4, solid_capstyle="butt")
        axes.annotate(
            f"{bar.value:,.2f}  {bar.note}",
            (max(bar.value, bar.high), row),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.invert_yaxis()
    axes.margins(x=0.35)
    axes.set_xlim(left=0)


def _spans(axes: Axes, chart: Spans) -> None:
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    rows = list(dict.fromkeys(span.row for span in chart.spans))
    narrow = max(span.end for span in chart.spans) / 150
    for span in chart.spans:
        # A white edge would eat a span that is a few pixels wide.
        edge = PAPER if span.end - span.start > narrow else COLOURS[span.kind]
        axes.barh(
            span.row,
            span.end - span.start,
            left=span.start,
            height=0.62,
            color=COLOURS[span.kind],
            edgecolor=edge,
            linewidth=0.8,
        )
        if span.label:
            middle = (span.start + span.end) / 2
            axes.annotate(
                span.label,
                (middle, rows.index(span.row)),
                ha="center",
                va="center",
                fontsize=8,
                color=PAPER,
            )
    for mark in chart.marks:
        axes.axvline(mark.x, color=INK, linewidth=1, linestyle=":")
        axes.annotate(mark.label, (mark.x, -0.62), xytext=(4, 0), textcoords="offset points", fontsize=9)
    axes.set_ylim(len(rows) - 0.45, -0.85)
    axes.set_xlim(left=0)
