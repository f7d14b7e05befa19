"""Small makers of what the operator's tests look at."""

from __future__ import annotations

from typing import Any

from hawk_api.v1alpha1 import HawkPool
from hawk_operator.reconcile.observe import ObservedGroup
from hawk_operator.wiring.peers import Agent
from hawk_operator.workloads.pods import GroupPods, Pod

CONTAINERS = {"spec": {"containers": [{"name": "engine", "image": "example/engine:1"}]}}


def group_spec(name: str, role: str, least: int = 1, most: int = 8, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "role": role,
        "replicas": {"min": least, "max": most},
        **({"template": CONTAINERS} if "scaleTargetRef" not in more else {}),
        **more,
    }


def pool(*groups: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> HawkPool:
    return HawkPool.model_validate(
        {
            "apiVersion": "hawkpool.dev/v1alpha1",
            "kind": "HawkPool",
            "metadata": {
                "name": "llama",
                "namespace": "ns",
                "uid": "u-1",
                "generation": 3,
                **(metadata or {}),
            },
            "spec": {
                "model": {"preset": "llama-3.3-70b"},
                "groups": list(groups) or [group_spec("p", "Prefill"), group_spec("d", "Decode")],
                **spec,
            },
        }
    )


def pod(name: str, node: str = "n1", *, ready: bool = True, **more: Any) -> Pod:
    values: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "node": node,
        "ready": ready,
        "over": False,
        "terminating": False,
        "created": 0.0,
        "unschedulable": "",
        "drain_since": None,
        "deletion_cost": "",
        "problem": "",
        **more,
    }
    return Pod(**values)


def pod_body(name: str, group: str = "p", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "labels": {"hawkpool.dev/group": group},
            **more.pop("metadata", {}),
        },
        "spec": {"nodeName": more.pop("node", "n1")},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], **more},
    }


def pods(
    name: str, role: str, requested: int | None, *found: Pod, live: tuple[str, ...] = ("n1",)
) -> GroupPods:
    return GroupPods(name, role, requested, found, frozenset(live))


def group(spec: Any, found: GroupPods, **more: Any) -> ObservedGroup:
    return ObservedGroup(spec, found, **more)


def agent(name: str, **more: Any) -> Agent:
    values: dict[str, Any] = {
        "address": f"{name}:7443",
        "epoch": f"{name}-1",
        "protocol": 1,
        "live": True,
        **more,
    }
    return Agent(name, **values)


__all__ = ["CONTAINERS", "agent", "group", "group_spec", "pod", "pod_body", "pods", "pool"]
