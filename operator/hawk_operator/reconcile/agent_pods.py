"""Why nodes have no agent, as far as the agents' DaemonSet says: pods that the API server refuses.

A DaemonSet has no condition for that, unlike a ReplicaSet: its status counts too few pods, and the words (of
PodSecurity, of a quota) are in an Event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hawk_kube.errors import NotFoundError
from hawk_kube.kinds import DAEMON_SET, EVENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_kube.client import Client


def refused_agent_pods(api: Client, namespace: str, name: str) -> str:
    """The reason why the DaemonSet can't create pods; "" where there is none. Raises ApiError."""
    try:
        daemons = api.get(DAEMON_SET, name, namespace)
    except NotFoundError:
        return ""
    if not lacks_pods(daemons.get("status") or {}):
        return ""
    message = last_refusal(api, namespace, name)
    return f"DaemonSet {namespace}/{name} can't create pods: {message}" if message else ""


def lacks_pods(status: Mapping[str, Any]) -> bool:
    """True if fewer pods exist than nodes want one."""
    return missing_pods(status) > 0


def missing_pods(status: Mapping[str, Any]) -> int:
    """How many nodes want a pod and have none, by a DaemonSet's status."""
    return int(status.get("desiredNumberScheduled") or 0) - int(status.get("currentNumberScheduled") or 0)


def last_refusal(api: Client, namespace: str, name: str) -> str:
    """The API server's words when it last refused a pod of the DaemonSet; "" without an Event of it."""
    selector = f"involvedObject.kind=DaemonSet,involvedObject.name={name},reason=FailedCreate"
    return newest_message(api.list(EVENT, namespace, fields=selector))


def newest_message(events: Iterable[Mapping[str, Any]]) -> str:
    """The words of the last Event."""
    last = max(
        events,
        key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or e["metadata"]["creationTimestamp"]),
        default={},
    )
    return str(last.get("message") or "")
