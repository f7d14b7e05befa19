"""Queues, against the textbook: Erlang, M/M/1, Pollaczek and Khinchine, and what must be monotone."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_planner.sizing.queueing import Queue, dispersion_at, erlang_c, servers_for

SERVICES = st.lists(st.tuples(st.floats(0.01, 5), st.floats(0.1, 1)), min_size=1, max_size=4).map(
    lambda points: [(s, p / sum(q for _, q in points)) for s, p in points]
)
QUEUES = st.builds(
    lambda servers, use, service, dispersion, factor: Queue(
        servers, use * servers / sum(s * p for s, p in service), service, dispersion, 0.0, factor
    ),
    st.integers(1, 30),
    st.floats(0.01, 0.98),
    SERVICES,
    st.floats(0.2, 20),
    st.floats(0.5, 3),
)


def erlang_by_sum(servers: int, load: float) -> float:
    """Erlang's C as textbooks print it."""
    top = load**servers / math.factorial(servers) * servers / (servers - load)
    return top / (sum(load**k / math.factorial(k) for k in range(servers)) + top)


@given(st.integers(1, 40), st.floats(0.001, 0.999))
def test_the_chance_of_a_wait_is_erlangs(servers, use):
    assert erlang_c(servers, use * servers) == pytest.approx(erlang_by_sum(servers, use * servers), rel=1e-6)


@pytest.mark.parametrize(
    ("servers", "load", "chance"),
    [(3, 0.0, 0.0), (3, -1.0, 0.0), (3, 3.0, 1.0), (3, 4.0, 1.0), (2000, 1.0, 0.0)],
)
def test_the_chance_of_a_wait_has_ends(servers, load, chance):
    assert erlang_c(servers, load) == chance


@pytest.mark.parametrize(
    ("measured", "width", "scale", "there"),
    [
        (5, 60, 15, 2),
        (5, 60, 60, 5),
        (5, 60, 600, 5),
        (1, 60, 1, 1),
        (0.5, 60, 1, 0.5),
        (-1, 60, 1, 0),
        (1.5, 10, 5, 1.25),
    ],
)
def test_dispersion_grows_with_the_bin_up_to_the_one_measured(measured, width, scale, there):
    assert dispersion_at(measured, width, scale) == pytest.approx(there)


@given(st.floats(0.01, 0.99), st.floats(0.01, 10), st.sampled_from([0.5, 0.9, 0.99]))
def test_one_markov_server_is_the_textbooks(use, mean, share):
    """Exponential service has a squared variation of 1: two points that have it stand for it."""
    service = [(mean * (1 - 1 / math.sqrt(3)), 0.75), (mean * (1 + math.sqrt(3)), 0.25)]
    queue = Queue(1, use / mean, service)

    assert queue.mean_service == pytest.approx(mean)
    assert queue.utilisation == pytest.approx(use)
    assert queue.mean_wait == pytest.approx(use * mean / (1 - use))
    target = mean * 4
    late = use * math.exp(-(target - service[0][0]) / (mean / (1 - use)))
    later = use * math.exp(-(target - service[1][0]) / (mean / (1 - use)))
    assert queue.attained(target) == pytest.approx(1 - 0.75 * late - 0.25 * later)
    reached = queue.latency(share)
    assert queue.attained(reached) >= share
    assert queue.attained(reached * (1 - 1e-3)) < share or reached <= service[1][0] * 1.001


@given(SERVICES, st.floats(0.01, 0.99))
def test_one_server_of_any_service_waits_as_pollaczek_and_khinchine_say(service, use):
    mean, second = (sum(s**k * p for s, p in service) for k in (1, 2))
    queue = Queue(1, use / mean, service)

    assert queue.mean_wait == pytest.approx(queue.rate * second / (2 * (1 - use)), rel=1e-6)


def test_a_fixed_service_waits_half_as_long_as_a_markov_one():
    assert Queue(1, 0.5, [(1.0, 1.0)]).mean_wait == pytest.approx(0.5)
    assert Queue(1, 0.5, [(1.0, 1.0)], dispersion=0.0).mean_wait == 0.0


@given(QUEUES, st.floats(0.1, 20))
def test_more_servers_less_load_or_more_time_never_make_more_requests_late(queue, target):
    attained = queue.attained(target)

    assert 0 <= attained <= queue.attainable(target) + 1e-9
    assert replace(queue, servers=queue.servers + 1).attained(target) >= attained - 1e-9
    assert replace(queue, rate=queue.rate * 0.9).attained(target) >= attained - 1e-9
    assert queue.attained(target * 1.1) >= attained - 1e-9
    assert replace(queue, rate=0.0).attained(target) == queue.attainable(target)
    assert replace(queue, wait_factor=queue.wait_factor * 2).attained(target) <= attained + 1e-9
    assert replace(queue, dispersion=queue.dispersion * 2).attained(target) <= attained + 1e-9


@given(QUEUES, st.floats(0.3, 0.99))
def test_a_latency_is_where_the_share_is_attained(queue, share):
    latency = queue.latency(share)

    assert queue.attained(latency) >= share - 1e-9
    assert replace(queue, stretch=5.0).latency(share) == latency
    below = latency - max(1e-3 * latency, max(seconds for seconds, _ in queue.service) * 2.0**-15)
    assert queue.attained(below) < share or queue.attainable(below) < queue.attainable(latency)


@pytest.mark.parametrize(("rate", "servers"), [(1.0, 1), (2.0, 1), (1.0, 0)])
def test_a_queue_that_grows_without_end_attains_nothing(rate, servers):
    queue = Queue(servers, rate, [(1.0, 1.0)])

    assert queue.utilisation >= 1
    assert (queue.attained(100.0), queue.latency(0.5), queue.mean_wait) == (0.0, math.inf, math.inf)


def test_without_arrivals_a_latency_is_the_service():
    assert Queue(1, 0.0, [(1.0, 0.5), (2.0, 0.5)]).latency(0.5) == pytest.approx(1.0, rel=1e-3)
    assert Queue(1, 0.0, [(1.0, 0.5), (2.0, 0.5)]).latency(0.9) == pytest.approx(2.0, rel=1e-3)


def test_a_long_request_may_take_its_own_service_so_many_times():
    queue = Queue(1, 0.01, [(1.0, 0.5), (10.0, 0.5)])

    assert queue.attainable(1.0) == 0.5
    assert queue.attainable(0.99) == 0.0
    assert replace(queue, stretch=2.0).attainable(1.0) == 1.0
    assert replace(queue, stretch=1.0).attainable(0.0) == 1.0
    assert replace(queue, stretch=2.0).attained(1.0) > 0.9
    assert queue.attained(1.0) < 0.5


@given(QUEUES, st.floats(0.5, 0.95))
def test_the_fewest_servers_are_enough_and_one_less_is_not(queue, share):
    target = max(s for s, _ in queue.service) * 1.5
    found = servers_for(queue, target, share)

    assert replace(queue, servers=found).attained(target) >= share
    assert found == 1 or replace(queue, servers=found - 1).attained(target) < share
    assert servers_for(replace(queue, rate=0.0), target, share) == 0
    assert servers_for(queue, target, share, most=max(1, found - 1)) == max(1, found - 1)
    assert servers_for(queue, 0.0, share, most=57) == 57
