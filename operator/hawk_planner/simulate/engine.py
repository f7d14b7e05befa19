"""Discrete events: requests through prefill, link and decode, while a policy changes the replicas."""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from hawk_api.v1alpha1.enums import QueueOrder, Role
from hawk_planner.simulate.meter import Gauges, Meter
from hawk_planner.simulate.router import Router, Station
from hawk_planner.simulate.score import prompt_groups, ttft_target
from hawk_planner.simulate.workers import DEFAULT_CHUNK_S, DecodeWorker, Job, PrefillWorker, StepCost
from hawk_planner.sizing import GroupObservation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hawk_planner.simulate.traces import Trace
    from hawk_planner.sizing import Problem, SizedGroup
    from hawk_planner.traffic import Window


@dataclass(frozen=True)
class ClusterSettings:
    """How the simulated cluster behaves. Seconds, bytes/s."""

    startup_s: float = 60.0
    """From asking for a replica to its being ready."""
    interval_s: float = 15.0
    """Between two decisions."""
    link_bytes_per_second: float = 45e9
    """The rate of one prefill worker's link."""
    order: QueueOrder = QueueOrder.ARRIVAL
    """How the router orders prompts."""
    initial: Mapping[str, int] = field(default_factory=dict)
    """Replicas that are ready at the start; each group's minimum where absent."""
    failures: tuple[tuple[float, str], ...] = ()
    """(time, group): one worker of the group is lost then, with all that it holds."""
    drain_after_s: float = 3600.0
    """How long after the last arrival the simulation may go on."""


class Policy(Protocol):
    """Decides on replicas a group, every interval."""

    name: str

    @property
    def key(self) -> str:
        """All that its decisions depend on besides what it sees; equal keys make equal runs."""

    def decide(
        self, window: Window, gauges: Gauges, observed: Mapping[str, GroupObservation], now: float
    ) -> Mapping[str, int]:
        """Replicas wanted now."""


@dataclass(frozen=True)
class WorkerSpan:
    """The life of one worker: `start` is when it was asked for, `busy_s` what it worked of that time."""

    group: str
    start: float
    end: float
    busy_s: float

    def within(self, start: float, end: float) -> float:
        """Seconds of it in [start, end)."""
        return max(0.0, min(self.end, end) - max(self.start, start))


@dataclass
class SimulationResult:
    """The outcome of every request, and its cost. Lists are in the order of the trace's requests."""

    ttft_s: list[float]
    itl_s: list[float]
    spans: list[WorkerSpan]
    timeline: list[tuple[float, dict[str, int], dict[str, int]]]
    """(time, wanted, ready) at every decision."""
    end: float


class _Fleet:
    """The workers of one group: ready ones, starting ones (by the time they are ready), and draining ones."""

    def __init__(self, group: SizedGroup, cost: StepCost) -> None:
        self.group = group
        self.cost = cost
        self.ready: list[PrefillWorker | DecodeWorker] = []
        self.starting: list[tuple[float, float]] = []
        """(ready at, asked for at), in the order asked for."""
        self.draining: list[PrefillWorker | DecodeWorker] = []
        self.wanted = 0

    @property
    def decodes(self) -> bool:
        return self.group.role is not Role.PREFILL

    def idle(self, job: Job | None = None) -> PrefillWorker | DecodeWorker | None:
        """The emptiest worker without a prompt (and with memory for `job`); None when all have one."""
        free = [w for w in self.ready if w.job is None and (job is None or w.fits(job))]
        return free[0] if len(free) == 1 else min(free, key=_emptiest, default=None)


def _emptiest(worker: PrefillWorker | DecodeWorker) -> tuple[int, int]:
    return worker.load, worker.number


CHUNK_OF_ITL = 0.95
"""Steps that carry a chunk of a prompt take so much of the ITL target."""


class Simulation:
    """One run. Everything is decided by the trace, the pool, the policy and the settings: no chance in it."""

    def __init__(self, trace: Trace, problem: Problem, policy: Policy, settings: ClusterSettings) -> None:
        if problem.model is None:
            raise ValueError("the pool's model isn't known; a simulation needs its geometry")
        self.trace = trace
        self.problem = problem
        self.policy = policy
        self.settings = settings
        self.model = problem.model
        self.fleets = {g.name: _Fleet(g, StepCost.of(g, self.model)) for g in problem.groups}
        self.meter = Meter()
        self.handed: deque[Job] = deque()
        self.events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        """(when, number, what happens, its arguments before the time)"""
        self.number = 0
        self.workers = 0
        self.open = len(trace.requests)
        self.last_look = 0.0
        self.work = 0.0
        self.work_at_look = 0.0
        self.done = SimulationResult([math.inf] * self.open, [math.inf] * self.open, [], [], 0.0)
        self.chunk_s = CHUNK_OF_ITL * problem.itl.target if problem.itl else DEFAULT_CHUNK_S
        dedicated = {group.name for group in prompt_groups(problem)}
        by_speed = sorted(
            (fleet for fleet in self.fleets.values() if fleet.group.role is not Role.DECODE),
            key=lambda fleet: -fleet.group.worker.prefill_seconds(self.model, 1000),
        )
        self.dedicated = [fleet for fleet in by_speed if fleet.group.name in dedicated]
        """Slowest first: what is in time there leaves the faster ones free."""
        self.lenders = [fleet for fleet in by_speed if fleet.group.name not in dedicated]
        self.decoders: list[DecodeWorker] = []
        """Ready ones of all groups."""
        self.router = Router((Station(f.group.name) for f in by_speed), settings.order)
        self._service: dict[int, dict[str, float]] = {}

    # The loop

    def run(self, progress: Callable[[int], None] | None = None) -> SimulationResult:
        """Run to the last request; `progress` is called with the requests that ended, now and then."""
        for name, fleet in self.fleets.items():
            fleet.wanted = self.settings.initial.get(name, fleet.group.least)
            for _ in range(fleet.wanted):
                self._ready(fleet, 0.0, 0.0)
        for when, name in self.settings.failures:
            self._at(when, self._fail, self.fleets[name])
        self._at(0.0, self._look)
        limit = self.trace.seconds + self.settings.drain_after_s
        arriving, requests = 0, self.trace.requests
        coming = requests[0].arrival if requests else math.inf
        now = 0.0
        while self.open and now <= limit:
            if coming <= self.events[0][0]:
                now = coming
                self._arrive(Job(requests[arriving], arriving))
                arriving += 1
                coming = requests[arriving].arrival if arriving < len(requests) else math.inf
                self._feed(now)
                if progress and arriving % 1000 == 0:
                    progress(arriving)
            else:
                now, _, act, about = heapq.heappop(self.events)
                act(*about, now)
        self._account(now)
        return self.done

    def _at(self, when: float, act: Callable[..., None], *about: Any) -> None:
        self.number += 1
        heapq.heappush(self.events, (when, self.number, act, about))

    # Prefill

    def _arrive(self, job: Job) -> None:
        job.services = self._seconds(job.prompt)
        job.service = min(job.services[fleet.group.name] for fleet in self.dedicated)
        job.deadline = job.request.arrival + ttft_target(self.problem.ttft, job.service)
        self.router.put(job)

    def _seconds(self, tokens: int) -> dict[str, float]:
        found = self._service.get(tokens)
        if found is None:
            found = {
                fleet.group.name: fleet.group.worker.prefill_seconds(self.model, tokens)
                for fleet in (*self.dedicated, *self.lenders)
            }
            self._service[tokens] = found
        return found

    def _feed(self, now: float) -> None:
        """Give waiting prompts to idle workers."""
        if not self.router.waiting:
            return
        for position, fleet in enumerate(self.dedicated):
            fastest = not any(f.ready for f in self.dedicated[position + 1 :])
            while self.router.waiting and (worker := fleet.idle()) is not None:
                job = self.router.take(fleet.group.name, now, fastest=fastest)
                if job is None:
                    break
                self._begin(worker, job, now)
        workers = sum(len(fleet.ready) for fleet in self.dedicated)
        for fleet in self.lenders:
            while self.router.waiting and fleet.idle() is not None:
                job = self.router.lend(fleet.group.name, now, workers)
                if job is None:
                    break
                worker = fleet.idle(job)
                if worker is None:
                    self.router.put(job)
                    break
                self._begin(worker, job, now)

    def _begin(self, worker: PrefillWorker | DecodeWorker, job: Job, now: float) -> None:
        seconds = job.services[worker.group]
        job.started = now
        if isinstance(worker, DecodeWorker):
            worker.advance(now)
            worker.prefill(job, seconds)
            self._watch(worker)
        else:
            worker.job, worker.busy_until = job, now + seconds
            worker.work_s += seconds
        self.work += worker.busy_until - now
        self._at(worker.busy_until, self._prefilled, worker, job)

    def _prefilled(self, worker: PrefillWorker | DecodeWorker, job: Job, now: float) -> None:
        if worker.job is not job:
            return  # the worker was lost meanwhile, and the prompt is queued again
        if math.isnan(job.first):
            job.first = now
            self.done.ttft_s[job.index] = now - job.request.arrival
            late = now > job.deadline
            self.meter.count(now, job.prompt, job.request.output, now - job.request.arrival, late=late)
        if job.left == 0:
            self._finish(job, now)
        if isinstance(worker, DecodeWorker):
            worker.advance(now)
            self.number += 1
            worker.prefilled(self.number)
            self._watch(worker)
        else:
            worker.job = None
            if job.left:
                self._send(worker, job, now)
        if worker.draining and not worker.load:
            self._gone(self.fleets[worker.group], worker, now)
        self._feed(now)
        self._admit(now)

    def _send(self, worker: PrefillWorker, job: Job, now: float) -> None:
        """The KV streams while it is computed; the link takes one request after another."""
        seconds = self.model.kv_bytes(job.prompt) / self.settings.link_bytes_per_second
        worker.link_free = max(now, max(worker.link_free, job.started) + seconds)
        if worker.link_free <= now:
            self._handed_over(job, now)
        else:
            self._at(worker.link_free, self._handed_over, job)

    # Decode

    def _handed_over(self, job: Job, now: float) -> None:
        self.handed.append(job)
        self._admit(now)

    def _admit(self, now: float) -> None:
        """Let handed-over sequences join, each where a step will be shortest, in the order they came."""
        while self.handed:
            job = self.handed[0]
            best: DecodeWorker | None = None
            shortest = math.inf
            for worker in self.decoders:
                step = worker.step_with(job.context)
                if step < shortest and worker.fits(job):
                    best, shortest = worker, step
            if best is None:
                return
            self.handed.popleft()
            best.advance(now)
            self.number += 1
            best.join(job, self.number)
            self._watch(best)

    def _watch(self, worker: DecodeWorker) -> None:
        end = worker.next_end()
        if math.isfinite(end):
            self._at(end, self._decoded, worker, worker.version)

    def _decoded(self, worker: DecodeWorker, version: int, now: float) -> None:
        if worker.version != version:
            return
        worker.advance(now)
        for job in worker.leave():
            self._finish(job, now)
        if worker.draining and not worker.load:
            self._gone(self.fleets[worker.group], worker, now)
        else:
            self._watch(worker)
        self._admit(now)

    def _finish(self, job: Job, now: float) -> None:
        self.done.itl_s[job.index] = (now - job.first) / job.left if job.left else 0.0
        self.open -= 1

    # Replicas

    def _look(self, now: float) -> None:
        observed = {
            name: GroupObservation(fleet.wanted, len(fleet.ready), len(fleet.ready))
            for name, fleet in self.fleets.items()
        }
        gauges = self._gauges(now)
        wanted = self.policy.decide(self.meter.window(gauges), gauges, observed, now)
        for name, fleet in self.fleets.items():
            self._scale(fleet, max(0, wanted.get(name, fleet.wanted)), now)
        self.done.timeline.append(
            (
                now,
                {name: fleet.wanted for name, fleet in self.fleets.items()},
                {name: len(fleet.ready) for name, fleet in self.fleets.items()},
            )
        )
        self._at(now + self.settings.interval_s, self._look)

    def _scale(self, fleet: _Fleet, wanted: int, now: float) -> None:
        while fleet.wanted < wanted:
            fleet.wanted += 1
            due = now + self.settings.startup_s
            fleet.starting.append((due, now))
            self._at(due, self._started, fleet, due, now)
        while fleet.wanted > wanted:
            fleet.wanted -= 1
            if fleet.starting:
                _, asked = fleet.starting.pop()
                self.done.spans.append(WorkerSpan(fleet.group.name, asked, now, 0.0))
            else:
                self._drain(fleet, now)

    def _started(self, fleet: _Fleet, due: float, asked: float, now: float) -> None:
        if (due, asked) not in fleet.starting:
            return
        fleet.starting.remove((due, asked))
        self._ready(fleet, asked, now)
        self._feed(now)
        self._admit(now)

    def _ready(self, fleet: _Fleet, asked: float, now: float) -> None:
        self.workers += 1
        if fleet.decodes:
            worker = DecodeWorker(self.workers, fleet.group.name, fleet.cost, asked, chunk_s=self.chunk_s)
            worker.time = now
            fleet.ready.append(worker)
        else:
            fleet.ready.append(PrefillWorker(self.workers, fleet.group.name, asked))
        self._changed()

    def _changed(self) -> None:
        """Keep `decoders` true after a worker became ready, or ceased to be."""
        self.decoders = [
            w for fleet in self.fleets.values() for w in fleet.ready if isinstance(w, DecodeWorker)
        ]

    def _drain(self, fleet: _Fleet, now: float) -> None:
        """Let the emptiest worker finish what it has, and go."""
        worker = min(fleet.ready, key=lambda w: (w.load, -w.number))
        fleet.ready.remove(worker)
        self._changed()
        worker.draining = True
        fleet.draining.append(worker)
        if not worker.load:
            self._gone(fleet, worker, now)

    def _gone(self, fleet: _Fleet, worker: PrefillWorker | DecodeWorker, now: float) -> None:
        fleet.draining.remove(worker)
        self._bill(fleet, worker, now)

    def _bill(self, fleet: _Fleet, worker: PrefillWorker | DecodeWorker, now: float) -> None:
        self.done.spans.append(WorkerSpan(fleet.group.name, worker.since, now, worker.work_s))

    def _fail(self, fleet: _Fleet, now: float) -> None:
        """Lose a worker: its requests begin again at the head of the queue; a replacement starts."""
        if not fleet.ready:
            return
        worker = fleet.ready.pop(0)
        self._changed()
        self._bill(fleet, worker, now)
        lost: list[Job] = []
        if isinstance(worker, DecodeWorker):
            worker.advance(now)
            lost = [job for _, _, job in sorted(worker.ends, key=lambda end: end[1])]
            worker.ends, worker.version = [], worker.version + 1
        if worker.job is not None:
            lost.append(worker.job)
            worker.job = None
        worker.draining = True
        for job in lost:
            self.router.put(job)
        fleet.wanted -= 1
        self._scale(fleet, fleet.wanted + 1, now)
        self._feed(now)

    # Measuring

    def _gauges(self, now: float) -> Gauges:
        workers = [w for fleet in self.fleets.values() for w in (*fleet.ready, *fleet.draining)]
        names = {fleet.group.name for fleet in self.dedicated}
        prefillers = [w for w in workers if w.group in names]
        decoders = [w for w in workers if isinstance(w, DecodeWorker)]
        work = self.work - sum(max(0.0, w.busy_until - now) for w in prefillers if w.job is not None)
        span = max(1e-9, (now - self.last_look) * max(1, len(prefillers)))
        use = max(0.0, work - self.work_at_look) / span
        self.last_look, self.work_at_look = now, work
        memory = sum(w.cost.memory_bytes for w in decoders)
        usage = 1.0 - sum(w.free_bytes for w in decoders) / memory if memory else 0.0
        return Gauges(
            time=now,
            prefill_waiting=self.router.waiting,
            prefill_running=sum(w.job is not None for w in workers),
            decode_waiting=len(self.handed),
            decode_running=sum(len(w.ends) for w in decoders),
            prefill_use=min(1.0, use),
            kv_usage=min(1.0, max(0.0, usage)),
        )

    def _account(self, now: float) -> None:
        self.done.end = now
        for fleet in self.fleets.values():
            for worker in (*fleet.ready, *fleet.draining):
                if isinstance(worker, DecodeWorker):
                    worker.advance(now)
                self._bill(fleet, worker, now)
            for _, asked in fleet.starting:
                self.done.spans.append(WorkerSpan(fleet.group.name, asked, now, 0.0))
