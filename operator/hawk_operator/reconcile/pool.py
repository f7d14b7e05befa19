"""One reconcile of one pool, from beginning to end.

Level-triggered: everything is read anew, the plan is computed from what was read, and what was read is what
is reported. A reconcile after a crash, a missed event or a half-finished step gives the same plan.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hawk_api import checks
from hawk_api.reasons import Reason
from hawk_kube.errors import NotFoundError
from hawk_kube.kinds import HAWK_POOL
from hawk_operator.kube.events import Happening
from hawk_operator.reconcile import plan as planning
from hawk_operator.reconcile import verdicts
from hawk_operator.reconcile.act import ActionResult
from hawk_operator.reconcile.case import Case
from hawk_operator.reconcile.model import config_json
from hawk_operator.reconcile.report import Reporter
from hawk_operator.runtime.workqueue import WorkKey, next_tick
from hawk_operator.workloads.drain import PodWork
from hawk_planner.sizing import GroupObservation, History
from hawk_planner.sizing.api import decide_replicas

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_api.v1alpha1 import HawkPool
    from hawk_kube.client import Object
    from hawk_operator.reconcile.context import ReconcileContext
    from hawk_operator.reconcile.observe import ObservedGroup
    from hawk_operator.reconcile.plan import Plan
    from hawk_planner.sizing import Decision
    from hawk_planner.traffic import Window

_log = logging.getLogger(__name__)

_UNREADABLE_SECONDS = 60.0


class PoolReconciler:
    """Reconciles pools; one instance serves all workers."""

    def __init__(self, context: ReconcileContext, wall: Callable[[], float] = time.time) -> None:
        self._context = context
        self._wall = wall
        self._reporter = Reporter(context)

    def reconcile(self, key: WorkKey) -> None:
        """Bring one pool nearer to what was decided. Raises ApiError to be retried."""
        if not self._reconcile(key, live_read=False):
            self._reconcile(key, live_read=True)

    def _reconcile(self, key: WorkKey, *, live_read: bool) -> bool:
        """Reconcile once. False, and nothing is done, if the cache says that something has to be written:
        that is decided by live reads."""
        try:
            entry = self._context.cache.pool(key.namespace, key.name, live_read=live_read)
        except NotFoundError:
            self.forget(key)
            return True
        if entry.terminating:
            self.forget(key)  # children go by their owner references; nothing here holds the pool back
            return True
        try:
            pool = entry.pool
        except ValidationError as error:
            self._reporter.unreadable(entry.body, Reason.INVALID_SPEC, _first(error), self._wall())
            self._context.queue.add(key, _UNREADABLE_SECONDS)
            return True
        case = self._observe(key, pool, entry.body, live_read=live_read)
        window = self._traffic(case)
        decision = self._decide(case, window)
        plan = self._plan(case, decision, window)
        outcome = ActionResult() if plan is not None else None
        if plan is not None and self._context.actor.needed(case, plan):
            if not live_read:
                return False
            outcome = self._act(case, decision, plan)
        if plan is not None and outcome is not None:
            self._check_who_went(case, plan, outcome)
        facts = self._reporter.facts(case, window, decision, plan, outcome)
        self._reporter.report(case, facts, decision)
        self._schedule(case, plan, outcome)
        return True

    def forget(self, key: WorkKey) -> None:
        """The pool is deleted or terminating."""
        context = self._context
        context.queue.forget(key)
        context.memories.forget(key)
        context.shared.forget(key)
        context.metrics.forget(key.namespace, key.name)
        context.enqueue_wiring()

    def report_failure(self, key: WorkKey, message: str) -> None:
        """Say in the pool's conditions that the operator itself failed with it. Raises ApiError."""
        try:
            body = self._context.api.get(HAWK_POOL, key.name, key.namespace)
        except NotFoundError:
            return
        self._reporter.unreadable(body, Reason.RECONCILE_FAILED, message, self._wall())

    def _observe(self, key: WorkKey, pool: HawkPool, body: Object, *, live_read: bool) -> Case:
        context = self._context
        known = context.cache.known_classes()
        text, lacking = config_json(context.cache, pool, live_read=live_read)
        judged = checks.SpecContext(known, text)
        return Case(
            key=key,
            pool=pool,
            body=body,
            memory=context.memories.of(key, str(pool.metadata.uid)),
            now=self._wall(),
            classes=known,
            geometry=judged.geometry(pool.spec),
            violations=(*lacking, *checks.errors_only(checks.check_spec(pool.spec, known, text))),
            seen=context.observer.observe(pool, body, live_read=live_read),
        )

    def _traffic(self, case: Case) -> Window | None:
        """The window of this interval: read once in it, whatever else enqueues the pool."""
        memory, interval = case.memory, case.pool.spec.scaling.interval
        if memory.window is None or case.now - memory.window_read_at >= 0.9 * interval:
            groups = [group.pods for group in case.seen.groups]
            memory.window = self._context.traffic.read_window(case.pool, groups, case.now)
            memory.window_read_at = case.now
        return memory.window

    def _decide(self, case: Case, window: Window | None) -> Decision | None:
        """A new decision for a new window, spec or annotation; otherwise the one that was made for them."""
        memory, pool = case.memory, case.pool
        if case.violations:
            memory.decision = None
            return None
        made_for = (
            memory.window_read_at,
            pool.metadata.generation,
            tuple(sorted((pool.metadata.annotations or {}).items())),
        )
        if memory.decision is not None and memory.decided_for == made_for:
            return memory.decision
        observed = {group.spec.name: _observation(group) for group in case.seen.groups}
        if memory.history is None:
            present = {name: group.replicas for name, group in observed.items()}
            memory.history = History.restore(pool.status.decisions, present, case.now)
        decision = decide_replicas(
            window, pool, case.classes, observed, memory.history, case.now, geometry=case.geometry
        )
        memory.history = memory.history.add(decision)
        memory.decision, memory.decided_for = decision, made_for
        self._context.metrics.decisions.labels(case.key.namespace, case.key.name, decision.reason).inc()
        return decision

    def _plan(self, case: Case, decision: Decision | None, window: Window | None) -> Plan | None:
        """The plan for now; None where nothing may be done."""
        pool, groups = case.pool, case.seen.groups
        if case.violations or verdicts.is_paused(pool):
            return None
        decided = decision.replicas if decision is not None and decision.act else None
        goal = planning.target_replicas(groups, decided, may_grow=not self._context.shared.schema.limits)
        work = {group.spec.name: _work(case, group, window) for group in groups}
        return planning.make_plan(pool, groups, goal, case.classes, work, now=case.now)

    def _act(self, case: Case, decision: Decision | None, plan: Plan) -> ActionResult:
        actor = self._context.actor
        outcome = actor.carry_out(case, plan)
        for name in actor.remove(case.seen.orphans):
            self._say(case, f"deleted Deployment {name}: its group left the spec")
        why = decision.message if decision is not None else "start"
        for name, (before, after) in outcome.scaled.items():
            self._say(case, f"group {name}: {before} to {after} replicas; {why}")
        return outcome

    def _check_who_went(self, case: Case, plan: Plan, outcome: ActionResult) -> None:
        """Note who is to go when replicas were lowered; later see whether they went or others."""
        leaving = case.memory.leaving
        for group in case.seen.groups:
            name, pods = group.spec.name, group.pods.pods
            verdict = leaving[name].verdict(pods) if name in leaving else None
            if verdict is not None:
                del leaving[name]
            if verdict:
                happening = Happening(Reason.OTHER_WORKER_WENT, f"group {name}: {verdict}", warning=True)
                self._reporter.event(case.body, happening)
            before, after = outcome.scaled.get(name, (0, 0))
            if after < before and name in plan.drains:
                leaving[name] = plan.drains[name].choice(pods, before - after)

    def _say(self, case: Case, message: str) -> None:
        """An Event for a change of ours; the time makes each one its own."""
        key = f"{message.partition(';')[0]}@{case.now:.0f}"
        self._reporter.event(case.body, Happening(Reason.SCALED, message, key=key))

    def _schedule(self, case: Case, plan: Plan | None, outcome: ActionResult | None) -> None:
        """The next tick of this pool's own grid, or sooner while a step is unfinished."""
        queue, shared = self._context.queue, self._context.shared
        if shared.note_draining(case.key, _emptied(plan)):
            self._context.enqueue_wiring()
        tick = next_tick(str(case.pool.metadata.uid), case.pool.spec.scaling.interval, case.now)
        queue.add_at(case.key, tick)
        if shared.note_nodes(case.key, frozenset().union(*case.seen.nodes.values())):
            self._context.enqueue_wiring()
        if outcome is not None and outcome.outstanding:
            queue.failed(case.key, outcome.delay)
            return
        queue.succeeded(case.key)
        for drain in plan.drains.values() if plan else ():
            for waiting in drain.waiting:
                queue.add_at(case.key, waiting.until)


def _emptied(plan: Plan | None) -> frozenset[tuple[str, str]]:
    """(node, group) of the memory that is being emptied."""
    drains = plan.drains if plan is not None else {}
    return frozenset(
        (node, name) for name, drain in drains.items() for one in drain.waiting for node in one.nodes if node
    )


def _work(case: Case, group: ObservedGroup, window: Window | None) -> PodWork:
    """The known work of a group's pods."""
    requests: dict[str, float] = {}
    for side in (window.prefill, window.decode) if window is not None else ():
        for pod, gauges in side.by_pod.items():
            busy = gauges.get("running", 0.0) + gauges.get("waiting", 0.0)
            requests[pod] = max(requests.get(pod, 0.0), busy)
    ours = (case.owner, group.spec.name)
    memory: dict[tuple[str, str], bool | None] = {}
    for agent in case.agents.values():
        if not agent.live:
            continue
        for pool, name, worker in agent.regions:
            if (pool, name) == ours:
                memory.setdefault((agent.name, worker), None)
        for pool, name, worker, used in agent.busy:
            if (pool, name) == ours:
                memory[agent.name, worker] = used or bool(memory.get((agent.name, worker)))
    return PodWork(requests, case.memory.window_read_at, memory, case.live)


def _observation(group: ObservedGroup) -> GroupObservation:
    return GroupObservation(
        replicas=group.pods.requested or 0,
        ready=group.pods.ready,
        capacity=group.pods.capacity,
        pending=len(group.pods.unschedulable),
    )


def _first(error: ValidationError) -> str:
    """The first thing that is wrong, with its path."""
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
