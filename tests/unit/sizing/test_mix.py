"""The share of prompts in time: what a search remembers changes nothing, and one worker more never harms."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_api.v1alpha1.enums import QueueOrder, Role
from hawk_planner.sizing.mix import attained
from hawk_planner.sizing.needs import load_of, needs_of
from hawk_planner.sizing.prompts import prompts_of, stages_of
from tests.unit.sizing.pools import NPU, group, pool, window

CAPS = {"fast": 16, "slow": 16, "both": 16}
counts = st.fixed_dictionaries({name: st.integers(0, most) for name, most in CAPS.items()})


def posed(rate: float, order: QueueOrder):
    """Prompts at two rates, and three groups that take them."""
    problem = pool(
        queue_order=order,
        groups=(
            group("fast", Role.PREFILL),
            group("slow", Role.PREFILL, worker=NPU),
            group("both", Role.BOTH, worker=NPU),
        ),
    )
    load = load_of(window(rate, 3000, 300, dispersion=3.0))
    needs = needs_of(problem, load, {})
    stages = stages_of(problem, needs, load, counts={"both": 2}, caps=CAPS, present={})
    return prompts_of(problem, needs, load, stages, ((rate, 0.7), (3 * rate, 0.3))), stages


@settings(deadline=None, max_examples=40)
@given(st.floats(0.5, 40), st.sampled_from(QueueOrder), st.lists(counts, min_size=1, max_size=8))
def test_what_a_search_remembers_changes_nothing(rate, order, tried):
    prompts, stages = posed(rate, order)

    for one in tried:
        assert attained(prompts, stages, one) == attained(replace(prompts), stages, one)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.5, 40), st.sampled_from(QueueOrder), counts, st.sampled_from(["fast", "both"]))
def test_one_worker_more_never_makes_more_prompts_late(rate, order, few, name):
    prompts, stages = posed(rate, order)
    share, more = (attained(prompts, stages, c) for c in (few, {**few, name: few[name] + 1}))

    assert 0.0 <= share <= 1.0 + 1e-9
    assert more >= share - 1e-3
