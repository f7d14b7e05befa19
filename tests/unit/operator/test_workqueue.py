"""The agenda: one entry a key, the earliest time wins, nobody works on a key twice at once."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hawk_operator.runtime.workqueue import (
    BACKOFF,
    Agenda,
    WorkQueue,
    next_tick,
    pool_key,
)

KEYS = [pool_key("ns", name) for name in "abc"]
TIMES = st.floats(0, 50, allow_nan=False)


class AgendaMachine(RuleBasedStateMachine):
    """Beside the agenda runs a plain model: a dictionary of due times and a set of busy keys."""

    def __init__(self) -> None:
        super().__init__()
        self.agenda = Agenda(gap=0.0)
        self.due: dict = {}
        self.busy: set = set()
        self.now = 0.0

    @rule(key=st.sampled_from(KEYS), delay=TIMES)
    def add(self, key, delay):
        self.agenda.add(key, self.now + delay)
        self.due[key] = min(self.due.get(key, float("inf")), self.now + delay)

    @rule(step=TIMES)
    def pass_time(self, step):
        self.now += step

    @rule()
    def take(self):
        ready = {key: when for key, when in self.due.items() if when <= self.now and key not in self.busy}
        taken = self.agenda.take(self.now)
        if not ready:
            assert taken is None
            return
        assert taken in ready
        assert ready[taken] == min(ready.values())
        del self.due[taken]
        self.busy.add(taken)

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def done(self, data):
        key = data.draw(st.sampled_from(sorted(self.busy)))
        self.agenda.done(key)
        self.busy.discard(key)

    @rule(key=st.sampled_from(KEYS))
    def forget(self, key):
        self.agenda.forget(key)
        self.due.pop(key, None)

    @invariant()
    def waits_for_the_next_idle_key(self):
        idle = [when for key, when in self.due.items() if key not in self.busy]
        assert self.agenda.wait(self.now) == (max(0.0, min(idle) - self.now) if idle else None)


TestAgenda = AgendaMachine.TestCase
TestAgenda.settings = settings(max_examples=40, stateful_step_count=30)


def test_a_burst_of_marks_is_one_look_and_looks_keep_their_distance():
    agenda = Agenda(gap=0.5)
    for _ in range(100):
        agenda.add(KEYS[0], 10.0)
    assert agenda.take(10.0) == KEYS[0]
    agenda.done(KEYS[0])
    agenda.add(KEYS[0], 10.0)

    assert agenda.take(10.4) is None
    assert agenda.take(10.5) == KEYS[0]


def test_a_mark_during_the_work_is_looked_at_afterwards():
    agenda = Agenda(gap=0.0)
    agenda.add(KEYS[0], 0.0)
    assert agenda.take(0.0) == KEYS[0]
    agenda.add(KEYS[0], 0.0)
    assert agenda.take(1.0) is None
    agenda.done(KEYS[0])

    assert agenda.take(1.0) == KEYS[0]


def test_failures_back_off_and_a_success_ends_that():
    agenda = Agenda(gap=0.0)
    delays = [agenda.failed(KEYS[0], 0.0) for _ in range(12)]

    assert delays == sorted(delays)
    assert delays[-1] == BACKOFF.longest
    agenda.succeeded(KEYS[0])
    assert agenda.failed(KEYS[0], 0.0) == BACKOFF.first
    assert agenda.failed(KEYS[0], 0.0, asked=30.0) == 30.0


@given(st.text(min_size=1), st.floats(1, 3600), st.floats(0, 4e9))
def test_ticks_are_a_grid_of_the_objects_own(uid, interval, now):
    first = next_tick(uid, interval, now)

    assert now < first <= now + interval * (1 + 1e-6)
    assert next_tick(uid, interval, first + interval / 2) == pytest.approx(first + interval, abs=1e-5)


def test_many_objects_spread_over_the_interval():
    ticks = Counter(int(next_tick(f"uid-{index}", 20.0, 1000.0)) for index in range(200))

    assert max(ticks.values()) <= 20
    assert len(ticks) >= 15


def test_threads_take_each_key_once():
    queue = WorkQueue(gap=0.0)
    taken: list = []

    def work() -> None:
        while (key := queue.take(5.0)) is not None:
            taken.append(key)
            queue.done(key)
            if len(taken) == len(KEYS):
                queue.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for key in KEYS:
        queue.add(key)
    for thread in threads:
        thread.join(10)

    assert sorted(taken) == KEYS
    assert queue.depth() == (0, 0)
