"""The Deployment of a group: rendered from its template, and compared with what is there. Pure.

A child is applied only when it differs: either the hash of what we would apply is another than the one noted
on the child, or some field that we set was changed by others. Server-side apply owns exactly the fields
rendered here, so a field that leaves the template leaves the child.
"""

from __future__ import annotations

import copy
import hashlib
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from hawk_api import labels
from hawk_api.checks.template import uses_claims
from hawk_api.names import child_name, label_value
from hawk_api.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.v1alpha1 import AcceleratorClassSpec, GroupSpec, HawkPool

HASH: Final = labels.PREFIX + "applied"
MANAGED: Final = {labels.MANAGED_BY: labels.MANAGER}
_SOCKET_VOLUME: Final = "hawk-agent"
SOCKET: Final = "agent.sock"
"""The name that the chart gives it."""
_TOKEN_VOLUME: Final = "hawk-token"  # noqa: S105 - its name
TOKEN_DIRECTORY: Final = "/var/run/secrets/hawkpool.dev"  # noqa: S105 - its place
_TOKEN: Final = {
    "projected": {
        "sources": [
            {"serviceAccountToken": {"audience": "hawkpool.dev", "expirationSeconds": 3600, "path": "token"}}
        ]
    }
}
"""Bound to the pod, and good for agents only."""
_STOP_SECONDS: Final = 30
"""For an engine to stop in, after its leases have ended."""
_ZONE: Final = "topology.kubernetes.io/zone"

Object = dict[str, Any]


class TemplateError(ValueError):
    """A template contradicts the group it belongs to; `field` is its path in the spec."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


def name_of(pool: str, group: str) -> str:
    """The child's name: fixed for ever by the two names."""
    return child_name(pool, group)


def pool_labels(pool: str) -> dict[str, str]:
    """The labels by which everything that belongs to a pool is found."""
    return {labels.POOL: label_value(pool), **MANAGED}


def group_labels(pool: str, group: str) -> dict[str, str]:
    """The selector of a child: it never changes in a child's life."""
    return {**pool_labels(pool), labels.GROUP: group}


def render_child(
    pool: HawkPool,
    group: GroupSpec,
    device: AcceleratorClassSpec | None,
    replicas: int,
    socket_directory: str = "",
    *,
    token: bool = False,
    by_resource: bool = False,
) -> Object:
    """The Deployment to apply. `device` is the group's class, None on CPUs.

    The first container is told who it is (HAWK_POOL, HAWK_GROUP, HAWK_WORKER, HAWK_NODE), as the agent's
    client reads it. `socket_directory` is where nodes have the agent's socket; it gets that at the same path,
    read-only: who may write there could put another socket in its place; `by_resource` has the agent's device
    plugin mount it, else it is a volume of the node. With `token` it also gets a token by which the agent
    knows the pod.
    Raises TemplateError where the template asks for other devices than the group does.
    """
    if group.template is None:
        raise ValueError(f"group {group.name} has no template")
    selector = group_labels(pool.metadata.name, group.name)
    own_labels = {**selector, labels.ROLE: group.role.value}
    template = copy.deepcopy(group.template)
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **own_labels}
    spec = template["spec"]
    if device is not None and device.resource_name and not uses_claims(template):
        _ask_for_devices(spec, group, device.resource_name)
    _prefer_same_zone(spec, pool.metadata.name)
    _introduce(spec, _identity(pool, group.name, socket_directory))
    if socket_directory:
        _wait_before_stop(spec, pool.spec.drain.timeout)
        if by_resource:
            _ask_for(spec["containers"][0], labels.AGENT_RESOURCE, "1")
        else:
            _mount(spec, _SOCKET_VOLUME, socket_directory, _host(socket_directory))
    if token:
        _mount(spec, _TOKEN_VOLUME, TOKEN_DIRECTORY, _TOKEN)
    body: Object = {
        "metadata": {
            "name": name_of(pool.metadata.name, group.name),
            "namespace": pool.metadata.namespace,
            "labels": own_labels,
            "ownerReferences": [owner_of(pool)],
        },
        "spec": {
            "selector": {"matchLabels": selector},
            "revisionHistoryLimit": 2,
            "strategy": _strategy(group),
            "template": {"metadata": metadata, "spec": spec},
        },
    }
    body["metadata"]["annotations"] = {HASH: template_digest(body)}
    body["spec"]["replicas"] = replicas
    return body


def render_budget(child: Mapping[str, Any]) -> Object:
    """The disruption budget of a child's pods, which goes with the child.

    Evictions take one ready worker at a time, each when its leases have ended; one that isn't ready never
    holds a drain up.
    """
    metadata = child["metadata"]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": metadata["labels"],
            "ownerReferences": [owner],
        },
        "spec": {
            "maxUnavailable": 1,
            "selector": child["spec"]["selector"],
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def owner_of(pool: HawkPool) -> Object:
    """The reference by which children go when their pool goes.

    It doesn't block the pool's deletion: that would need a right on the pool's finalizers.
    """
    return {
        "apiVersion": pool.api_version,
        "kind": pool.kind,
        "name": pool.metadata.name,
        "uid": pool.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def template_digest(body: Object) -> str:
    """A short hash of a rendered child, without its replicas."""
    text = json.dumps(body, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _strategy(group: GroupSpec) -> Object:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "maxSurge": group.rollout.max_surge,
            "maxUnavailable": group.rollout.max_unavailable,
        },
    }


def _ask_for_devices(spec: Object, group: GroupSpec, resource: str) -> None:
    """Let the first container ask for the devices, unless the template already says where they go."""
    wanted = group.accelerators_per_replica
    path = f"groups[{group.name}].template.spec.containers"
    given: Decimal = Decimal(0)
    stated = False
    for index, container in enumerate(spec["containers"]):
        if not isinstance(container, dict):
            raise TemplateError(
                f"{path}[{index}]", "is no container; give an object with a name and an image"
            )
        limits = (container.get("resources") or {}).get("limits") or {}
        if resource in limits:
            stated = True
            given += _whole(limits[resource], f"{path}[{index}].resources.limits[{resource}]")
    if stated and given != wanted:
        raise TemplateError(
            f"{path}[*].resources.limits[{resource}]",
            f"asks for {given} devices, but acceleratorsPerReplica is {wanted}; make the two agree, "
            "or leave the resource out of the template",
        )
    if not stated:
        _ask_for(spec["containers"][0], resource, str(wanted))


def _ask_for(container: Object, resource: str, amount: str) -> None:
    resources = container.setdefault("resources", {})
    for part in ("limits", "requests"):
        resources[part] = {**(resources.get(part) or {}), resource: amount}


def _whole(value: object, field: str) -> Decimal:
    try:
        number = parse_quantity(str(value))
    except ValueError as error:
        raise TemplateError(field, f"{value!r} is no quantity; give a whole number") from error
    if number != int(number) or number < 0:
        raise TemplateError(field, f"{value!r} is no whole number of devices; give a whole number")
    return number


def _identity(pool: HawkPool, group: str, socket_directory: str) -> list[Object]:
    """The environment that tells a worker who it is and where its agent is."""

    def field(name: str, path: str) -> Object:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    socket = (
        [{"name": "HAWK_AGENT_SOCKET", "value": f"{socket_directory}/{SOCKET}"}] if socket_directory else []
    )
    return [
        {"name": "HAWK_POOL", "value": f"{pool.metadata.namespace}/{pool.metadata.name}"},
        {"name": "HAWK_GROUP", "value": group},
        field("HAWK_WORKER", "metadata.name"),
        field("HAWK_NODE", "spec.nodeName"),
        *socket,
    ]


def _introduce(spec: Object, environment: list[Object]) -> None:
    """Add to the first container's environment what the template doesn't set itself."""
    container = spec["containers"][0]
    given = container.get("env") or []
    named = {entry.get("name") for entry in given}
    # Before the template's own, whose values may refer to them.
    container["env"] = [*(entry for entry in environment if entry["name"] not in named), *given]


def _wait_before_stop(spec: Object, timeout: float) -> None:
    """Have the first container wait for its leases before it is stopped, however its pod comes to go.

    The template's own preStop, and its grace period, stay. An image without the agent's client fails the hook
    and is stopped at once, as it would be without.
    """
    container = spec["containers"][0]
    lifecycle = container.get("lifecycle") or {}
    if lifecycle.get("preStop"):
        return
    grace = spec.setdefault("terminationGracePeriodSeconds", round(timeout) + _STOP_SECONDS)
    seconds = min(round(timeout), max(grace - _STOP_SECONDS, grace * 4 // 5))
    if seconds > 0:
        command = ["python3", "-m", "hawk_agent.client.leave", str(seconds)]
        container["lifecycle"] = {**lifecycle, "preStop": {"exec": {"command": command}}}


def _mount(spec: Object, name: str, directory: str, source: Object) -> None:
    """Give the first container a volume to read, unless the template mounts something there itself."""
    container = spec["containers"][0]
    mounts = container.get("volumeMounts") or []
    if any(mount.get("mountPath", "").rstrip("/") == directory.rstrip("/") for mount in mounts):
        return
    mount = {"name": name, "mountPath": directory, "readOnly": True}
    container["volumeMounts"] = [*mounts, mount]
    spec["volumes"] = [*(spec.get("volumes") or []), {"name": name, **source}]


def _host(directory: str) -> Object:
    return {"hostPath": {"path": directory, "type": "DirectoryOrCreate"}}


def _prefer_same_zone(spec: Object, pool: str) -> None:
    """Keep a pool's workers in one zone where possible, unless the template has its own affinity."""
    if spec.get("affinity"):
        return
    spec["affinity"] = {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 50,
                    "podAffinityTerm": {
                        "labelSelector": {"matchLabels": {labels.POOL: label_value(pool)}},
                        "topologyKey": _ZONE,
                    },
                }
            ]
        }
    }


def child_differs(wanted: Object, live: Mapping[str, Any]) -> str:
    """The path of the first field that has to be applied, or "" when the child is as wanted."""
    noted = (live.get("metadata", {}).get("annotations") or {}).get(HASH)
    if noted != wanted["metadata"]["annotations"][HASH]:
        return f"metadata.annotations[{HASH}]"
    return missing_fields(wanted, live)


def missing_fields(wanted: object, live: object, path: str = "") -> str:
    """The path of the first value of `wanted` that `live` doesn't have; "" when all are there.

    `live` may have more: defaults, and what others own. Lists of named objects are matched by name, others
    item by item. Quantities are compared by value, since the API server writes 1000m as 1.
    """
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            return path or "."
        for key, value in wanted.items():
            if value is None or value in ({}, []):
                continue
            found = missing_fields(value, live.get(key), f"{path}.{key}" if path else str(key))
            if found:
                return found
        return ""
    if isinstance(wanted, list):
        return _missing_items(wanted, live, path)
    return "" if _same(wanted, live) else path


def _missing_items(wanted: list[Any], live: object, path: str) -> str:
    if not isinstance(live, list):
        return path
    if all(isinstance(item, dict) and "name" in item for item in wanted):
        named = {item.get("name"): item for item in live if isinstance(item, dict)}
        pairs = [(f"{path}[{item['name']}]", item, named.get(item["name"])) for item in wanted]
    elif len(wanted) == len(live):
        pairs = [(f"{path}[{index}]", *pair) for index, pair in enumerate(zip(wanted, live, strict=True))]
    else:
        return path
    return next((found for where, left, right in pairs if (found := missing_fields(left, right, where))), "")


def _same(wanted: object, live: object) -> bool:
    if wanted == live and isinstance(wanted, bool) == isinstance(live, bool):
        return True
    if wanted in ("", False, 0) and live is None:
        return True  # the API leaves empty values out
    if isinstance(wanted, bool) or isinstance(live, bool):
        return False
    if not isinstance(wanted, (str, int, float)) or not isinstance(live, (str, int, float)):
        return False
    try:
        return parse_quantity(str(wanted)) == parse_quantity(str(live))
    except ValueError:
        return False
