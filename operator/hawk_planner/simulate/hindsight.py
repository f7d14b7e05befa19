"""Policies that know the trace: the cheapest static split, and a clairvoyant that pays the same start-up.

The clairvoyant is a shortest path: a slot of time after another, its states are how many workers each side
has, its steps cost what the workers cost (a new one also while it starts), and each late request costs a
fine. With the fine found by bisection on simulated runs, the path is the cheapest schedule that meets the
objectives, as far as slots that begin idle tell what a slot's requests need.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hawk_api.v1alpha1.enums import QueueOrder, Role
from hawk_planner.simulate.policies import Schedule, decode_side, fixed
from hawk_planner.simulate.router import Router, Station
from hawk_planner.simulate.score import prompt_groups, ttft_target
from hawk_planner.simulate.workers import Job

if TYPE_CHECKING:
    from hawk_planner.simulate.engine import ClusterSettings
    from hawk_planner.simulate.score import Score
    from hawk_planner.simulate.traces import Trace, TraceRequest
    from hawk_planner.sizing import Problem, SizedGroup

GOOD = 0.99
"""Share of the attainable that counts as meeting the objectives."""
SLOT_S = 15.0
_LENT = 12
"""Decode workers tried, where they lend themselves."""
_SPARES = (0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
"""Decode workers over the least that the bytes allow."""
_FINES = (1e-5, 1.0)
"""US dollars a late request: from no reason to add a worker to a reason for any."""
_ENOUGH = 0.999
"""Share of sequences in time with which more decode workers are tried no further."""
_BEYOND = (1.5, 2.5, 5.0)
"""Fines over the one for GOOD: what a better attainment costs."""
_NEAR = 1.15
"""How near the fine is found."""

Try = Callable[[Schedule], "Score"]
"""Runs a schedule and scores it."""
Counts = np.ndarray


def static_best(problem: Problem, run: Try, most: int = 40) -> tuple[Schedule, Score]:
    """The cheapest constant replicas that reach GOOD: each side alone first, then both together."""
    sides = [side[0].name for side in (problem.side(Role.PREFILL), decode_side(problem)) if side]

    def tried(*counts: int) -> tuple[Schedule, Score]:
        schedule = fixed(dict(zip(sides, counts, strict=True)), "static-best")
        return schedule, run(schedule)

    def good(found: Score, share: float) -> bool:
        return share >= GOOD * found.attainable

    if len(sides) == 1:
        n = _least(most, lambda n: good(f := tried(n)[1], f.slo_attainment))
        return tried(n)
    d = _least(most, lambda n: good(f := tried(most, n)[1], f.itl_attainment))
    p = _least(most, lambda n: good(f := tried(n, d)[1], f.ttft_attainment))
    while True:
        schedule, found = tried(p, d)
        if found.of_attainable >= GOOD or p + d >= 2 * most:
            return schedule, found
        if found.ttft_attainment < found.itl_attainment:
            p += 1
        else:
            d += 1


def _least(most: int, good: Callable[[int], bool]) -> int:
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def oracle(trace: Trace, problem: Problem, settings: ClusterSettings, run: Try) -> tuple[Schedule, Score]:
    """The cheapest schedule found that reaches GOOD; the one with the fewest late where none does."""
    found = oracle_curve(trace, problem, settings, run)
    good = [one for one in found if one[1].of_attainable >= GOOD]
    if good:
        return min(good, key=lambda one: one[1].cost_usd)
    return max(found, key=lambda one: one[1].of_attainable)


def oracle_curve(
    trace: Trace, problem: Problem, settings: ClusterSettings, run: Try
) -> list[tuple[Schedule, Score]]:
    """All schedules that the clairvoyant's search runs: its cost against attainment, the finest near GOOD.

    For each spare of decode the least fine that reaches GOOD is bisected, below the fine at which even the
    plan costs what the best run so far did: more than one run is spent only on what is cheaper.
    """
    path = _Path(trace, problem, settings)
    found: list[tuple[Schedule, Score]] = []

    def as_dear(plan_usd: float, spare: float, fine: float) -> bool:
        return path.usd(path.cheapest(fine, spare)) >= plan_usd

    def good(spare: float, fine: float) -> bool:
        schedule = path.cheapest(fine, spare)
        found.append((schedule, run(schedule)))
        return found[-1][1].of_attainable >= GOOD

    best: _Found | None = None
    for spare in _SPARES:
        low, high = _FINES
        if best is not None:
            high = _bisected(low, high, partial(as_dear, best.plan_usd, spare))
        if not good(spare, high):
            continue
        enough = found[-1][1].itl_attainment >= _ENOUGH * found[-1][1].attainable
        fine = _bisected(low, high, partial(good, spare))
        plan = path.usd(path.cheapest(fine, spare))
        if best is None or plan < best.plan_usd:
            best = _Found(plan, fine, spare)
        if enough:
            break
    if best is not None:
        for more in _BEYOND:
            good(best.spare, best.fine * more)
    return found


class _Found(NamedTuple):
    """The cheapest plan so far that reaches GOOD, and what it was asked with."""

    plan_usd: float
    fine: float
    spare: float


def _bisected(low: float, high: float, holds: Callable[[float], bool]) -> float:
    """The least value at which it holds, within _NEAR; `high` where it holds nowhere below."""
    while high / low > _NEAR:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


class _Path:
    """The needs of each slot, and the cheapest way through the slots."""

    def __init__(self, trace: Trace, problem: Problem, settings: ClusterSettings) -> None:
        self.settings = settings
        self.prompts = prompt_groups(problem)[0]
        self.decodes = decode_side(problem)[0]
        self.together = self.prompts is self.decodes
        self.groups = (self.prompts,) if self.together else (self.prompts, self.decodes)
        slots = int((trace.seconds + settings.interval_s) / SLOT_S) + 1
        self.places = _decode_slots(trace, problem, self.prompts, self.decodes, slots)
        requests: list[list[TraceRequest]] = [[] for _ in range(slots)]
        for request in trace.requests:
            requests[int(request.arrival / SLOT_S)].append(request)
        self.lends = self.decodes.role is Role.BOTH and not self.together
        self.late = [_Slot(problem, self, found, settings.order).grid() for found in requests]

    def cheapest(self, fine: float, spare: float) -> Schedule:
        """The path for a fine (US dollars a late request), with `spare` times the room that decode needs."""
        needs = [max(self.decodes.least, math.ceil(spare * place - 1e-9)) for place in self.places]
        size = self._size(needs)
        price = [(group.cost_per_hour or 1.0) / 3600.0 for group in (self.prompts, self.decodes)]
        hold, climb = _prices(size, price, self.settings.startup_s)
        value = np.zeros(size)
        free = np.zeros_like(climb[0]), np.zeros_like(climb[1])
        origins = []
        for slot, late in enumerate(self.late):
            value, origin = _step(value, climb if slot else free)
            value = value + hold + fine * _stretched(late, size)
            value[:, : needs[slot]] = math.inf
            if not self.together:
                value[: self.prompts.least] = math.inf
            origins.append(origin)
        return self._schedule(_walk(value, origins))

    def usd(self, schedule: Schedule) -> float:
        """The cost of a schedule by itself, from each worker's being asked for."""
        price = {group.name: group.cost_per_hour or 1.0 for group in self.groups}
        return (
            SLOT_S
            / 3600.0
            * sum(price[n] * count for _, wanted in schedule.steps for n, count in wanted.items())
        )

    def _size(self, needs: Sequence[int]) -> tuple[int, int]:
        first = max(late.shape[0] for late in self.late)
        return max(first, self.prompts.least + 1), max([*needs, *(late.shape[1] for late in self.late)]) + 1

    def _schedule(self, states: Sequence[tuple[int, int]]) -> Schedule:
        """Asked for a start-up ahead."""
        ahead = math.ceil(self.settings.startup_s / SLOT_S)
        steps = []
        for slot in range(len(states)):
            coming = states[slot : slot + ahead + 1]
            wanted = {self.decodes.name: max(d for _, d in coming)}
            if not self.together:
                wanted[self.prompts.name] = max(p for p, _ in coming)
            steps.append((slot * SLOT_S, wanted))
        return Schedule(steps, "oracle")


def _prices(
    size: tuple[int, int], price: Sequence[float], startup_s: float
) -> tuple[Counts, tuple[Counts, Counts]]:
    """US dollars of a slot in each state, and of each way up a side (start-up is paid, down is free)."""
    first, second = (np.arange(n) for n in size)
    hold = SLOT_S * (price[0] * first[:, None] + price[1] * second[None, :])
    climbs = [
        startup_s * p * np.maximum(0, n[None, :] - n[:, None])
        for p, n in zip(price, (first, second), strict=True)
    ]
    return hold, (climbs[0], climbs[1])


def _step(value: Counts, climb: tuple[Counts, Counts]) -> tuple[Counts, tuple[Counts, Counts]]:
    """One slot on: the least value of each state, and from which state of each side it comes."""
    over_second = value[:, :, None] + climb[1][None, :, :]
    second = over_second.argmin(axis=1)
    value = np.take_along_axis(over_second, second[:, None, :], axis=1)[:, 0, :]
    over_first = value[:, None, :] + climb[0][:, :, None]
    first = over_first.argmin(axis=0)
    return np.take_along_axis(over_first, first[None], axis=0)[0], (first, second)


def _walk(value: Counts, origins: Sequence[tuple[Counts, Counts]]) -> list[tuple[int, int]]:
    """The states of the cheapest path, from its end to its begin and turned round."""
    p, d = (int(i) for i in np.unravel_index(int(value.argmin()), value.shape))
    states = []
    for first, second in reversed(origins):
        states.append((p, d))
        before = int(first[p, d])
        p, d = before, int(second[before, d])
    return states[::-1]


def _stretched(late: Counts, size: tuple[int, int]) -> Counts:
    """Late requests for all states: more workers than were tried change nothing any more."""
    pad = ((0, max(0, size[0] - late.shape[0])), (0, max(0, size[1] - late.shape[1])))
    return np.pad(late, pad, mode="edge")[: size[0], : size[1]]


class _Slot:
    """The requests of one slot, on workers that are idle when it begins."""

    def __init__(
        self, problem: Problem, path: _Path, requests: Sequence[TraceRequest], order: QueueOrder
    ) -> None:
        model = problem.model
        assert model is not None
        self.order = order
        self.path = path
        self.jobs: list[Job] = []
        for request in requests:
            job = Job(request)
            job.services = {g.name: g.worker.prefill_seconds(model, request.prompt) for g in path.groups}
            job.service = job.services[path.prompts.name]
            job.deadline = request.arrival + ttft_target(problem.ttft, job.service) * (1 + 1e-9)
            self.jobs.append(job)

    def grid(self) -> Counts:
        """Late requests by prefill workers and lenders, up to where more change nothing."""
        rows: list[list[int]] = []
        while len(rows) <= self.path.prompts.most and (not rows or rows[-1][0]):
            row = [self.late(len(rows), 0)]
            while self.path.lends and row[-1] and len(row) <= _LENT:
                row.append(self.late(len(rows), len(row)))
            rows.append(row)
        if self.path.together:
            return np.array([[row[0] for row in rows]], dtype=float)
        width = max(len(row) for row in rows)
        return np.array([row + row[-1:] * (width - len(row)) for row in rows], dtype=float)

    def late(self, workers: int, lenders: int) -> int:
        """Requests that are late with so many workers and lenders."""
        if not workers + lenders:
            return len(self.jobs)
        stations = [Station(group.name) for group in self.path.groups]
        router = Router(stations, self.order)
        own, lent = self.path.prompts.name, self.path.decodes.name
        idle = {own: workers, lent: lenders} if lenders else {own: workers}
        busy: list[tuple[float, str]] = []
        late, coming, now = len(self.jobs), 0, 0.0
        while coming < len(self.jobs) or busy:
            if coming < len(self.jobs) and (not busy or self.jobs[coming].request.arrival <= busy[0][0]):
                now = self.jobs[coming].request.arrival
                router.put(self.jobs[coming])
                coming += 1
            else:
                now, group = heapq.heappop(busy)
                idle[group] += 1
            late -= _serve(router, idle, busy, now, (own, lent, workers))
        return late


def _serve(
    router: Router,
    idle: dict[str, int],
    busy: list[tuple[float, str]],
    now: float,
    pool: tuple[str, str, int],
) -> int:
    """Give waiting prompts to idle workers; returns how many of them are in time."""
    own, lent, workers = pool
    in_time = 0
    while router.waiting:
        group, job = own, None
        if idle[own]:
            job = router.take(own, now, fastest=True)
        elif idle.get(lent):
            group, job = lent, router.lend(lent, now, workers)
        if job is None:
            break
        idle[group] -= 1
        end = now + job.services[group]
        heapq.heappush(busy, (end, group))
        in_time += end <= job.deadline
    return in_time


def _decode_slots(
    trace: Trace, problem: Problem, prefill: SizedGroup, decode: SizedGroup, slots: int
) -> list[float]:
    """Decode workers that each slot needs, from the bytes that its sequences read a step at most."""
    model, itl = problem.model, problem.itl
    assert model is not None
    worker = decode.worker
    target = itl.target if itl else 1.0
    single, double = worker.step_seconds(model, 1, 1000.0), worker.step_seconds(model, 2, 1000.0)
    weights = single - (double - single)
    room = max(1e-6, target - weights)
    changes: list[tuple[float, float]] = []
    for request in trace.requests:
        if request.output <= 1:
            continue
        begin = request.arrival + prefill.worker.prefill_seconds(model, request.prompt)
        context = request.prompt + request.output / 2
        cost = worker.step_seconds(model, 1, context) - weights
        changes += [(begin, cost), (begin + request.output * target, -cost)]
    changes.sort()
    peaks = [0.0] * slots
    now, slot = 0.0, 0
    for when, change in changes:
        while (slot + 1) * SLOT_S <= when and slot < slots - 1:
            slot += 1
            peaks[slot] = max(peaks[slot], now)
        now += change
        peaks[slot] = max(peaks[slot], now)
    return [peak / room for peak in peaks]
