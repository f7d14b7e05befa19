"""The needs of every group for one look at the traffic, or why they can't be computed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import Role
from hawk_planner.sizing.demand import DecodeNeed, OfferedLoad, PrefillNeed
from hawk_planner.traffic import bins

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_planner.sizing.problem import Problem, SizedGroup
    from hawk_planner.traffic import SideTraffic, Window

BACKLOG_HORIZON_S = 60.0
"""Time within which requests that wait already should be worked off."""


WAIT = "wait"
"""The learned correction of prompts' waits, in `corrections`."""
STEP = "step"
"""The learned correction of decode steps' time there."""


class CannotSizeError(Exception):
    """Something that the arithmetic needs isn't known; the message names it and the remedy."""


@dataclass(frozen=True)
class Needs:
    """Needs by group for one load."""

    load: OfferedLoad
    prefill: Mapping[str, PrefillNeed]
    decode: Mapping[str, DecodeNeed]


def quiet_load(window: Window, before: OfferedLoad) -> OfferedLoad:
    """The load of a window without arrivals: the last known mix, and the bursts that may come again."""
    return replace(
        before,
        rate=0.0,
        dispersion=max(1.0, window.burstiness.otherwise(1.0)),
        prefill_backlog=0.0,
        decode_backlog=0.0,
        levels=_levels(window, _bursts(window)),
        prefill_growth=1.0,
        decode_growth=1.0,
    )


def load_of(window: Window, ahead_s: float = 0.0) -> OfferedLoad:
    """The load of a window that isn't lost and has arrivals, and what is expected in `ahead_s` seconds."""
    rate = window.arrivals.get()
    ahead = (ahead_s + window.seconds / 2.0) / window.burst_bin
    counts = [one.requests for one in window.bins]
    usual = bins.base(counts) / window.burst_bin if counts else math.inf
    number = rate * window.seconds
    prompts, outputs = [one.prompt_tokens for one in window.bins], [one.output_tokens for one in window.bins]
    found = _bursts(window)
    return OfferedLoad(
        rate=rate,
        prompt=bins.steadied(window.prefill.prompt.get(), number, prompts, counts),
        output=bins.steadied(window.decode.output.get(), number, outputs, counts),
        dispersion=max(1.0, window.burstiness.otherwise(1.0)),
        bin_s=window.burst_bin,
        prefill_backlog=_backlog(window.prefill),
        decode_backlog=_backlog(window.decode),
        levels=_levels(window, found),
        prefill_growth=bins.growth(prompts, ahead),
        decode_growth=bins.growth(outputs, ahead),
        usual=usual,
        noise=bins.NOISE * math.sqrt(usual / window.seconds) if counts else 0.0,
        persistence=bins.persistence([above for above, _ in found], ahead_s / window.burst_bin),
    )


HALF_LIFE_S = 900.0
"""Time after which a burst that was seen weighs half."""
_LEVELS = 8


def _bursts(window: Window) -> list[tuple[float, float]]:
    return bins.bursts([one.requests for one in window.bins], HALF_LIFE_S / window.burst_bin)


def _levels(window: Window, found: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Rates that a request may meet soon, with their shares: the usual one, and it plus each burst seen.

    Of k bursts that come in any order, the next is larger than all before with a chance of 1/(k + 1), and
    then, where sizes have an exponential tail, larger by about 1/ln(k + 1) of the largest.
    """
    counts = [one.requests for one in window.bins]
    usual = bins.base(counts)
    seen = [(above, weight) for above, weight in found if above > 0]
    if not seen:
        return ()
    total = sum(weight for _, weight in seen)
    number = total * total / sum(weight * weight for _, weight in seen)
    record = 1.0 / (1.0 + number)
    largest = _upper(seen, record * total) * (1.0 + 1.0 / (1.0 + math.log1p(number)))
    loads = [(usual, weight) for above, weight in found if above <= 0]
    loads += [(usual + above, weight * (1.0 - record)) for above, weight in seen]
    loads.append((usual + largest, total * record))
    requests = sum(load * weight for load, weight in loads)
    return merged(
        sorted((load / window.burst_bin, load * weight / requests) for load, weight in loads if load > 0),
        _LEVELS,
    )


def _upper(weighed: list[tuple[float, float]], weight: float) -> float:
    """The size above which less than `weight` lies."""
    above = 0.0
    for size, part in sorted(weighed, reverse=True):
        above += part
        if above >= weight:
            return size
    return 0.0


def merged(levels: list[tuple[float, float]], most: int) -> tuple[tuple[float, float], ...]:
    """Few levels with the same mean; neighbours merge, the highest stay the finest."""
    least = 0.5 / most
    found: list[tuple[float, float]] = []
    above = 1.0
    for rate, share in levels:
        if found and found[-1][1] + share <= max(least / 10, 2.0 / most * above):
            before, weight = found[-1]
            found[-1] = ((before * weight + rate * share) / (weight + share), weight + share)
        else:
            above -= found[-1][1] if found else 0.0
            found.append((rate, share))
    return tuple(found)


def _backlog(side: SideTraffic) -> float:
    """Requests/s that come on top of the completed ones: a queue that grows, and one that is there."""
    growth = max(0.0, side.waiting_growth.otherwise(0.0))
    return growth + max(0.0, side.waiting.otherwise(0.0)) / BACKLOG_HORIZON_S


def needs_of(problem: Problem, load: OfferedLoad, corrections: Mapping[str, float]) -> Needs:
    """Compute every group's needs; raises CannotSizeError."""
    model = problem.model
    if model is None:
        raise CannotSizeError("the model's geometry isn't known; see spec.model")
    prefill, decode = {}, {}
    for group in problem.groups:
        _check(group, model.weight_bytes)
        if group.role is not Role.DECODE:
            prefill[group.name] = PrefillNeed.of(
                model,
                group,
                load,
                problem.ttft,
                wait_factor=corrections.get(WAIT, 1.0),
                link=problem.link_bytes_per_second,
            )
        if group.role is not Role.PREFILL:
            decode[group.name] = DecodeNeed.of(
                model, group, load, problem.itl, step_factor=corrections.get(STEP, 1.0)
            )
    return Needs(load, prefill, decode)


def _check(group: SizedGroup, weight_bytes: float) -> None:
    lacking = group.worker.lacking()
    if lacking:
        named = f"AcceleratorClass {group.device_class!r}" if group.device_class else "no accelerator class"
        raise CannotSizeError(f"group {group.name} ({named}) lacks {', '.join(lacking)}; add it to the class")
    room = group.worker.room
    if room <= weight_bytes:
        raise CannotSizeError(
            f"group {group.name}: the weights ({weight_bytes / 1e9:.1f} GB) don't fit a replica's memory "
            f"({room / 1e9:.1f} GB usable); raise acceleratorsPerReplica"
        )
