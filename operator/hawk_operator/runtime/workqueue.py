"""Keys to reconcile, and when: one entry per key, the earliest time wins, failures back off.

An event says only that something about a key may have changed. So a hundred events for one key are one
entry, and a key that is being worked on can be asked for again but is never given to two workers. `Agenda`
is the pure part, with the time passed in; `WorkQueue` adds a lock and waiting.
"""

from __future__ import annotations

import hashlib
import heapq
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hawk_api.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

BACKOFF: Final = Backoff(0.5, 60.0, jitter=0)


@dataclass(frozen=True, order=True)
class WorkKey:
    """An item of the work queue. `kind` is "pool" or "wiring"; the other parts are empty for the latter."""

    kind: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.kind == "pool" else self.kind


WIRING: Final = WorkKey("wiring")


def pool_key(namespace: str, name: str) -> WorkKey:
    """The key of one HawkPool."""
    return WorkKey("pool", namespace, name)


def phase(uid: str, interval: float) -> float:
    """A moment in [0, interval) that is this object's own, so that many objects spread evenly."""
    fraction = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8]) / 2**64
    return fraction * interval


def next_tick(uid: str, interval: float, now: float) -> float:
    """The first moment after `now` of this object's own grid, which doesn't move with how long work takes."""
    offset = phase(uid, interval)
    return (now - offset) // interval * interval + interval + offset


@dataclass
class Agenda:
    """Times by key, in seconds of one clock. `gap` is the least time between two starts of one key."""

    gap: float = 0.2
    due: dict[WorkKey, float] = field(default_factory=dict)
    busy: set[WorkKey] = field(default_factory=set)
    started: dict[WorkKey, float] = field(default_factory=dict)
    failures: dict[WorkKey, int] = field(default_factory=dict)
    _heap: list[tuple[float, WorkKey]] = field(default_factory=list)
    _held: dict[WorkKey, float] = field(default_factory=dict)
    """Due keys that are being worked on: off the heap until `done`, so that its first entry can be taken."""

    def add(self, key: WorkKey, when: float) -> None:
        """Enqueue a key for `when`, or earlier if it is already due earlier."""
        when = max(when, self.started.get(key, -self.gap) + self.gap)
        if key not in self.due or when < self.due[key]:
            self.due[key] = when
            heapq.heappush(self._heap, (when, key))

    def take(self, now: float) -> WorkKey | None:
        """A key whose time has come and that nobody works on; it is busy until `done`."""
        first = self._first()
        if first is None or first[0] > now:
            return None
        _, key = heapq.heappop(self._heap)
        del self.due[key]
        self.busy.add(key)
        self.started[key] = now
        return key

    def wait(self, now: float) -> float | None:
        """Seconds until some key that nobody works on is due; None when there is none."""
        first = self._first()
        return None if first is None else max(0.0, first[0] - now)

    def _first(self) -> tuple[float, WorkKey] | None:
        """The heap's first entry that stands and that nobody works on."""
        while self._heap:
            when, key = self._heap[0]
            if self.due.get(key) != when:
                heapq.heappop(self._heap)  # an earlier time replaced this entry, or it was forgotten
            elif key in self.busy:
                self._held[key] = when
                heapq.heappop(self._heap)
            else:
                return when, key
        return None

    def done(self, key: WorkKey) -> None:
        """The work on a key ended, well or badly."""
        self.busy.discard(key)
        if key in self._held:
            heapq.heappush(self._heap, (self._held.pop(key), key))

    def failed(self, key: WorkKey, now: float, asked: float = 0.0) -> float:
        """Enqueue a key again after a back-off of at least `asked` seconds; returns the delay."""
        count = self.failures.get(key, 0) + 1
        self.failures[key] = count
        delay = max(BACKOFF.rest(count), asked)
        self.add(key, now + delay)
        return delay

    def succeeded(self, key: WorkKey) -> None:
        """The next failure is a first one again."""
        self.failures.pop(key, None)

    def forget(self, key: WorkKey) -> None:
        """The object is gone."""
        for table in (self.due, self.started, self.failures):
            table.pop(key, None)


class WorkQueue:
    """An Agenda that threads can wait on."""

    def __init__(self, clock: Callable[[], float] = time.time, gap: float = 0.2) -> None:
        self._clock = clock
        self._agenda = Agenda(gap=gap)
        self._changed = threading.Condition()
        self._closed = False

    def add(self, key: WorkKey, delay: float = 0.0) -> None:
        """Enqueue a key after `delay` seconds."""
        self.add_at(key, self._clock() + delay)

    def add_at(self, key: WorkKey, when: float) -> None:
        """Enqueue a key for a moment of the queue's clock."""
        with self._changed:
            self._agenda.add(key, when)
            self._changed.notify()

    def take(self, timeout: float) -> WorkKey | None:
        """The next due key, or None after `timeout` seconds or when the queue is closed."""
        end = time.monotonic() + timeout
        with self._changed:
            while not self._closed:
                now = self._clock()
                key = self._agenda.take(now)
                if key is not None:
                    return key
                left = end - time.monotonic()
                if left <= 0:
                    return None
                due = self._agenda.wait(now)
                self._changed.wait(left if due is None else min(left, max(due, 0.001)))
            return None

    def done(self, key: WorkKey) -> None:
        """The work on a key ended."""
        with self._changed:
            self._agenda.done(key)
            self._changed.notify()

    def failed(self, key: WorkKey, asked: float = 0.0) -> float:
        """Back off; gives the delay in seconds."""
        with self._changed:
            delay = self._agenda.failed(key, self._clock(), asked)
            self._changed.notify()
            return delay

    def succeeded(self, key: WorkKey) -> None:
        """Reset the back-off."""
        with self._changed:
            self._agenda.succeeded(key)

    def forget(self, key: WorkKey) -> None:
        """Drop all that is known about a key."""
        with self._changed:
            self._agenda.forget(key)

    def depth(self) -> tuple[int, int]:
        """(keys waiting, keys being worked on)."""
        with self._changed:
            return len(self._agenda.due), len(self._agenda.busy)

    def close(self) -> None:
        """Wake every waiter; nothing is given out any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
