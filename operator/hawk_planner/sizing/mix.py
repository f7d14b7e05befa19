"""The cheapest mix of workers that brings enough prompts through in time, over several classes.

Prompts pass stages, as they do in the router: dedicated workers from the slowest class to the fastest, each
taking what it can have ready in time, then workers that decode and lend themselves. What a stage leaves goes
to the next. The rate isn't one number but a distribution (see `levels`), so that workers are kept for the
bursts that come again.

Sources: the wait of Allen and Cunneen with Erlang's C for a queue in order of arrival; for one in order of
slack, whose late prompts stand behind all others, the loss of a queue with impatience, (1 - r)P / (1 - rP)
with P the chance of a wait beyond the slack (exact for M/G/1; Boxma and de Waal, 1994); Erlang's B for
lenders, who take a prompt at once or not at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hawk_api.v1alpha1.enums import QueueOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_CHOICES = 5
"""Counts tried of all classes but the last together, when there are several."""
_FULLEST = 0.95
"""Share of all workers' time that work may take on average: the late must be served some time, too."""


@dataclass(frozen=True)
class Stage:
    """One group as prompts see it: `service` (P,) seconds of each prompt on one worker, `price` an hour.

    `least` and `most` bound the workers; `lends` says that they decode first of all. `link_replicas` are
    the workers that one request/s takes by its KV on the link.
    """

    name: str
    service: Array
    price: float
    least: int
    most: int
    lends: bool = False
    link_replicas: float = 0.0
    near: int = 1
    """Where the search begins: the workers that are there."""

    @cached_property
    def moments(self) -> Array:
        """Powers 0, 1 and 2 of the service times, (P, 3)."""
        return np.stack((np.ones_like(self.service), self.service, self.service**2), axis=1)


@dataclass(frozen=True)
class Prompts:
    """The arrivals: rates (L,) in requests/s with the `shares` (L,) of requests that meet them, prompts of
    `weights` (P,) due within `targets` (P,) seconds, and the share of all that must be in time.
    """

    rates: Array
    shares: Array
    weights: Array
    targets: Array
    share: float
    dispersion: float = 1.0
    wait_factor: float = 1.0
    order: QueueOrder = QueueOrder.ARRIVAL
    known: dict[bytes, list[Array]] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Erlang's B by servers, for loads that a search meets again and again."""
    first: dict[tuple[str, int], Array] = field(default_factory=dict, init=False, compare=False, repr=False)
    """The share that is late on the first stage by its workers, likewise."""

    @cached_property
    def rate(self) -> float:
        """The mean rate that a request meets."""
        return float(self.rates @ self.shares)


def attained(prompts: Prompts, stages: Sequence[Stage], counts: Mapping[str, int]) -> float:
    """Share of the prompts in time with `counts` workers; `stages` in the router's order."""
    left = np.ones((len(prompts.rates), len(prompts.weights)))
    own = sum(counts[s.name] / float(prompts.weights @ s.service) for s in stages if not s.lends)
    last = max((i for i, stage in enumerate(stages) if not stage.lends), default=-1)
    for position, stage in enumerate(stages):
        workers = counts[stage.name]
        feasible = stage.service <= prompts.targets * (1 + 1e-9)
        if workers <= 0 or not feasible.any():
            continue
        offered = left * prompts.weights
        if stage.lends:
            late = _blocked(prompts, stage, (workers, own), offered, feasible)[:, None]
        else:
            last_one = position == last
            if not last_one:
                offered = offered * feasible
            order = prompts.order if last_one else QueueOrder.SLACK
            late = (_late if position else _late_first)(prompts, stage, workers, offered, order)
        left = left * np.where(feasible, late, 1.0)
    return float(prompts.shares @ (1.0 - left) @ prompts.weights)


def _late_first(prompts: Prompts, stage: Stage, workers: int, offered: Array, order: QueueOrder) -> Array:
    """`_late` of the first stage, which is offered the same prompts whatever the others have."""
    key = stage.name, workers
    if key not in prompts.first:
        prompts.first[key] = _late(prompts, stage, workers, offered, order)
    return prompts.first[key]


def _late(prompts: Prompts, stage: Stage, workers: int, offered: Array, order: QueueOrder) -> Array:
    """Chance (L, P) that a prompt waits longer than its slack."""
    service = stage.service
    total, work, square = (offered @ stage.moments).T
    total = np.maximum(total, _INSTANT)
    mean = np.maximum(work / total, _INSTANT)
    load = prompts.rates * total * mean
    use = load / workers
    spread = (prompts.dispersion + np.maximum(0.0, square / total / mean**2 - 1.0)) / 2.0
    busy = _erlang_c(prompts, workers, load) ** min(
        1.0, 2.0 / (1.0 + prompts.dispersion * prompts.wait_factor)
    )
    near = np.where(np.abs(1.0 - use) < _AT_ONE, 1.0 - _AT_ONE, use)
    pace = workers * (near - 1.0) / (prompts.wait_factor * mean * spread)
    slack = np.maximum(0.0, prompts.targets - service)
    beyond = busy[:, None] * np.exp(np.minimum(pace[:, None] * slack, _LARGEST))
    if order is QueueOrder.ARRIVAL:
        found: Array = np.where(use[:, None] >= 1.0, 1.0, np.minimum(beyond, 1.0))
        return found
    use = near[:, None]
    lost: Array = (1.0 - use) * beyond / (1.0 - use * beyond)
    return np.clip(lost, 0.0, 1.0)


_INSTANT = 1e-9
"""Seconds below which a service is none; where nothing is left to serve, too."""
_AT_ONE = 1e-6
_LARGEST = 50.0


def _blocked(
    prompts: Prompts, stage: Stage, capacity: tuple[int, float], offered: Array, feasible: NDArray[np.bool_]
) -> Array:
    """Chance (L,) that no lender is free for what dedicated workers leave.

    `capacity` holds the lenders, and the requests/s of the dedicated workers.

    What is left comes when more comes than these can do. How much more: bursts have long tails, and what
    exceeds a level does so by about as much again; smooth traffic exceeds it by little.
    """
    workers, own = capacity
    suited = (offered * feasible) @ stage.service
    clumped = 1.0 - 1.0 / max(1.0, prompts.dispersion * prompts.wait_factor)
    left = np.maximum(offered.sum(axis=1), 1e-12)
    load = np.maximum(prompts.rates * suited, clumped * own * suited / left)
    return _erlang_b(prompts, workers, load)


def _erlang_b(prompts: Prompts, servers: int, load: Array) -> Array:
    """Share (L,) of arrivals that find all servers busy, and are lost."""
    known = prompts.known.setdefault(load.tobytes(), [np.ones_like(load)])
    while len(known) <= servers:
        carried = load * known[-1]
        known.append(carried / (len(known) + carried))
    return known[servers]


def _erlang_c(prompts: Prompts, servers: int, load: Array) -> Array:
    """Share (L,) of arrivals that wait."""
    blocked = _erlang_b(prompts, servers, load)
    use = np.minimum(load / servers, 1.0)
    waits: Array = np.where(load >= servers, 1.0, blocked / (1.0 - use * (1.0 - blocked)))
    return waits


def cheapest_mix(
    conditions: Sequence[Prompts], stages: Sequence[Stage], present: Mapping[str, int], tolerance: float = 0.0
) -> dict[str, int]:
    """Fewest US dollars an hour that meet all `conditions`; the most where nothing does.

    A mix that keeps the `present` workers of all stages but the last, and costs at most `tolerance` more, is
    taken before another: mixes of nearly equal price would take turns otherwise.
    """
    counts = {stage.name: max(stage.least, 0) for stage in stages}
    if not stages or not conditions:
        return counts
    near = None
    if len(stages) > 1:
        kept = {s.name: min(max(present.get(s.name, 0), s.least), max(s.least, s.most)) for s in stages}
        near = _least(conditions, stages, stages[-1], kept, math.inf)
    best = _search(conditions, stages, 0, counts, near[0] / (1.0 + tolerance) if near else math.inf)
    found = best or near
    return found[1] if found else {stage.name: max(stage.least, stage.most) for stage in stages}


def _search(
    conditions: Sequence[Prompts],
    stages: Sequence[Stage],
    position: int,
    counts: Mapping[str, int],
    bound: float,
) -> tuple[float, dict[str, int]] | None:
    """The cheapest counts of the stages from `position` on, below a price of `bound`."""
    stage = stages[position]
    if position == len(stages) - 1:
        return _least(conditions, stages, stage, counts, bound)
    best: tuple[float, dict[str, int]] | None = None
    most = _least(conditions, stages, stage, counts, math.inf)
    top = most[1][stage.name] if most else max(stage.least, stage.most)
    step = max(1, math.ceil((top - stage.least) / _CHOICES ** (1.0 / (len(stages) - 1))))
    for count in sorted({*range(top, stage.least - 1, -step), stage.least}, reverse=True):
        found = _search(
            conditions, stages, position + 1, {**counts, stage.name: count}, best[0] if best else bound
        )
        if found and (best is None or found[0] < best[0] - 1e-9):
            best = found
    return best


def _least(
    conditions: Sequence[Prompts],
    stages: Sequence[Stage],
    stage: Stage,
    counts: Mapping[str, int],
    bound: float,
) -> tuple[float, dict[str, int]] | None:
    """The fewest of one stage beside the others' `counts`; None when none is enough or all too dear."""
    others = sum(s.price * counts[s.name] for s in stages if s is not stage)
    low, high = stage.least - 1, max(stage.least, stage.most)
    if math.isfinite(bound) and stage.price > 0:
        high = min(high, int((bound - others) / stage.price + 1e-9))
    if high < stage.least:
        return None

    def fits(count: int) -> bool:
        tried = {**counts, stage.name: count}
        return all(enough(prompts, stages, tried) for prompts in conditions)

    found = _fewest(fits, low, high, stage.near)
    return None if found is None else (others + stage.price * found, {**counts, stage.name: found})


def _fewest(fits: Callable[[int], bool], low: int, high: int, start: int) -> int | None:
    """The fewest in (low, high] for which `fits` holds; None when it holds for none."""
    at, step = min(max(start, low + 1), high), 1
    if fits(at):
        high = at
        while high - step > low and fits(high - step):
            high, step = high - step, 2 * step
        low = max(low, high - step)
    else:
        low = at
        while low + step < high and not fits(low + step):
            low, step = low + step, 2 * step
        if low + step < high:
            high = low + step
        elif low == high or not fits(high):
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def enough(prompts: Prompts, stages: Sequence[Stage], counts: Mapping[str, int]) -> bool:
    """True if `counts` workers bring enough of the prompts through in time."""
    rate = prompts.rate
    own = [stage for stage in stages if not stage.lends]
    linked = [stage for stage in own if stage.link_replicas]
    if linked and sum(counts[s.name] / s.link_replicas for s in linked) < rate:
        return False
    work = [float(prompts.weights @ stage.service) for stage in own]
    speed = sum(counts[s.name] / w for s, w in zip(own, work, strict=True) if w > 0)
    lent = sum(counts[s.name] / float(prompts.weights @ s.service) for s in stages if s.lends)
    if _FULLEST * (speed + lent) < rate:
        return False
    return attained(prompts, stages, counts) >= prompts.share
