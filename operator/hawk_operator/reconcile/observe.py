"""The present state of one pool: its children, its pods, and what each group is like. Reads, never writes."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from hawk_api.reasons import Reason
from hawk_kube.errors import NotFoundError, RejectedError
from hawk_kube.kinds import POD, ResourceKind
from hawk_operator.reconcile.targets import Kinds, find_conflict, target_of
from hawk_operator.workloads import pods as pod_facts
from hawk_operator.workloads.children import name_of
from hawk_operator.workloads.pods import GroupPods

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.v1alpha1 import GroupSpec, HawkPool
    from hawk_kube.client import Client, Object
    from hawk_operator.cache.cluster_cache import ClusterCache
    from hawk_operator.wiring.peers import Agent

_log = logging.getLogger(__name__)


_POD_SECURITY: Final = "violates PodSecurity"
_POD_SECURITY_REMEDY: Final = (
    "; workers mount the agent's socket from their node (hostPath): label their namespace "
    "pod-security.kubernetes.io/enforce=privileged, or set the chart's agent.socketAccess to DevicePlugin"
)


@dataclass(frozen=True)
class ObservedGroup:
    """One group of the spec with its workload as it is."""

    spec: GroupSpec
    pods: GroupPods
    child: Mapping[str, Any] | None = None
    """The Deployment of a template; None when there is none yet."""
    target: ResourceKind | None = None
    """The kind of a scale target that was found."""
    trouble: tuple[Reason, str] | None = None
    conflict: str = ""
    refused: str = ""
    """Why its pods can't be created, such as a quota or a pod security level."""


@dataclass(frozen=True)
class Observation:
    """A pool at one moment."""

    groups: tuple[ObservedGroup, ...]
    orphans: tuple[Mapping[str, Any], ...] = ()
    """Children of groups that the spec no longer has."""
    nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Nodes of each group's pods."""
    agents: Mapping[str, Agent] = field(default_factory=dict)
    """Agents on these nodes, and those with memory of the pool."""


class Observer:
    """Reads a pool's surroundings: from the cluster cache, or live; and by two reads a scale target."""

    def __init__(self, api: Client, cache: ClusterCache) -> None:
        self._api = api
        self._cache = cache
        self._kinds = Kinds(api)

    def observe(self, pool: HawkPool, body: Object, *, live_read: bool) -> Observation:
        """The present state. Raises ApiError."""
        namespace, name = str(pool.metadata.namespace), pool.metadata.name
        children = {
            child["metadata"]["name"]: child
            for child in self._cache.children(namespace, name, live_read=live_read)
        }
        pods = self._cache.pods(namespace, name, live_read=live_read)
        groups = tuple(
            self._scaled(pool, body, spec)
            if spec.scale_target_ref is not None
            else self._templated(pool, spec, children.get(name_of(pool.metadata.name, spec.name)), pods)
            for spec in pool.spec.groups
        )
        nodes = {g.spec.name: frozenset(p.node for p in g.pods.active if p.node) for g in groups}
        agents = self._cache.agents_of(f"{namespace}/{name}", frozenset().union(*nodes.values()))
        live = frozenset(agent.name for agent in agents.values() if agent.live)
        groups = tuple(replace(group, pods=replace(group.pods, live_nodes=live)) for group in groups)
        wanted = {name_of(pool.metadata.name, group.name) for group in pool.spec.groups if group.template}
        orphans = tuple(
            child
            for name, child in children.items()
            if name not in wanted and owned_by(child, pool.metadata.uid)
        )
        return Observation(groups, orphans, nodes, agents)

    def _templated(
        self, pool: HawkPool, spec: GroupSpec, child: Object | None, pods: list[pod_facts.Pod]
    ) -> ObservedGroup:
        requested = None if child is None else int(child.get("spec", {}).get("replicas", 1))
        found = GroupPods(spec.name, spec.role.value, requested, pod_facts.group_of(pods, spec.name))
        trouble = None
        if child is not None and not owned_by(child, pool.metadata.uid):
            trouble = (
                Reason.CHILD_CONFLICT,
                f"Deployment {child['metadata']['name']} belongs to something else",
            )
        other = ""
        if child is not None:
            reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": child["metadata"]["name"]}
            target = target_of(reference, str(pool.metadata.namespace))
            other = find_conflict(target, None, (), self._cache.autoscalers(target.namespace))
        return ObservedGroup(
            spec, found, child=child, trouble=trouble, conflict=other, refused=refused_pods(child or {})
        )

    def _scaled(self, pool: HawkPool, body: Object, spec: GroupSpec) -> ObservedGroup:
        reference = spec.scale_target_ref
        assert reference is not None
        namespace = str(pool.metadata.namespace)
        empty = GroupPods(spec.name, spec.role.value, None)
        try:
            kind = self._kinds.find(reference.api_version, reference.kind)
            requested, selector = self._api.scale_of(kind, namespace, reference.name)
        except NotFoundError as error:
            return ObservedGroup(spec, empty, trouble=(Reason.SCALE_TARGET_MISSING, str(error)))
        except RejectedError as error:
            text = f"{error}; give the operator the verbs get and patch on {reference.kind}'s /scale"
            return ObservedGroup(spec, empty, trouble=(Reason.SCALE_TARGET_MISSING, text))
        pods = self._api.list(POD, namespace, selector) if selector else []
        found = GroupPods(
            spec.name,
            spec.role.value,
            requested,
            tuple(sorted(map(pod_facts.read_pod, pods), key=_by_name)),
        )
        target = target_of(reference.to_dict(), namespace)
        pools = [entry.body for entry in self._cache.pools_in(namespace)]
        other = find_conflict(target, body, pools, self._cache.autoscalers(namespace))
        return ObservedGroup(spec, found, target=kind, conflict=other)


def refused_pods(child: Mapping[str, Any]) -> str:
    """The API server's message when it refuses a Deployment's pods; "" when it doesn't."""
    for condition in (child.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            message = str(condition.get("message") or condition.get("reason"))
            return f"{message}{_POD_SECURITY_REMEDY}" if _POD_SECURITY in message else message
    return ""


def owned_by(child: Mapping[str, Any], uid: str | None) -> bool:
    """True if this very pool controls the child (not one that had its name before)."""
    owners = child["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("uid") == uid for owner in owners)


def _by_name(pod: pod_facts.Pod) -> str:
    return pod.name
