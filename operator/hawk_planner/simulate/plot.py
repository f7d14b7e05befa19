"""Pictures: the ratio and the replicas over time beside the traffic, and cost against attainment."""

from __future__ import annotations

import io
import math
import re
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from hawk_planner.simulate.course import BinnedLoad, Course

_INK, _PALE, _LINE = "#1f2933", "#9aa5b1", "#e4e7eb"
_COLOURS = ("#1f6feb", "#d1632a", "#2a9d5c", "#8957c8", "#b8860b", "#c2378b", "#17858f", "#5b6770")
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial"],
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "hawk",
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_RATIOS = ("2:1", "1:1", "1:2", "1:4", "1:8")
_SHARES = (80, 90, 95, 98, 99, 99.5, 99.9)
"""Per cent of attainment that a picture of costs marks; what is late is drawn to a logarithmic scale."""
_LEAST_LATE = 5e-4


def over_time(title: str, load: BinnedLoad, courses: Sequence[Course], form: str = "svg") -> bytes:
    """Traffic above, the ratio of prefill to decode in the middle, workers of each role below.

    `form` is svg or png; the same input gives the same bytes.
    """
    with rc_context(_STYLE):
        figure = Figure(figsize=(8.6, 7.2), layout="constrained")
        axes = figure.subplots(3, 1, sharex=True)
        traffic, ratio, workers = axes
        _traffic(traffic, load)
        for number, course in enumerate(courses):
            look: Any = {  # the first on top
                "where": "post",
                "color": _COLOURS[number % len(_COLOURS)],
                "linewidth": 1.2 if number else 2.2,
                "zorder": 3 - number / len(courses),
            }
            minutes = [when / 60 for when, _, _ in course.steps]
            prefill = [count for _, count, _ in course.steps]
            decode = [count for _, _, count in course.steps]
            ratio.step(minutes, list(map(_share, prefill, decode)), label=course.policy, **look)
            workers.step(minutes, prefill, label=f"{course.policy}, prefill", **look)
            workers.step(minutes, decode, label=f"{course.policy}, decode", linestyle=":", **look)
        marks = [tuple(map(int, name.split(":"))) for name in _RATIOS]
        ratio.set_yticks([_share(p, d) for p, d in marks], _RATIOS)
        ratio.set_ylim(0, 1)
        traffic.set_title(title, loc="left", fontsize=11, fontweight="bold")
        for one, label in zip(axes, ("traffic, 1 is the mean", "prefill : decode", "workers"), strict=True):
            one.set_ylabel(label)
            _plain(one)
        workers.set_xlabel("minutes")
        workers.set_ylim(bottom=0)
        return _bytes(figure, form)


def _traffic(axes: Axes, load: BinnedLoad) -> None:
    """Requests and tokens, each over its own mean, which the legend has."""
    minutes = [i * load.bin_seconds / 60 for i in range(len(load.requests) + 1)]
    for colour, name, rates in (
        (_INK, "requests/s", load.requests),
        (_COLOURS[0], "prompt tokens/s", load.prompt_tokens),
        (_COLOURS[1], "output tokens/s", load.output_tokens),
    ):
        mean = sum(rates) / len(rates)
        heights = [rate / mean if mean else 0.0 for rate in rates]
        axes.stairs(
            heights,
            minutes,
            color=colour,
            label=f"{mean:,.3g} {name}" if mean < 100 else f"{mean:,.0f} {name}",
        )
    axes.set_ylim(bottom=0)


def _share(prefill: int, decode: int) -> float:
    return prefill / (prefill + decode) if prefill + decode else math.nan


def costs(title: str, curves: Mapping[str, Sequence[tuple[float, float]]], form: str = "svg") -> bytes:
    """Cost against attainment: (US dollars, share) of a policy's settings, but for those that pay more for
    no more. Ours is blue and the clairvoyant black; what is dearer than all of ours, and than twice the
    clairvoyant's, isn't drawn.
    """
    ours = {name: points for name, points in curves.items() if name.startswith("hawk")}
    known = curves.get("oracle", ())
    others = {name: points for name, points in curves.items() if name not in {*ours, "oracle"}}
    most = max([1.1 * usd for points in ours.values() for usd, _ in points] + [2 * usd for usd, _ in known])
    with rc_context(_STYLE):
        figure = Figure(figsize=(8.6, 5.4), layout="constrained")
        axes = figure.subplots()
        for number, (name, points) in enumerate(ours.items()):
            _curve(
                axes, name, points, color=_COLOURS[0], linewidth=2.2 - number, marker="os"[number], zorder=3
            )
        for number, (name, points) in enumerate(others.items()):
            colours = _COLOURS[1:]
            colour, marker = colours[number % len(colours)], "o^"[number // len(colours)]
            _curve(axes, name, points, color=colour, linewidth=0.9, marker=marker)
        _curve(axes, "oracle", known, color=_INK, linewidth=0.9, marker="D", linestyle="--")
        axes.set_xlim(right=most)
        axes.axhline(_height(0.99), color=_INK, linewidth=0.8, linestyle=":", zorder=0)
        axes.set_yticks([_height(share / 100) for share in _SHARES], [f"{share:g}" for share in _SHARES])
        axes.set_ylim(_height(_SHARES[0] / 100), _height(1.0) + 0.1)
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
        axes.set_xlabel("US dollars")
        axes.set_ylabel("per cent of the attainable requests in time")
        _plain(axes)
        return _bytes(figure, form)


def _curve(axes: Axes, name: str, points: Sequence[tuple[float, float]], **look: Any) -> None:
    best = _undominated(points)
    heights = [_height(share) for _, share in best]
    axes.plot([usd for usd, _ in best], heights, label=name, markersize=4, **look)


def _height(share: float) -> float:
    return -math.log10(max(1.0 - share, _LEAST_LATE))


def _undominated(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points, by cost, that no cheaper one equals."""
    best: list[tuple[float, float]] = []
    for usd, share in sorted(points, key=lambda point: (point[0], -point[1])):
        if not best or share > best[-1][1]:
            best.append((usd, share))
    return best


def _plain(axes: Axes) -> None:
    axes.grid(color=_LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_PALE)
    axes.legend(fontsize=7.5, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _bytes(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type") if form == "svg" else ("Software",))
    figure.savefig(buffer, format=form, dpi=120, metadata=metadata)
    if form != "svg":
        return buffer.getvalue()
    short = re.sub(r"(\d\.\d{2})\d+", r"\1", buffer.getvalue().decode())
    return "\n".join(line.rstrip() for line in short.splitlines()).encode() + b"\n"
