"""Golden timelines: what the decision does over time on traffic from a seed, kept so that a change shows.

A change of the decision may change them; then look whether the new course is better, and say so.
"""

from __future__ import annotations

import pytest

from hawk_api.v1alpha1.enums import QueueOrder, Role
from hawk_planner.simulate.engine import ClusterSettings, Simulation
from hawk_planner.simulate.generate import AGENT, CHAT, RAG, Stream, burst, shift
from hawk_planner.simulate.policies import Hawk
from tests.unit.sizing.pools import NPU, group, pool

LENT = pool(
    groups=(
        group("prefill", Role.PREFILL),
        group("both", Role.BOTH, worker=NPU, usd_per_hour=0.8),
    ),
    queue_order=QueueOrder.SLACK,
)


@pytest.mark.parametrize(
    ("flows", "seed", "problem", "initial", "expected"),
    [
        pytest.param(
            shift(RAG, AGENT, (4.0, 20.0), 300.0, 200.0),
            3,
            pool(),
            {"prefill": 2, "decode": 4},
            [(0, 2, 4), (15, 3, 6), (375, 3, 7), (675, 2, 7), (825, 1, 7)],
            id="retrieval turns into agents: decode comes before prefill goes",
        ),
        pytest.param(
            burst(CHAT, 2.0, 40.0, 300.0, 20.0),
            5,
            LENT,
            {"prefill": 1, "both": 2},
            [(0, 1, 2), (15, 1, 4), (75, 1, 6), (390, 1, 5)],
            id="bursts that come again are held for, by the cheaper class",
        ),
    ],
)
def test_a_replay_takes_the_course_that_it_took(flows, seed, problem, initial, expected):
    trace = Stream(flows, seed).trace("replay", 1200.0)
    chosen = ClusterSettings(initial=initial, order=problem.queue_order)
    outcome = Simulation(trace, problem, Hawk(problem), chosen).run()

    course: list[tuple[float, ...]] = []
    for when, wanted, _ in outcome.timeline:
        if not course or course[-1][1:] != tuple(wanted.values()):
            course.append((when, *wanted.values()))
    assert course == expected
