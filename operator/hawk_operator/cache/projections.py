"""Projections: the part of each kind of object that is read, without fields that move by themselves. Pure."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from hawk_api import labels
from hawk_api.v1alpha1 import HawkPool
from hawk_operator.wiring.peers import Agent, agent_of
from hawk_operator.workloads import pods

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

Object = dict[str, Any]

POOL_LABEL: Final = labels.POOL
_KEPT: Final = (
    "name",
    "namespace",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
)
_REFUSED: Final = "ReplicaFailure"


class PoolEntry:
    """A HawkPool with its parsed form, made at the first question and once."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        metadata = {k: v for k, v in body["metadata"].items() if k != "managedFields"}
        self.body: Object = {**body, "metadata": metadata}

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.body["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def terminating(self) -> bool:
        """True if it is being deleted."""
        return bool(self.body["metadata"].get("deletionTimestamp"))

    @cached_property
    def pool(self) -> HawkPool:
        """The parsed form. Raises pydantic's ValidationError, at each question."""
        return HawkPool.model_validate(self.body)

    def __eq__(self, other: object) -> bool:
        """Equal where everything but the version is; a status counts, since reconciles compare with it."""
        return isinstance(other, PoolEntry) and _unversioned(self.body) == _unversioned(other.body)

    __hash__ = None  # type: ignore[assignment]


def _unversioned(body: Object) -> Object:
    return {**body, "metadata": {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}}


def project_object(body: Mapping[str, Any]) -> Object:
    """An object without what its writers' bookkeeping and its version are."""
    metadata = {key: body["metadata"][key] for key in _KEPT if key in body["metadata"]}
    return {**body, "metadata": metadata}


def project_child(body: Mapping[str, Any]) -> Object:
    """A Deployment: what was asked for, and whether its pods are refused; not how far it has got."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    refused = [
        {"type": _REFUSED, "status": entry.get("status"), "message": entry.get("message")}
        for entry in conditions
        if entry.get("type") == _REFUSED
    ]
    found = project_object(body)
    found["status"] = {"conditions": refused}
    return found


def index_by_pool(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Namespace and pool label."""
    metadata = body["metadata"]
    return [(str(metadata["namespace"]), str((metadata.get("labels") or {}).get(POOL_LABEL, "")))]


def project_pod(body: Mapping[str, Any]) -> pods.Pod:
    """A pod as a worker of a pool."""
    return pods.read_pod(body)


def project_agent(body: Mapping[str, Any]) -> Agent:
    """A HawkNode; in the indexer its agent counts as alive unless the HawkNode is terminating."""
    return agent_of(body, (body["metadata"]["name"],))


def index_by_owner(found: Agent) -> Iterable[Hashable]:
    """The pools whose memory it holds."""
    return {owner for owner, _, _ in found.regions}
