"""Carrying a plan out: each write by itself, so that one that fails holds up no other."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hawk_api import labels
from hawk_api.reasons import Reason
from hawk_kube.errors import ApiError, NotFoundError, RejectedError, UnavailableError
from hawk_kube.kinds import DEPLOYMENT, DISRUPTION_BUDGET, POD
from hawk_operator.workloads import children
from hawk_operator.workloads.children import TemplateError
from hawk_operator.workloads.drain import COST
from hawk_operator.workloads.pods import DELETION_COST, DRAIN_SINCE, Pod, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_kube.client import Client, Object
    from hawk_operator.cache.cluster_cache import ClusterCache
    from hawk_operator.reconcile.case import Case
    from hawk_operator.reconcile.memory import PoolMemory
    from hawk_operator.reconcile.observe import ObservedGroup
    from hawk_operator.reconcile.plan import Plan
    from hawk_operator.runtime.metrics import Metrics
    from hawk_operator.runtime.settings import OperatorSettings
    from hawk_operator.workloads.drain import Drain

_log = logging.getLogger(__name__)


@dataclass
class ActionResult:
    """The result of carrying out a plan."""

    scaled: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Replicas asked for before and after, by group."""
    troubles: dict[str, tuple[Reason, str]] = field(default_factory=dict)
    """Refusals that will last until the spec or the cluster changes, by group."""
    outstanding: dict[str, str] = field(default_factory=dict)
    """Writes to try again, by group."""
    delay: float = 0.0
    """The longest wait that the API server asked for, seconds."""


class Actor:
    """Writes children, scales and drain labels."""

    def __init__(
        self, api: Client, cache: ClusterCache, metrics: Metrics, settings: OperatorSettings
    ) -> None:
        self._api = api
        self._cache = cache
        self._metrics = metrics
        self._settings = settings

    def needed(self, case: Case, plan: Plan) -> bool:
        """True if carrying the plan out would write anything, or would fail."""
        for group in case.seen.groups:
            if not _ours(group):
                continue
            name = group.spec.name
            drain, replicas = plan.drains.get(name), plan.requests[name]
            if drain is not None and (drain.mark or drain.unmark):
                return True
            if group.spec.template is None:
                if replicas != group.pods.requested:
                    return True
                continue
            try:
                wanted = self._wanted(case, group, replicas)
            except TemplateError:
                return True
            if _difference(wanted, group.child, case.memory) or _unbudgeted(group.child, case.memory):
                return True
        return any(not child["metadata"].get("deletionTimestamp") for child in case.seen.orphans)

    def carry_out(self, case: Case, plan: Plan) -> ActionResult:
        """Do the step. Shrinking comes first; what grows was given only room that is free without it."""
        outcome = ActionResult()
        shrinking_first = sorted(
            case.seen.groups, key=lambda g: plan.requests[g.spec.name] > (g.pods.requested or 0)
        )
        for group in shrinking_first:
            name = group.spec.name
            if not _ours(group):
                continue
            try:
                self._mark(plan.drains.get(name), case.now)
                self._group(case, group, plan.requests[name], outcome)
            except TemplateError as error:
                outcome.troubles[name] = (Reason.CHILD_REFUSED, str(error))
            except RejectedError as error:
                outcome.troubles[name] = (Reason.CHILD_REFUSED, _named(error))
            except NotFoundError as error:
                outcome.outstanding[name] = str(error)
            except UnavailableError as error:
                outcome.outstanding[name] = str(error)
                outcome.delay = max(outcome.delay, error.delay)
            except ApiError as error:
                outcome.outstanding[name] = str(error)
        return outcome

    def remove(self, orphans: Iterable[Mapping[str, Any]]) -> list[str]:
        """Delete the children of groups that left the spec; gives their names."""
        gone = []
        for child in orphans:
            metadata = child["metadata"]
            if not metadata.get("deletionTimestamp"):
                self._api.delete(DEPLOYMENT, metadata["name"], metadata["namespace"])
                self._metrics.writes.labels("deployments", "delete").inc()
                gone.append(metadata["name"])
        return gone

    def _group(self, case: Case, group: ObservedGroup, replicas: int, outcome: ActionResult) -> None:
        before = group.pods.requested
        if group.spec.template is None:
            if replicas != before:
                self._scale(case, group, replicas)
        else:
            made = self._apply(self._wanted(case, group, replicas), group.child, case.memory)
            self._budget(made or group.child, case.memory)
            if made is None:
                return
        if before is None or (replicas != before and not group.conflict):
            outcome.scaled[group.spec.name] = (before or 0, replicas)

    def _wanted(self, case: Case, group: ObservedGroup, replicas: int) -> Object:
        """The child as it should be. Raises TemplateError."""
        device = case.classes.get(group.spec.accelerator_class or "")
        wanted = children.render_child(
            case.pool,
            group.spec,
            device,
            replicas,
            self._settings.agent_socket_directory,
            token=self._settings.engine_auth == "token",
            by_resource=self._settings.agent_access == "device-plugin",
        )
        if group.conflict:
            del wanted["spec"]["replicas"]  # another controller's: leave it its field
        return wanted

    def _apply(self, wanted: Object, live: Mapping[str, Any] | None, memory: PoolMemory) -> Object | None:
        """Apply a child that differs, tried out first where its template is new; None where it doesn't."""
        name = wanted["metadata"]["name"]
        difference = _difference(wanted, live, memory)
        if not difference:
            return None
        if live is None or difference.startswith("metadata.annotations"):
            self._api.apply(DEPLOYMENT, wanted, dry_run=True)
        _log.info("applying Deployment %s/%s: %s", wanted["metadata"]["namespace"], name, difference)
        made = self._api.apply(DEPLOYMENT, wanted)
        self._metrics.writes.labels("deployments", "apply").inc()
        if children.child_differs(wanted, made):
            memory.settled[name] = (wanted["metadata"]["annotations"][children.HASH], _generation(made))
        else:
            memory.settled.pop(name, None)
        self._cache.put_child(made)
        return made

    def _budget(self, child: Mapping[str, Any] | None, memory: PoolMemory) -> None:
        """See once in a child's and in our life that its disruption budget is there and as it should be."""
        if child is None or not _unbudgeted(child, memory):
            return
        budget = children.render_budget(child)
        try:
            if children.missing_fields(budget, self._live_budget(budget)):
                self._api.apply(DISRUPTION_BUDGET, budget)
                self._metrics.writes.labels("poddisruptionbudgets", "apply").inc()
        except RejectedError as error:  # rights of an older chart: workers are served without
            _log.warning("%s", error)
        memory.budgets[child["metadata"]["name"]] = child["metadata"]["uid"]

    def _live_budget(self, budget: Object) -> Object | None:
        metadata = budget["metadata"]
        try:
            return self._api.get(DISRUPTION_BUDGET, metadata["name"], metadata["namespace"])
        except NotFoundError:
            return None

    def _scale(self, case: Case, group: ObservedGroup, replicas: int) -> None:
        assert group.target is not None
        assert group.spec.scale_target_ref is not None
        self._api.scale(group.target, case.key.namespace, group.spec.scale_target_ref.name, replicas)
        self._metrics.writes.labels(group.target.plural, "scale").inc()

    def _mark(self, drain: Drain | None, now: float) -> None:
        """Mark the workers that go and unmark those that stay; a pod that is gone meanwhile is no error."""
        if drain is None:
            return
        for pod in drain.mark:
            since = pod.drain_since if pod.drain_since is not None else now
            self._patch(pod, {DRAIN_SINCE: timestamp(since), DELETION_COST: COST}, "true")
        for pod in drain.unmark:
            self._patch(pod, {DRAIN_SINCE: None, DELETION_COST: None}, None)

    def _patch(self, pod: Pod, annotations: Mapping[str, str | None], draining: str | None) -> None:
        body = {
            "metadata": {
                "uid": pod.uid,
                "annotations": dict(annotations),
                "labels": {labels.DRAINING: draining},
            }
        }
        try:
            self._cache.put_pod(self._api.patch(POD, pod.name, pod.namespace, body))
        except NotFoundError:
            return
        self._metrics.writes.labels("pods", "patch").inc()


def _ours(group: ObservedGroup) -> bool:
    """True if anything of the group's workload may be written."""
    return not (group.trouble or (group.conflict and group.spec.template is None))


def _difference(wanted: Object, live: Mapping[str, Any] | None, memory: PoolMemory) -> str:
    """The first field that has to be applied; "" when none has, or when this very apply was made before and
    something else sets the field again."""
    name = str(wanted["metadata"]["name"])
    if live is None:
        return name
    template_hash = wanted["metadata"]["annotations"][children.HASH]
    return (
        ""
        if memory.settled.get(name) == (template_hash, _generation(live))
        else children.child_differs(wanted, live)
    )


def _unbudgeted(child: Mapping[str, Any] | None, memory: PoolMemory) -> bool:
    """True if a child's disruption budget wasn't applied yet."""
    return child is not None and memory.budgets.get(child["metadata"]["name"]) != child["metadata"]["uid"]


def _generation(child: Mapping[str, Any]) -> int:
    return int(child["metadata"].get("generation") or 0)


def _named(error: RejectedError) -> str:
    """The server's words; its field paths are those of the child and so of the template."""
    fields = ", ".join(field.removeprefix("spec.") for field in error.fields)
    return f"{error}" if not fields or fields in str(error) else f"{fields}: {error}"
