"""Health is what was achieved, not that something answers."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from hawk_operator.manager.health import (
    Activity,
    HealthServer,
    HealthVerdict,
    Progress,
    check_alive,
    check_ready,
)

GOOD = Progress(leading=True, lost=False, lease_age=1, list_age=1, reconcile_age=1, pools=3)


@pytest.mark.parametrize(
    ("change", "is_alive", "is_ready"),
    [
        ({}, True, True),
        ({"list_age": 301}, False, False),
        ({"list_age": 100}, True, False),
        ({"reconcile_age": 301}, False, False),
        ({"reconcile_age": 301, "pools": 0}, True, True),
        ({"throttled_for": 4}, True, False),
        ({"lost": True}, False, False),
        ({"leading": False, "list_age": 9999, "reconcile_age": 9999}, True, True),
        ({"leading": False, "lease_age": 301}, False, False),
        ({"blind_for": 301}, False, False),
        ({"blind_for": 100}, True, False),
    ],
)
def test_verdicts(change, is_alive, is_ready):
    progress = replace(GOOD, **change)

    assert check_alive(progress, 300).ok is is_alive
    assert check_ready(progress, 90).ok is is_ready


def test_activity_tells_ages():
    now = [0.0]
    activity = Activity(lambda: now[0])
    now[0] = 10.0
    activity.listed(7)
    now[0] = 12.0
    found = activity.progress(leading=True, lost=False, lease_age=0, throttled_for=0)

    assert (found.list_age, found.reconcile_age, found.pools) == (2.0, 12.0, 7)


def blind_for(activity: Activity) -> float:
    return activity.progress(leading=True, lost=False, lease_age=0, throttled_for=0).blind_for


def test_watches_that_keep_failing_count_from_the_first_failure_until_one_works():
    now = [0.0]
    activity = Activity(lambda: now[0])
    for second in (11.0, 21.0, 41.0):
        activity.watch_begins()
        now[0] = second
        activity.watch_failed("KeyError: uid not found")
    now[0] = 70.0
    failing = blind_for(activity)
    activity.watch_begins()
    activity.watched()

    assert failing == 59.0
    assert blind_for(activity) == 0.0


def test_watches_that_tell_of_no_pool_are_blind_from_the_start_where_there_are_pools():
    now = [0.0]
    activity = Activity(lambda: now[0])
    activity.watch_begins()
    now[0] = 400.0
    without_pools = blind_for(activity)
    activity.listed(3)
    with_pools = blind_for(activity)
    activity.watched()

    assert (without_pools, with_pools, blind_for(activity)) == (0.0, 400.0, 0.0)


def test_a_quiet_watch_works_once_it_has_lasted():
    now = [0.0]
    activity = Activity(lambda: now[0])
    activity.watched()
    activity.watch_failed("gone")
    activity.watch_begins()
    now[0] = 30.0
    young = blind_for(activity)
    now[0] = 61.0

    assert young == 30.0
    assert blind_for(activity) == 0.0


def test_the_port_answers_by_its_checks():
    state = {"ok": True}
    server = HealthServer(
        "127.0.0.1", 0, {"/healthz": lambda: HealthVerdict(state["ok"], "because")}, lambda: b"metric 1\n"
    )
    server.start()
    try:

        def ask(path: str) -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=5) as response:
                    return response.status, response.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        assert ask("/healthz") == (200, "because\n")
        state["ok"] = False
        assert ask("/healthz?verbose") == (503, "because\n")
        assert ask("/metrics") == (200, "metric 1\n")
        assert ask("/other")[0] == 404
    finally:
        server.stop()
