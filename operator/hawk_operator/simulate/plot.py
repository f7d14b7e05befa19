"""Pictures: the ratio and the replicas over time beside the traffic, and cost against attainment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hawk_operator.simulate.score import Score
    from hawk_operator.simulate.traces import Trace
    from hawk_operator.sizing import Problem

_SLOT_S = 60.0


def over_time(path: Path, trace: Trace, problem: Problem, scores: Sequence[Score]) -> None:
    """Traffic above, prefill share of the workers in the middle, workers of each role below; PNG or SVG."""
    figure, axes = _figure(3)
    traffic, share, workers = axes
    slots = int(trace.seconds / _SLOT_S) + 1
    requests, prompts, outputs = [0.0] * slots, [0.0] * slots, [0.0] * slots
    for request in trace.requests:
        slot = int(request.arrival / _SLOT_S)
        requests[slot] += 1 / _SLOT_S
        prompts[slot] += request.prompt / _SLOT_S / 1000
        outputs[slot] += request.output / _SLOT_S / 1000
    minutes = [slot * _SLOT_S / 60 for slot in range(slots)]
    traffic.step(minutes, requests, where="post", color="black", label="requests/s")
    traffic.step(minutes, prompts, where="post", color="tab:gray", label="thousand prompt tokens/s")
    traffic.step(minutes, outputs, where="post", color="tab:olive", label="thousand output tokens/s")
    traffic.set_title(trace.name)
    prefill = {group.name for group in problem.groups if group.role.prefills}
    for color, found in zip(_colors(), scores, strict=False):
        times = [when / 60 for when, _, _ in found.timeline]
        first = [sum(n for name, n in wanted.items() if name in prefill) for _, wanted, _ in found.timeline]
        second = [
            sum(n for name, n in wanted.items() if name not in prefill) for _, wanted, _ in found.timeline
        ]
        ratio = [a / (a + b) if a + b else math.nan for a, b in zip(first, second, strict=True)]
        share.step(times, ratio, where="post", color=color, label=found.policy)
        workers.step(times, first, where="post", color=color, label=f"{found.policy}: prefill")
        workers.step(times, second, where="post", color=color, linestyle=":", label=f"{found.policy}: decode")
    for name, height in (("1:1", 1 / 2), ("1:2", 1 / 3), ("1:4", 1 / 5)):
        share.axhline(height, color="lightgray", linewidth=0.8, zorder=0)
        share.annotate(name, (0, height), fontsize=7, color="gray")
    for axis, label in zip(axes, ("traffic", "prefill share of workers", "workers"), strict=True):
        axis.set_ylabel(label)
        axis.legend(fontsize=6, loc="upper right", ncols=2)
    workers.set_xlabel("minutes")
    _save(figure, path)


def frontier(path: Path, title: str, found: Mapping[str, Sequence[Score]]) -> None:
    """Cost against attainment: one point a setting, the settings of a policy joined; PNG or SVG."""
    figure, axes = _figure(1)
    for color, (name, scores) in zip(_colors(), found.items(), strict=False):
        ordered = sorted(scores, key=lambda s: s.cost_usd)
        axes[0].plot(
            [s.cost_usd for s in ordered],
            [100 * s.of_attainable for s in ordered],
            marker="o",
            markersize=3,
            linewidth=0.8,
            color=color,
            label=name,
        )
    axes[0].axhline(99, color="lightgray", linewidth=0.8, zorder=0)
    axes[0].set_title(title)
    axes[0].set_xlabel("US dollars")
    axes[0].set_ylabel("per cent of the attainable requests within TTFT and ITL")
    axes[0].legend(fontsize=7)
    _save(figure, path)


def _colors() -> list[str]:
    return [f"C{i}" for i in range(10)] + ["black", "tab:gray"]


def _figure(rows: int):  # type: ignore[no-untyped-def]  # matplotlib gives Any
    import matplotlib as mpl  # noqa: PLC0415 -- heavy, and only pictures need it

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(
        rows, 1, figsize=(9, 3 + 2 * rows), sharex=rows > 1, squeeze=False, layout="constrained"
    )
    return figure, list(axes[:, 0])


def _save(figure, path: Path) -> None:  # type: ignore[no-untyped-def]
    from matplotlib import pyplot as plt  # noqa: PLC0415

    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    with plt.rc_context({"svg.hashsalt": "hawk", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=110, metadata=metadata)
    plt.close(figure)
