"""Learning from what was measured: how much longer prompts wait, and steps take, than the formulas say.

**Waits.** Batches that come at once, or prompts of unlike length in one queue, show in no counter that is
scraped every few seconds, but they do in what they lead to: requests that are late, where the router counts
them (`spec.traffic.queries.late`), else the time to first token. The factor moves slowly and in its
logarithm, so that one odd window changes little, and only as far as windows tell it from noise. Windows
overlap: each look counts by the part of its window that is new.

**Steps.** The roofline's efficiencies are assumptions; the time between tokens shows the engine's own, at the
batch that it has.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hawk_planner.sizing.mix import Prompts, attained
from hawk_planner.sizing.needs import STEP, WAIT
from hawk_planner.traffic import signal_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hawk_planner.sizing.demand import PrefillNeed
    from hawk_planner.sizing.mix import Stage
    from hawk_planner.sizing.needs import Needs
    from hawk_planner.sizing.problem import Problem
    from hawk_planner.traffic import Window


_PACE = 0.2
"""How far one whole window moves the factor's logarithm."""
_FORGETTING = 0.03
"""The same where waits are too short to tell, towards no correction; over the dispersion, since bursts
come back.
"""
_SLOWEST = 0.002
_LEAST, _MOST = 1.0 / 16.0, 16.0
_LEAST_BY_WAITS = 0.5
"""A mean wait says little of the tail: without a count of late requests, waits are believed no shorter."""
_STEP_S = 1200.0
"""Seconds in which the factor of steps goes most of its way: an engine's efficiency is no daily news."""
_STEP_LEAST, _STEP_MOST = 0.5, 4.0
"""A step can't take less than reading the weights at peak bandwidth; an engine that takes four times the
roofline has another trouble than this.
"""
_FEWEST_TOKENS = 100.0
"""Tokens in a window below which their mean gap isn't believed."""
_NOTICED = 0.05
"""Waits below this share of the target and of the service time are noise, or the roofline's own error."""
_FULLEST = 0.95
"""Above this use the formula's wait is too sensitive to learn from."""
_BUSY = 3.0
"""A look weighs by its requests, at most so many times the usual look."""


def learn_corrections(
    corrections: Mapping[str, float], need: PrefillNeed | None, window: Window, ready: int, interval: float
) -> dict[str, float]:
    """The corrections after one more look at `ready` prefill workers, `interval` seconds later, by waits."""
    ttft, rate = window.prefill.ttft, window.arrivals.get()
    if (
        need is None
        or need.target is None
        or not ttft.known
        or not ready
        or rate <= 0
        or signal_names.TTFT in window.own
    ):
        return dict(corrections)
    alone = window.prefill.prefill_time
    service = alone.get().mean if alone.known else need.mean_service
    measured = max(0.0, ttft.get().mean - service)
    queue = replace(need.queue(rate, ready), wait_factor=1.0)
    expected = queue.mean_wait if queue.utilisation < _FULLEST else math.inf
    floor = _NOTICED * (need.target + need.mean_service)
    if not math.isfinite(expected):
        return dict(corrections)
    noticed = max(measured, expected) >= floor
    seen = (measured + floor) / (expected + floor) if noticed else 1.0
    pace = _PACE * _new(window, interval) if noticed else max(_SLOWEST, _FORGETTING / need.load_dispersion)
    before = math.log(corrections.get(WAIT, 1.0))
    return {
        **corrections,
        WAIT: _bounded(before + pace * (math.log(min(max(seen, _LEAST_BY_WAITS), _MOST)) - before)),
    }


def learn_from_late(  # noqa: PLR0917 -- as `learn`, with what the prompts meet
    corrections: Mapping[str, float],
    prompts: Prompts,
    stages: Sequence[Stage],
    window: Window,
    ready: Mapping[str, int],
    interval: float,
) -> dict[str, float]:
    """The corrections after one more look, by the share of requests that were late and the expected one.

    The step is the difference of the two over what may be late, so that steps cancel out where the expected
    share is right on average, however seldom late requests are.
    """
    recent = max(1, round(window.seconds / window.burst_bin))
    counts = [one.requests for one in window.bins]
    newest = [count for count in counts[-recent:] if count > 0]
    rate = window.arrivals.get()
    if not newest or rate <= 0 or not any(ready.get(stage.name) for stage in stages):
        return dict(corrections)
    rates = np.array(newest) / window.burst_bin
    met = replace(prompts, rates=rates, shares=rates / rates.sum())
    expected = 1.0 - attained(met, stages, {stage.name: ready.get(stage.name, 0) for stage in stages})
    measured = min(1.0, window.prefill.late.get() / rate)
    allowed = 1.0 - prompts.share
    usual = sum(counts) / len(counts)
    weight = min(_BUSY, sum(newest) / len(newest) / usual)
    pace = _PACE * weight * _new(window, interval)
    step = pace * min(1.0, (measured - expected) / (expected + allowed))
    return {**corrections, WAIT: _bounded(math.log(corrections.get(WAIT, 1.0)) + step)}


def learn_steps(
    corrections: Mapping[str, float],
    problem: Problem,
    needs: Needs,
    window: Window,
    ready: Mapping[str, int],
) -> dict[str, float]:
    """The corrections after one more look, by the mean time between tokens and that of the batch that ran."""
    itl, model = window.decode.itl, problem.model
    workers = [(group, ready.get(group.name, 0)) for group in problem.groups if group.name in needs.decode]
    number = sum(count for _, count in workers)
    rate = window.arrivals.get()
    if model is None or not number or not itl.known or signal_names.ITL in window.own:
        return dict(corrections)
    tokens = rate * needs.load.output.mean * window.seconds
    measured = itl.get().mean
    if tokens < _FEWEST_TOKENS or measured <= 0:
        return dict(corrections)
    running = window.decode.running.otherwise(0.0) or rate * needs.load.output.mean * measured
    batch = max(1.0, running / number)
    context = needs.load.context
    expected = sum(n * g.worker.step_seconds(model, batch, context) for g, n in workers) / number
    before = math.log(corrections.get(STEP, 1.0))
    aim = math.log(min(max(measured / expected, _STEP_LEAST), _STEP_MOST))
    moved = before + min(1.0, problem.interval / _STEP_S) * (aim - before)
    return {**corrections, STEP: min(max(math.exp(moved), _STEP_LEAST), _STEP_MOST)}


def _new(window: Window, interval: float) -> float:
    """Share of a window that the look before, `interval` seconds ago, didn't see."""
    return min(1.0, interval / window.seconds)


def _bounded(logarithm: float) -> float:
    return min(max(math.exp(logarithm), _LEAST), _MOST)
