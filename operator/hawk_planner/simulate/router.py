"""The serving router of the simulated pool: which prompt is next, and on which group's workers.

Operator and simulator decide on replicas; the order of the queue, and prompts on decode devices, are the
router's. Both orders are offered to every policy alike:

- `QueueOrder.ARRIVAL`: first come, first served.
- `QueueOrder.SLACK`: the prompt that must start soonest to be in time comes first, and those that can't be
  in time any more come after all that can. When a burst is larger than the pool, first come first served
  makes everybody late; this makes as many late as the pool lacks.

Where the pool has dedicated prefill workers, workers of role Both lend themselves: they take a prompt that
is in time on them and, by the work that waits, wouldn't be in time elsewhere.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import QueueOrder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hawk_planner.simulate.workers import Job


_Entry = tuple[float, int, float, "Job"]
"""(key, number, latest start on the class, job)"""


@dataclass
class Station:
    """The queue as one group's workers see it: sorted by their own service times."""

    group: str
    lends: bool = False
    heap: list[_Entry] = field(default_factory=list)


class Router:
    """Prompts that wait."""

    def __init__(self, stations: Iterable[Station], order: QueueOrder) -> None:
        self.order = order
        self.stations = {station.group: station for station in stations}
        self.late: deque[Job] = deque()
        self.waiting = 0
        self.work_s = 0.0
        """Work that waits, by the fastest dedicated class."""
        self._number = 0

    def put(self, job: Job) -> None:
        """Queue a prompt that knows its deadline and its seconds on each group's workers."""
        self._number += 1
        job.queued = True
        self.waiting += 1
        self.work_s += job.service
        for name, station in self.stations.items():
            latest = job.deadline - job.services[name]
            key = latest if self.order is QueueOrder.SLACK else job.request.arrival
            heapq.heappush(station.heap, (key, self._number, latest, job))

    def take(self, group: str, now: float, *, fastest: bool) -> Job | None:
        """The next prompt for an idle dedicated worker; `fastest` says that no faster class is ready."""
        station = self.stations[group]
        heap = station.heap
        if self.order is QueueOrder.ARRIVAL:
            job = self._first(heap)
            return None if job is None else self._out(job)
        while (job := self._first(heap)) is not None:
            if heap[0][2] >= now:
                return self._out(job)
            if not fastest:
                heapq.heappop(heap)
                continue
            heapq.heappop(heap)
            self.late.append(job)
        while self.late:
            job = self.late.popleft()
            if job.queued:
                return self._out(job)
        return None

    def lend(self, group: str, now: float, workers: int) -> Job | None:
        """The next prompt for an idle lender, beside so many dedicated `workers` that are all busy."""
        heap = self.stations[group].heap
        while (job := self._first(heap)) is not None:
            if heap[0][2] < now:
                heapq.heappop(heap)
                continue
            ahead = (self.work_s - job.service) / workers if workers else math.inf
            return self._out(job) if now + ahead > job.deadline - job.service else None
        return None

    def _out(self, job: Job) -> Job:
        job.queued = False
        self.waiting -= 1
        self.work_s = self.work_s - job.service if self.waiting else 0.0
        return job

    @staticmethod
    def _first(heap: list[_Entry]) -> Job | None:
        while heap and not heap[0][3].queued:
            heapq.heappop(heap)
        return heap[0][3] if heap else None
