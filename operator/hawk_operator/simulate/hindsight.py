"""Policies that know the trace: the cheapest static split, and a clairvoyant that pays the same start-up.

The clairvoyant finds, for each slot of time, the fewest workers with which the slot's requests would be in
time, gives up those whose workers cost most for the requests that they save, keeps a worker through gaps
that are shorter than its start-up, and asks for it that long ahead. It is near the optimum, and not proved
to be it.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import Role
from hawk_operator.simulate.policies import Schedule, fixed
from hawk_operator.simulate.score import ttft_target

if TYPE_CHECKING:
    from hawk_operator.simulate.engine import Settings
    from hawk_operator.simulate.score import Score
    from hawk_operator.simulate.traces import Request, Trace
    from hawk_operator.sizing import Group, Problem

GOOD = 0.99
"""Share of the attainable that counts as meeting the objectives."""
SLOT_S = 15.0

Try = Callable[[Schedule], "Score"]
"""Runs a schedule and scores it."""


def static_best(problem: Problem, run: Try, most: int = 40) -> tuple[Schedule, Score]:
    """The cheapest constant replicas that reach GOOD: each side alone first, then both together."""
    prefill, decode = (problem.side(role)[0].name for role in (Role.PREFILL, Role.DECODE))

    def good(p: int, d: int, measure: Callable[[Score], float]) -> bool:
        tried = run(fixed({prefill: p, decode: d}, "static-best"))
        return measure(tried) >= GOOD * tried.attainable

    p = _least(most, lambda n: good(n, most, lambda s: s.ttft_attainment))
    d = _least(most, lambda n: good(p, n, lambda s: s.itl_attainment))
    while True:
        schedule = fixed({prefill: p, decode: d}, "static-best")
        found = run(schedule)
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


@dataclass(frozen=True)
class _Slots:
    """What each slot needs: `misses[t][n]` is how many of its requests are late with n workers."""

    misses: list[list[int]]


def oracle(trace: Trace, problem: Problem, settings: Settings, run: Try) -> tuple[Schedule, Score]:
    """The cheapest schedule found that reaches GOOD, over a few shares of requests that may be late."""
    prefill, decode = (problem.side(role)[0] for role in (Role.PREFILL, Role.DECODE))
    end = trace.seconds + settings.interval_s
    slots = int(end / SLOT_S) + 1
    late = _prefill_slots(trace, problem, prefill, slots)
    places = _decode_slots(trace, problem, prefill, decode, slots)
    best: tuple[Schedule, Score] | None = None
    for spare in (0.85, 1.0, 1.15, 1.3, 1.6, 2.0):
        decoders = [math.ceil(spare * need - 1e-9) for need in places]
        for allowed in (0.016, 0.012, 0.009, 0.006, 0.003, 0.0):
            chosen = _give_up(late, int(allowed * len(trace.requests)))
            made = _schedule(
                {prefill.name: (chosen, prefill.least), decode.name: (decoders, decode.least)}, settings
            )
            found = run(made)
            if found.of_attainable >= GOOD:
                if best is None or found.cost_usd < best[1].cost_usd:
                    best = made, found
                break
    if best is None:
        full = [max(range(len(row)), key=lambda n, r=row: (-r[n], -n)) for row in late.misses]  # type: ignore[misc]
        made = _schedule(
            {
                prefill.name: (full, prefill.least),
                decode.name: ([2 * math.ceil(need) + 1 for need in places], 1),
            },
            settings,
        )
        best = made, run(made)
    return best


def _prefill_slots(trace: Trace, problem: Problem, group: Group, slots: int) -> _Slots:
    model = problem.model
    assert model is not None
    waiting: list[list[Request]] = [[] for _ in range(slots)]
    for request in trace.requests:
        waiting[int(request.arrival / SLOT_S)].append(request)
    misses = []
    for requests in waiting:
        timed = [(r.arrival, group.worker.prefill_seconds(model, r.prompt)) for r in requests]
        row = [len(timed)]
        while row[-1] and len(row) <= group.most:
            row.append(_late(timed, len(row), problem))
            if len(row) > 2 and row[-1] == row[-2] == row[-3]:
                break
        misses.append(row)
    return _Slots(misses)


def _late(timed: Sequence[tuple[float, float]], workers: int, problem: Problem) -> int:
    """Requests of a slot that begins with idle workers and are late, first come first served."""
    free = [0.0] * workers
    late = 0
    for arrival, seconds in timed:
        end = max(arrival, heapq.heappop(free)) + seconds
        heapq.heappush(free, end)
        late += end - arrival > ttft_target(problem.ttft, seconds) * (1 + 1e-9)
    return late


def _give_up(late: _Slots, allowed: int) -> list[int]:
    """Workers a slot: all in time, less those that save the fewest requests each, up to `allowed` late."""
    counts = [min(range(len(row)), key=lambda n, r=row: (r[n], n)) for row in late.misses]  # type: ignore[misc]
    left = allowed - sum(row[n] for row, n in zip(late.misses, counts, strict=True))
    heap: list[tuple[int, int]] = []
    for slot, (row, n) in enumerate(zip(late.misses, counts, strict=True)):
        if n:
            heapq.heappush(heap, (row[n - 1] - row[n], slot))
    while heap:
        price, slot = heapq.heappop(heap)
        if price > left:
            break
        left -= price
        counts[slot] -= 1
        row, n = late.misses[slot], counts[slot]
        if n:
            heapq.heappush(heap, (row[n - 1] - row[n], slot))
    return counts


def _decode_slots(trace: Trace, problem: Problem, prefill: Group, decode: Group, slots: int) -> list[float]:
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


def _schedule(needs: dict[str, tuple[list[int], int]], settings: Settings) -> Schedule:
    """Asked for a start-up ahead, kept through gaps that are no longer than that."""
    ahead = math.ceil(settings.startup_s / SLOT_S)
    planned = {}
    for name, (counts, least) in needs.items():
        kept = list(counts)
        for level in range(1, max(counts, default=0) + 1):
            inside = [i for i, count in enumerate(counts) if count >= level]
            for before, after in itertools.pairwise(inside):
                if 1 < after - before <= ahead + 1:
                    for slot in range(before + 1, after):
                        kept[slot] = max(kept[slot], level)
        wanted = [max(kept[i : i + ahead + 1], default=0) for i in range(len(kept))]
        planned[name] = [max(least, count) for count in wanted]
    slots = max((len(row) for row in planned.values()), default=0)
    steps = [(slot * SLOT_S, {name: row[slot] for name, row in planned.items()}) for slot in range(slots)]
    return Schedule(steps, "oracle")
