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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hawk_api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hawk_operator.workloads.pods import Pod

COST: Final = "-1000"
"""Deletion cost of a marked pod; unmarked ones have 0."""


@dataclass(frozen=True)
class PodWork:
    """The known work of a group's pods."""

    requests: Mapping[str, float]
    """Running and waiting requests by pod; pods without gauges are absent."""
    read_at: float
    """When the gauges were read, seconds since the epoch."""
    memory: Mapping[tuple[str, str], bool | None]
    """This group's memory by (node, worker), as live agents tell of it: whether it is in use, None where
    nobody said."""
    live: Collection[str]
    """Nodes with a live agent."""

    def of(self, pod: Pod) -> dict[tuple[str, str], bool | None]:
        """The memory that goes with a pod: what has its name, or the name of one that it leads (the others of
        a LeaderWorkerSet's group are called as their leader with a number), else all on its node."""
        named = re.compile(rf"{re.escape(pod.name)}(-\d+)?")
        own = {key: used for key, used in self.memory.items() if named.fullmatch(key[1])}
        return own or {key: used for key, used in self.memory.items() if key[0] == pod.node}

    def in_use(self, pod: Pod) -> bool | None:
        """True if any memory that goes with a pod is in use; None where that isn't known of all of it."""
        said = set(self.of(pod).values())
        return True if True in said else None if None in said else False


@dataclass(frozen=True)
class Waiting:
    """A marked worker that can't go yet; `until` is when it goes anyway (seconds since the epoch)."""

    pod: str
    reason: Reason
    message: str
    until: float
    nodes: frozenset[str] = frozenset()
    """Where its memory is: the agents there are asked whether it is in use."""


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


def plan_drain(
    pods: Sequence[Pod], goal: int, work: PodWork, timeout: float, now: float, *, by_ordinal: bool = False
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


def _rank(pod: Pod, work: PodWork) -> tuple[bool, bool, bool, bool, float, float, str]:
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


def _why_not(pod: Pod, work: PodWork, timeout: float, now: float) -> Waiting | None:
    """Why a marked worker can't go yet, or None when it is empty."""
    if not pod.ready:
        return None
    since = pod.drain_since if pod.drain_since is not None else now
    until = since + timeout
    nodes = frozenset({pod.node, *(node for node, _ in work.of(pod))})
    gauge = work.requests.get(pod.name)
    if gauge is not None and (gauge > 0 or work.read_at <= since):
        text = f"{pod.name} has {gauge:g} requests at the last reading"
        return Waiting(pod.name, Reason.WAITING_FOR_REQUESTS, text, until, nodes)
    used = work.in_use(pod)
    if used:
        where = ", ".join(sorted({node for (node, _), busy in work.of(pod).items() if busy}))
        text = f"{pod.name} has leases or transfers on {where}"
    elif used is None and gauge is None:
        where = ", ".join(sorted({node for (node, _), busy in work.of(pod).items() if busy is None}))
        text = f"{pod.name} has memory registered with {where}, and nobody says whether it is in use"
    else:
        return None
    return Waiting(pod.name, Reason.WAITING_FOR_LEASES, text, until, nodes)
