"""Which workers go when a group shrinks, and when each may go. Pure.

A worker that goes takes its requests and the blocks it lent with it. So it is marked first (a label that
routers see, and a deletion cost that makes its controller choose it), then emptied, then the replicas are
lowered by as many as are empty.

What is known of a worker's work: the engine's own gauges by pod (running and waiting requests) where
Prometheus has them, and whether an agent on its node holds a KV region of the group. An agent doesn't report
how many leases it has given, so a worker with a region and without gauges waits for the whole time-out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hawk_api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hawk_operator.workloads.pods import Pod

COST: Final = "-1000"
"""Deletion cost of a marked pod; unmarked ones have 0."""


@dataclass(frozen=True)
class Work:
    """What is known of the work of a group's pods."""

    requests: Mapping[str, float]
    """Running and waiting requests by pod; pods without gauges are absent."""
    read_at: float
    """When the gauges were read, seconds since the epoch."""
    regions: Collection[str]
    """Nodes whose live agent holds a KV region of this group."""
    live: Collection[str]
    """Nodes with a live agent."""


@dataclass(frozen=True)
class Waiting:
    """A marked worker that can't go yet; `until` is when it goes anyway (seconds since the epoch)."""

    pod: str
    reason: Reason
    message: str
    until: float


@dataclass(frozen=True)
class Drain:
    """Pods to mark, pods to unmark, pods that may go now, and those still waited for."""

    mark: tuple[Pod, ...] = ()
    unmark: tuple[Pod, ...] = ()
    empty: tuple[Pod, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    timed_out: tuple[Pod, ...] = ()

    def floor(self, active: int) -> int:
        """The fewest replicas that may be asked for now."""
        return active - len(self.empty)


def plan(pods: Sequence[Pod], goal: int, work: Work, timeout: float, now: float) -> Drain:
    """The drain of a group that should have `goal` workers; nothing to do gives an empty one."""
    active = [pod for pod in pods if pod.active]
    victims = sorted(active, key=lambda pod: _rank(pod, work))[: max(0, len(active) - goal)]
    chosen = {pod.uid for pod in victims}
    empty: list[Pod] = []
    waiting: list[Waiting] = []
    timed_out: list[Pod] = []
    for pod in victims:
        reason = _why_not(pod, work, timeout, now)
        if reason is None:
            empty.append(pod)
        elif now >= reason.until:
            empty.append(pod)
            timed_out.append(pod)
        else:
            waiting.append(reason)
    return Drain(
        mark=tuple(pod for pod in victims if pod.drain_since is None or pod.deletion_cost != COST),
        unmark=tuple(pod for pod in active if pod.uid not in chosen and pod.drain_since is not None),
        empty=tuple(empty),
        waiting=tuple(waiting),
        timed_out=tuple(timed_out),
    )


def _rank(pod: Pod, work: Work) -> tuple[bool, bool, bool, bool, float, float, str]:
    """Ascending: who goes first. Who drains goes on draining; who does no work goes before who does."""
    return (
        pod.node != "",
        pod.ready,
        pod.drain_since is None,
        pod.node in work.live,
        work.requests.get(pod.name, 0.0),
        -pod.created,
        pod.name,
    )


def _why_not(pod: Pod, work: Work, timeout: float, now: float) -> Waiting | None:
    """Why a marked worker can't go yet, or None when it is empty."""
    if not pod.ready:
        return None
    since = pod.drain_since if pod.drain_since is not None else now
    until = since + timeout
    gauge = work.requests.get(pod.name)
    if gauge is not None and (gauge > 0 or work.read_at <= since):
        return Waiting(
            pod.name,
            Reason.WAITING_FOR_REQUESTS,
            f"{pod.name} has {gauge:g} requests at the last look",
            until,
        )
    if gauge is None and pod.node in work.regions:
        return Waiting(
            pod.name,
            Reason.WAITING_FOR_LEASES,
            f"{pod.name} has memory registered with {pod.node}, and no gauge says whether it is idle",
            until,
        )
    return None
