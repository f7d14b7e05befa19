"""One writer: the rule itself, and the whole of it against a Lease that several processes fight for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_operator.manager.leader import Action, Seen, may_write, observe_lease, step_election

DURATION, DEADLINE, PERIOD = 15.0, 10.0, 2.0


def seen(holder: str, since: float = 0.0, duration: float = DURATION) -> Seen:
    return Seen(holder, "1", duration, since)


@pytest.mark.parametrize(
    ("lease", "led", "now", "expected"),
    [
        (None, False, 0, Action.CREATE),
        (None, True, 0, Action.CREATE),
        (seen("me"), False, 0, Action.RENEW),
        (seen("me"), True, 99, Action.RENEW),
        (seen(""), False, 0, Action.ACQUIRE),
        (seen(""), True, 0, Action.ACQUIRE),
        (seen("other"), False, 14.9, Action.WAIT),
        (seen("other"), False, 15.0, Action.WAIT),
        (seen("other"), False, 15.1, Action.ACQUIRE),
        (seen("other"), True, 0, Action.EXIT),
        (seen("other"), True, 99, Action.EXIT),
        (seen("other", duration=60), False, 30, Action.WAIT),
    ],
)
def test_step(lease, led, now, expected):
    assert step_election(lease, "me", led, now) is expected


def test_a_lease_that_changes_is_seen_anew():
    first = Seen("a", "1", DURATION, 5.0)

    assert observe_lease(first, Seen("a", "1", DURATION, 9.0)).since == 5.0
    assert observe_lease(first, Seen("a", "2", DURATION, 9.0)).since == 9.0
    assert observe_lease(first, Seen("b", "1", DURATION, 9.0)).since == 9.0
    assert observe_lease(None, Seen("a", "1", DURATION, 9.0)).since == 9.0


def test_only_a_recent_renewal_permits_writes():
    assert not may_write(None, DEADLINE, 0.0)
    assert may_write(5.0, DEADLINE, 14.9)
    assert not may_write(5.0, DEADLINE, 15.0)


class Process:
    """One contender with a clock of its own offset and a network that may be down."""

    def __init__(self, name: str, offset: float) -> None:
        self.name, self.offset = name, offset
        self.view: Seen | None = None
        self.led = False
        self.renewed: float | None = None
        self.gone = False

    def round(self, lease: dict, now: float) -> None:
        mine = now + self.offset
        if lease:
            self.view = observe_lease(self.view, Seen(lease["holder"], str(lease["version"]), DURATION, mine))
        action = step_election(self.view if lease else None, self.name, self.led, mine)
        if action is Action.EXIT:
            self.gone = True
        elif action is not Action.WAIT:
            lease.update(holder=self.name, version=lease.get("version", 0) + 1)
            self.led, self.renewed = True, mine

    def writes(self, now: float) -> bool:
        return not self.gone and self.led and may_write(self.renewed, DEADLINE, now + self.offset)


@settings(max_examples=60)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=200),
)
def test_at_no_moment_do_two_processes_write(offsets, schedule):
    """Whatever the clocks say and whoever is cut off for however long."""
    lease: dict = {}
    processes = [Process(f"p{index}", offset) for index, offset in enumerate(offsets)]
    now = 0.0
    for turn, connected in schedule:
        now += PERIOD
        process = processes[turn % len(processes)]
        if connected and not process.gone:
            process.round(lease, now)
        assert sum(contender.writes(now) for contender in processes) <= 1
