"""On the way to a decision: the budget holds at every instant, skew and ratio bounds at every step."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_api.v1alpha1.enums import Role
from hawk_planner.sizing.allocate import within_ratio
from hawk_planner.sizing.steps import Present, next_step
from tests.unit.sizing.pools import group, pool


class World:
    """A cluster in which pods come and go late, and in which writes may be refused."""

    def __init__(self, problem, replicas):
        self.problem = problem
        self.requested = dict(replicas)
        self.pods = dict(replicas)
        self.ready = dict(replicas)
        self.never_ready: dict[str, int] = {}

    def present(self):
        return {n: Present(self.requested[n], self.pods[n], self.ready[n]) for n in self.requested}

    def used(self) -> int:
        """Devices of all pods that exist, or may be made at any moment."""
        return self.problem.devices({n: max(self.requested[n], self.pods[n]) for n in self.requested})

    def settle(self, speed: int = 1_000) -> None:
        """Let up to `speed` pods of each group come, go, and become ready."""
        for name, wanted in self.requested.items():
            gap = wanted - self.pods[name]
            self.pods[name] += max(-speed, min(speed, gap))
            most = self.never_ready.get(name, self.pods[name])
            self.ready[name] = min(self.pods[name], most, self.ready[name] + speed)


def run(world: World, target, *, max_skew=1.0, refuse=lambda _: False, speed=1_000, rounds=400):
    """Follow the steps to the end; returns the states after each step."""
    states = []
    for number in range(rounds):
        step = next_step(world.problem, world.present(), target, max_skew)
        if step.done:
            return states
        for name, count in step.changes:
            if not refuse(number):
                world.requested[name] = count
            states.append((dict(world.requested), world.used()))
        world.settle(speed)
    return states


def two(budget: int | None = None, **more):
    return pool(
        groups=(group("prefill", Role.PREFILL, 0, 99), group("decode", Role.DECODE, 0, 99)),
        budget_devices=budget,
        **more,
    )


def test_shrink_is_confirmed_before_growth_takes_its_devices():
    world = World(two(8), {"prefill": 4, "decode": 4})

    step = next_step(world.problem, world.present(), {"prefill": 5, "decode": 3})
    assert step.changes == (("decode", 3),)
    assert "prefill: 4 of 5 asked for" in step.outstanding

    world.requested["decode"] = 3  # written, the pod is still terminating
    assert next_step(world.problem, world.present(), {"prefill": 5, "decode": 3}).changes == ()
    world.settle()
    step = next_step(world.problem, world.present(), {"prefill": 5, "decode": 3})
    assert step.changes == (("prefill", 5),)


def test_a_refused_write_is_retried_and_never_exceeds_the_budget():
    world = World(two(8), {"prefill": 4, "decode": 4})

    states = run(world, {"prefill": 5, "decode": 3}, refuse=lambda number: number < 5)

    assert max(used for _, used in states) <= 8
    assert world.requested == {"prefill": 5, "decode": 3}


def test_growth_in_quarters_keeps_the_sides_together():
    world = World(two(), {"prefill": 0, "decode": 0})
    world.never_ready = {}

    seen = []
    for _ in range(4):
        for name, count in next_step(
            world.problem, world.present(), {"prefill": 4, "decode": 2}, 0.25
        ).changes:
            world.requested[name] = count
        world.settle()
        seen.append((world.requested["prefill"], world.requested["decode"]))

    assert seen == [(1, 1), (2, 1), (3, 2), (4, 2)]


def test_a_pod_that_never_gets_ready_stops_the_other_side_within_the_skew():
    world = World(two(), {"prefill": 0, "decode": 0})
    world.never_ready = {"prefill": 2}

    run(world, {"prefill": 4, "decode": 4}, max_skew=0.25, rounds=20)

    assert world.requested == {"prefill": 3, "decode": 3}


counts = st.integers(0, 12)
speeds = st.integers(1, 4)


@settings(deadline=None)
@given(counts, counts, counts, counts, st.integers(1, 3), st.integers(1, 4), speeds, st.integers(0, 6))
def test_the_budget_holds_at_every_instant_and_the_target_is_reached(
    p0, d0, p1, d1, small, large, speed, refused
):
    problem = two()
    first, second = problem.groups
    problem = replace(problem, groups=(replace(first, devices=small), replace(second, devices=large)))
    start, target = {"prefill": p0, "decode": d0}, {"prefill": p1, "decode": d1}
    budget = max(problem.devices(start), problem.devices(target), 1)
    world = World(replace(problem, budget_devices=budget), start)

    states = run(world, target, speed=speed, refuse=lambda number: number % 7 < refused)

    assert all(used <= budget for _, used in states)
    assert world.requested == target


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), speeds)
def test_ratio_bounds_hold_after_every_step_between_two_states_within_them(p0, d0, p1, d1, speed):
    problem = two(ratio_min=Fraction(1, 4), ratio_max=Fraction(4, 1))
    start, target = {"prefill": p0, "decode": d0}, {"prefill": p1, "decode": d1}
    if not (within_ratio(problem, start) and within_ratio(problem, target)):
        return
    world = World(problem, start)
    for _ in range(200):
        step = next_step(problem, world.present(), target)
        if step.done:
            break
        world.requested.update(dict(step.changes))
        assert within_ratio(problem, world.requested)
        world.settle(speed)

    assert world.requested == target


def test_nothing_to_do_is_done():
    world = World(two(8), {"prefill": 2, "decode": 3})

    assert next_step(world.problem, world.present(), {"prefill": 2, "decode": 3}).done
