"""A group's pods, read from their plain form. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hawk_api import labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
DRAIN_SINCE: Final = labels.PREFIX + "drain-since"
_OVER: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Pod:
    """One worker's pod; times are seconds since the epoch."""

    name: str
    namespace: str
    uid: str
    node: str
    ready: bool
    over: bool
    """Succeeded or Failed: it holds no device any more."""
    terminating: bool
    created: float
    unschedulable: str
    """The scheduler's message, "" when it found a node."""
    drain_since: float | None
    deletion_cost: str
    problem: str
    """Why a container waits (CrashLoopBackOff, ImagePullBackOff), "" otherwise."""
    pool: str = ""
    """The label of the pool that it belongs to; "" on pods of scale targets."""
    group: str = ""
    """The label of its group, likewise."""

    @property
    def holds(self) -> bool:
        """True if it counts against the budget: everything that is not over, terminating or not."""
        return not self.over

    @property
    def active(self) -> bool:
        """True if its controller counts it as a replica."""
        return not self.over and not self.terminating


def seconds(text: object) -> float:
    """Seconds since the epoch of an RFC 3339 time; 0 where there is none."""
    if not isinstance(text, str) or not text:
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def timestamp(now: float) -> str:
    """RFC 3339 in UTC with whole seconds."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_pod(body: Mapping[str, Any]) -> Pod:
    """A pod from the API's form; absent parts are read as absent, never as errors."""
    metadata, status = body.get("metadata", {}), body.get("status", {})
    conditions = {entry.get("type"): entry for entry in status.get("conditions") or ()}
    annotations = metadata.get("annotations") or {}
    scheduled = conditions.get("PodScheduled", {})
    drain = annotations.get(DRAIN_SINCE)
    own_labels = metadata.get("labels") or {}
    return Pod(
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace", "")),
        uid=str(metadata.get("uid", "")),
        node=str(body.get("spec", {}).get("nodeName") or ""),
        ready=conditions.get("Ready", {}).get("status") == "True" and not metadata.get("deletionTimestamp"),
        over=status.get("phase") in _OVER,
        terminating=bool(metadata.get("deletionTimestamp")),
        created=seconds(metadata.get("creationTimestamp")),
        unschedulable=(
            str(scheduled.get("message") or "the scheduler found no node")
            if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
            else ""
        ),
        drain_since=seconds(drain) or None,
        deletion_cost=str(annotations.get(DELETION_COST, "")),
        problem=_problem(status),
        pool=own_labels.get(labels.POOL, ""),
        group=own_labels.get(labels.GROUP, ""),
    )


def _problem(status: Mapping[str, Any]) -> str:
    for entry in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (entry.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in {None, "", "ContainerCreating", "PodInitializing"}:
            return f"container {entry.get('name')}: {waiting['reason']}"
    return ""


@dataclass(frozen=True)
class GroupPods:
    """The pods of one group, counted."""

    name: str
    role: str
    requested: int | None
    """Replicas asked of the API; None when there is no workload yet."""
    pods: tuple[Pod, ...] = ()
    live_nodes: frozenset[str] = frozenset()

    @property
    def active(self) -> tuple[Pod, ...]:
        """Pods that count as replicas."""
        return tuple(pod for pod in self.pods if pod.active)

    @property
    def held(self) -> int:
        """Pods that may hold devices: terminating ones too."""
        return sum(pod.holds for pod in self.pods)

    @property
    def ready(self) -> int:
        """Ready pods."""
        return sum(pod.ready and pod.active for pod in self.pods)

    @property
    def capacity(self) -> int:
        """Ready pods on nodes with a live agent: only these can take transfers."""
        return sum(pod.ready and pod.active and pod.node in self.live_nodes for pod in self.pods)

    @property
    def unschedulable(self) -> tuple[Pod, ...]:
        """Pods that no node can take."""
        return tuple(pod for pod in self.active if pod.unschedulable)


def group_of(pods: Iterable[Pod], group: str) -> tuple[Pod, ...]:
    """The pods that carry the group's label, by name."""
    return tuple(sorted((pod for pod in pods if pod.group == group), key=lambda pod: pod.name))
