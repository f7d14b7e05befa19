"""A plan as a manifest: the pool as it should be declared for the way of serving that was chosen."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .candidate import Candidate, Feasibility, ServingMode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .candidate import PoolUse

__all__ = ["Recommendation", "recommend_spec"]

DECLARABLE = (ServingMode.COLOCATED, ServingMode.SPLIT)
"""Ways of serving that a pool's groups can declare."""


@dataclass(frozen=True)
class Recommendation:
    """The best way of serving that a pool can declare, and the manifest that declares it."""

    candidate: Candidate
    manifest: dict[str, Any]
    changes: tuple[str, ...]
    """The differences from the pool as it is; empty when there are none."""


def recommend_spec(pool: Mapping[str, Any], ranking: Sequence[Candidate]) -> Recommendation | None:
    """Return what to declare; None when no declarable way meets the objectives.

    Bounds are widened where the plan needs more replicas and never narrowed: traffic varies, a plan doesn't.
    """
    chosen = next(
        (one for one in ranking if one.kind in DECLARABLE and one.standing is Feasibility.MEETS), None
    )
    if chosen is None:
        return None
    groups: list[dict[str, Any]] = pool["spec"]["groups"]
    if chosen.kind is ServingMode.COLOCATED:
        made, changes = _one_group(groups, chosen.pools[0])
    else:
        made, changes = _two_groups(groups, chosen.pools)
    manifest = {
        "apiVersion": pool["apiVersion"],
        "kind": pool["kind"],
        "metadata": {
            key: value for key, value in pool["metadata"].items() if key in ("name", "namespace", "labels")
        },
        "spec": deepcopy(dict(pool["spec"])) | {"groups": made},
    }
    return Recommendation(chosen, manifest, tuple(changes))


def _sized(group: dict[str, Any], use: PoolUse, changes: list[str]) -> dict[str, Any]:
    made = deepcopy(group)
    name = group["name"]
    devices = group.get("acceleratorsPerReplica", 1)
    if devices != use.devices_per_replica:
        changes.append(f"{name}: acceleratorsPerReplica {devices} -> {use.devices_per_replica}")
        made["acceleratorsPerReplica"] = use.devices_per_replica
        made["parallelism"] = {**group.get("parallelism", {}), "tensor": use.devices_per_replica}
    replicas = dict(group.get("replicas", {}))
    most = replicas.get("max", max(1, replicas.get("min", 1)))
    if use.replicas > most:
        changes.append(f"{name}: replicas.max {most} -> {use.replicas}")
        made["replicas"] = {**replicas, "max": use.replicas}
    return made


def _two_groups(
    groups: list[dict[str, Any]], uses: Sequence[PoolUse]
) -> tuple[list[dict[str, Any]], list[str]]:
    changes: list[str] = []
    wanted = dict(zip(("Prefill", "Decode"), uses, strict=True))
    made = [
        _sized(group, wanted.pop(group["role"]), changes) if group["role"] in wanted else deepcopy(group)
        for group in groups
    ]
    return made, changes


def _one_group(groups: list[dict[str, Any]], use: PoolUse) -> tuple[list[dict[str, Any]], list[str]]:
    kept = next(group for group in groups if group.get("acceleratorClass") == use.device)
    changes = [f"{group['name']}: removed" for group in groups if group is not kept]
    if kept["role"] != "Both":
        changes.append(f"{kept['name']}: role {kept['role']} -> Both")
    return [_sized(kept, use, changes) | {"role": "Both"}], changes
