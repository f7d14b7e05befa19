"""Workloads of others that a group scales through /scale, and who else scales the same. Mostly pure."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hawk_kube.errors import NotFoundError
from hawk_kube.kinds import ResourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_kube.client import Client


@dataclass(frozen=True)
class Target:
    """The object that a scaler points at: group (without version), kind, namespace and name."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def target_of(reference: Mapping[str, Any], namespace: str, default_kind: str = "Deployment") -> Target:
    """The target of a reference in the form that HawkPool, HPA and ScaledObject share.

    Versions don't matter: apps/v1 and apps/v1beta2 are one object.
    """
    version = str(
        reference.get("apiVersion") or ("apps/v1" if reference.get("kind") in {None, "Deployment"} else "")
    )
    group = version.rpartition("/")[0]
    return Target(
        group, str(reference.get("kind") or default_kind), namespace, str(reference.get("name", ""))
    )


def pool_targets(pool: Mapping[str, Any]) -> list[Target]:
    """The scale targets of a HawkPool in its plain form."""
    namespace = pool["metadata"]["namespace"]
    groups = (pool.get("spec") or {}).get("groups") or ()
    return [target_of(g["scaleTargetRef"], namespace) for g in groups if g.get("scaleTargetRef")]


def find_conflict(
    target: Target,
    owner: Mapping[str, Any] | None,
    pools: Iterable[Mapping[str, Any]],
    scalers: Iterable[Mapping[str, Any]],
) -> str:
    """Who else scales `target`, in words; "" when nobody does.

    `owner` is the asking pool, None where pools don't matter. Of several pools with one target the oldest
    has it, the others give way.
    """
    for scaler in scalers:
        metadata = scaler["metadata"]
        if metadata.get("namespace") != target.namespace or metadata.get("deletionTimestamp"):
            continue
        reference = (scaler.get("spec") or {}).get("scaleTargetRef") or {}
        if target_of(reference, target.namespace) == target:
            return f"{scaler.get('kind') or 'an autoscaler'} {metadata['name']} scales {target}"
    if owner is None:
        return ""
    mine = _seniority(owner)
    for pool in pools:
        if pool["metadata"].get("uid") == owner["metadata"].get("uid"):
            continue
        if target in pool_targets(pool) and _seniority(pool) < mine:
            return f"HawkPool {pool['metadata']['name']} is older and scales {target}"
    return ""


def _seniority(pool: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = pool["metadata"]
    return (
        str(metadata.get("creationTimestamp", "")),
        str(metadata.get("namespace")),
        str(metadata.get("name")),
    )


class Kinds:
    """From apiVersion and kind to a served resource with a scale subresource; remembered."""

    def __init__(self, api: Client) -> None:
        self._api = api
        self._known: dict[tuple[str, str], ResourceKind] = {}
        self._lock = threading.Lock()

    def find(self, api_version: str, kind: str) -> ResourceKind:
        """The resource, or NotFoundError that says what is missing; only found ones are remembered."""
        key = (api_version, kind)
        with self._lock:
            if key in self._known:
                return self._known[key]
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        document = self._api.document(path)
        served = {item["name"]: item for item in document.get("resources") or ()}
        plural = next(
            (name for name, item in served.items() if item.get("kind") == kind and "/" not in name), None
        )
        if plural is None:
            raise NotFoundError(f"{api_version} has no kind {kind}")
        if f"{plural}/scale" not in served:
            raise NotFoundError(f"{kind} of {api_version} has no scale subresource")
        group, _, version = api_version.rpartition("/")
        found = ResourceKind(group, version, kind, plural, bool(served[plural].get("namespaced")))
        with self._lock:
            self._known[key] = found
        return found
