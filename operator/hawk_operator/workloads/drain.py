"""Which workers go when a group shrinks, and when each may go. Pure.

A worker that goes takes its requests and the blocks it lent with it. So it is marked first (a label that
routers see, and a deletion cost that makes its controller choose it), then emptied, then the replicas are
lowered by as many as are empty.

What is known of a worker's work: the engine's own gauges by pod (running and waiting requests) where
Prometheus has them, and whether its memory is in use, which the agent on its node says once it is asked. A
worker with memory of which neither is known waits for the whole time-out.

A deletion cost is a hint that only ReplicaSets take. A set with ordinals (StatefulSet, LeaderWorkerSet) gives
up its highest one, so there the highest are emptied, and go from the top down. Which worker really went is
checked afterwards (`Choice`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
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
    busy: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    """Whether memory is in use, by (node, worker), where the agent was asked."""

    def in_use(self, pod: Pod) -> bool | None:
        """Whether the pod's memory is in use; by its name, or by its node where workers have other names;
        None where nobody said."""
        own = self.busy.get((pod.node, pod.name))
        if own is not None:
            return own
        said = [busy for (node, _), busy in self.busy.items() if node == pod.node]
        return any(said) if said else None


@dataclass(frozen=True)
class Waiting:
    """A marked worker that can't go yet; `until` is when it goes anyway (seconds since the epoch)."""

    pod: str
    reason: Reason
    message: str
    until: float


@dataclass(frozen=True)
class Choice:
    """Who was to go when replicas were lowered, so that it can be checked who went."""

    chosen: Mapping[str, str]
    """Names by uid."""
    others: Mapping[str, str]
    """Those that were to stay."""

    def verdict(self, pods: Sequence[Pod]) -> str | None:
        """None while it isn't decided, "" when the chosen ones went, else who went in their place."""
        active = {pod.uid for pod in pods if pod.active}
        left = [name for uid, name in self.chosen.items() if uid in active]
        gone = [name for uid, name in self.others.items() if uid not in active]
        if not left:
            return ""
        if len(gone) + len(self.chosen) - len(left) < len(self.chosen):
            return None
        return f"{', '.join(sorted(gone))} went in place of {', '.join(sorted(left))}"


@dataclass(frozen=True)
class Drain:
    """Pods to mark, pods to unmark, pods that may go now, and those still waited for."""

    mark: tuple[Pod, ...] = ()
    unmark: tuple[Pod, ...] = ()
    empty: tuple[Pod, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    timed_out: tuple[Pod, ...] = ()

    def choice(self, pods: Sequence[Pod], count: int) -> Choice:
        """Who goes when `count` replicas are taken away now."""
        chosen = {pod.uid: pod.name for pod in self.empty[:count]}
        others = {pod.uid: pod.name for pod in pods if pod.active and pod.uid not in chosen}
        return Choice(chosen, others)

    def floor(self, active: int) -> int:
        """The fewest replicas that may be asked for now."""
        return active - len(self.empty)


def ordinal(pod: Pod) -> int:
    """The number at the end of a pod's name; -1 without one."""
    found = re.search(r"-(\d+)$", pod.name)
    return int(found.group(1)) if found else -1


def plan(
    pods: Sequence[Pod], goal: int, work: Work, timeout: float, now: float, *, by_ordinal: bool = False
) -> Drain:
    """The drain of a group that should have `goal` workers; nothing to do gives an empty one.

    `by_ordinal`: its controller removes the highest ordinal and nothing else.
    """
    active = [pod for pod in pods if pod.active]
    order = sorted(active, key=lambda pod: -ordinal(pod) if by_ordinal else _rank(pod, work))
    victims = order[: max(0, len(active) - goal)]
    chosen = {pod.uid for pod in victims}
    empty: list[Pod] = []
    waiting: list[Waiting] = []
    timed_out: list[Pod] = []
    for pod in victims:
        reason = _why_not(pod, work, timeout, now)
        if by_ordinal and waiting:
            waiting += [reason] if reason is not None else []  # those above go first
        elif reason is None:
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
    used = work.in_use(pod) if pod.node in work.regions else False
    if used:
        text = f"{pod.name} has leases or transfers on {pod.node}"
    elif used is None and gauge is None:
        text = f"{pod.name} has memory registered with {pod.node}, and nobody says whether it is in use"
    else:
        return None
    return Waiting(pod.name, Reason.WAITING_FOR_LEASES, text, until)
