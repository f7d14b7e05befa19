"""Saying what was found: facts for the conditions, the status where it differs, events and metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hawk_api.conditions import ConditionType, make_condition, set_condition
from hawk_api.reasons import Reason
from hawk_api.v1alpha1 import HawkPoolStatus
from hawk_kube.errors import NotFoundError
from hawk_kube.kinds import HAWK_POOL
from hawk_operator.kube.events import Happening, condition_transitions
from hawk_operator.reconcile import verdicts, worth
from hawk_operator.status import builder as status
from hawk_operator.status.facts import Facts, GroupFacts
from hawk_operator.status.layouts import judge_layouts
from hawk_operator.wiring.links import judge_links
from hawk_operator.wiring.place import sides_of

if TYPE_CHECKING:
    from hawk_kube.client import Object
    from hawk_operator.reconcile.act import ActionResult
    from hawk_operator.reconcile.case import Case
    from hawk_operator.reconcile.context import ReconcileContext
    from hawk_operator.reconcile.observe import ObservedGroup
    from hawk_operator.reconcile.plan import Plan
    from hawk_planner.sizing import Decision
    from hawk_planner.traffic import Window


class Reporter:
    """Writes statuses and events; safe for several threads."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    def facts(
        self,
        case: Case,
        window: Window | None,
        decision: Decision | None,
        plan: Plan | None,
        outcome: ActionResult | None,
    ) -> Facts:
        """Everything that the conditions are judged by."""
        context, pool = self._context, case.pool
        drains = tuple(plan.drains.values()) if plan else ()
        records = status.recent_decisions(pool.status.decisions, decision)
        said = verdicts.current_message(records[0].message if records else "", decision)
        sides = sides_of(pool.spec, case.owner, case.seen.nodes, case.agents.values())
        lacks = verdicts.schema_verdict(context.shared.schema.limits)
        return Facts(
            pool=pool,
            violations=case.violations,
            layouts=judge_layouts(pool.spec, case.geometry, case.classes, case.violations),
            groups=tuple(_group_facts(group, decision, outcome) for group in case.seen.groups),
            agents=case.agents,
            agents_known=context.cache.agents_known(),
            agents_refused=context.shared.agents_refused,
            links=judge_links(sides, case.agents, context.shared.wiring),
            window=window,
            scaling=lacks or verdicts.scaling_verdict(pool, decision, said, plan, outcome),
            payoff=worth.judge_split(case, window),
            draining=tuple(waiting for drain in drains for waiting in drain.waiting),
            drain_timed_out=tuple(pod.name for drain in drains for pod in drain.timed_out),
        )

    def report(self, case: Case, facts: Facts, decision: Decision | None) -> None:
        """Write the status where it differs, events for what changed, and the metrics."""
        before = case.pool.status
        made = status.build_status(facts, decision, before, datetime.fromtimestamp(case.now, UTC))
        self.write(case.body, made)
        known = {condition.type: condition for condition in before.conditions}
        for happening in condition_transitions(
            known, {condition.type: condition for condition in made.conditions}
        ):
            self.event(case.body, happening)
        name = case.key.namespace, case.key.name
        self._context.metrics.show_conditions(*name, ((c.type, c.status) for c in made.conditions))
        self._context.metrics.show_replicas(*name, map(_counts, facts.groups))

    def unreadable(self, body: Object, reason: Reason, message: str, now: float) -> None:
        """Conditions when nothing else can be judged: the known ones stay, Ready says why."""
        before = HawkPoolStatus.model_validate(body.get("status") or {})
        generation = body["metadata"].get("generation")
        ready = make_condition(ConditionType.READY, False, reason, message, generation)
        conditions = set_condition(before.conditions, ready, datetime.fromtimestamp(now, UTC))
        self.write(
            body, before.model_copy(update={"conditions": conditions, "observed_generation": generation})
        )
        self.event(body, Happening(reason, message, warning=True))

    def write(self, body: Object, made: HawkPoolStatus) -> None:
        """Apply a status where it differs from the present one. A pool that is gone meanwhile is no error."""
        wanted = self._fitting(made)
        present = body.get("status")
        if present and wanted == self._fitting(HawkPoolStatus.model_validate(present)):
            return
        metadata = {name: body["metadata"][name] for name in ("name", "namespace", "uid")}
        try:
            written = self._context.api.apply(
                HAWK_POOL, {"metadata": metadata, "status": wanted}, subresource="status"
            )
        except NotFoundError:
            return
        self._context.cache.put_pool(written)
        self._context.metrics.writes.labels("hawkpools", "status").inc()

    def _fitting(self, status: HawkPoolStatus) -> Object:
        """A status as far as the served CRD has its fields."""
        return self._context.shared.schema.fit(HAWK_POOL.kind, "status", status.to_dict())

    def event(self, body: Object, happening: Happening) -> None:
        """Say something about a pool once."""
        self._context.recorder.record(body["metadata"], happening)


def _group_facts(group: ObservedGroup, decision: Decision | None, outcome: ActionResult | None) -> GroupFacts:
    name = group.spec.name
    decided = decision.replicas.get(name) if decision is not None else None
    trouble = group.trouble or (outcome.troubles.get(name) if outcome is not None else None)
    if trouble is None and group.refused:
        trouble = (Reason.CHILD_REFUSED, group.refused)
    return GroupFacts(
        name=name,
        role=group.spec.role.value,
        least=group.spec.replicas.min,
        desired=decided if decided is not None else (group.pods.requested or 0),
        pods=group.pods,
        trouble=trouble,
        conflict=group.conflict,
    )


def _counts(group: GroupFacts) -> tuple[str, str, dict[str, int]]:
    return (
        group.name,
        group.role,
        {
            "desired": group.desired,
            "requested": group.pods.requested or 0,
            "ready": group.pods.ready,
            "capacity": group.pods.capacity,
        },
    )
