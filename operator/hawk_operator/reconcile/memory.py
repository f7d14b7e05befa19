"""The operator's memory of a pool between two reconciles. All of it can be lost: a restart only makes it
unknown.

Nothing here decides what exists: that is always observed. It holds the last reading of the traffic (so that
an event between two intervals doesn't query Prometheus again), the history that damping needs, the last
verdict on the split, and which writes turned out to change nothing.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hawk_operator.reconcile.worth import Judged
    from hawk_operator.runtime.workqueue import WorkKey
    from hawk_operator.workloads.drain import Choice
    from hawk_planner.sizing import Decision, History
    from hawk_planner.traffic import Window


@dataclass
class PoolMemory:
    """One pool's. Only the worker that holds the pool's key touches it."""

    uid: str = ""
    window: Window | None = None
    window_read_at: float = 0.0
    """When the traffic was last read, seconds since the epoch."""
    decided_for: tuple[object, ...] = ()
    """The other inputs of the last decision besides the traffic: generation and annotations."""
    decision: Decision | None = None
    history: History | None = None
    leaving: dict[str, Choice] = field(default_factory=dict)
    """Groups whose replicas were lowered, and who was to go: not checked yet."""
    settled: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Children on which an apply of this hash left this generation with fields still different."""
    budgets: dict[str, str] = field(default_factory=dict)
    """Children whose disruption budget was applied, by name, with their uid."""
    worth: Judged | None = None
    """The verdict on the split, and the traffic that it is for."""


class Memories:
    """One Memory a pool; a pool that was created anew under its name starts with an empty one."""

    def __init__(self) -> None:
        self._by_key: dict[WorkKey, PoolMemory] = {}
        self._lock = threading.Lock()

    def of(self, key: WorkKey, uid: str) -> PoolMemory:
        """The memory of the pool with this uid."""
        with self._lock:
            memory = self._by_key.get(key)
            if memory is None or memory.uid != uid:
                memory = self._by_key[key] = PoolMemory(uid=uid)
            return memory

    def forget(self, key: WorkKey) -> None:
        """The pool is gone."""
        with self._lock:
            self._by_key.pop(key, None)

    def known(self) -> set[WorkKey]:
        """Pools that something is remembered of."""
        with self._lock:
            return set(self._by_key)
