"""Bursts, their decay and trends from an hour in bins, told from chance."""

from __future__ import annotations

import random

import pytest

from hawk_planner.traffic import bins, distribution


def poisson(mean: float, number: int, seed: int = 1) -> list[float]:
    made = random.Random(seed)
    counts = []
    for _ in range(number):
        now, count = made.expovariate(mean), 0
        while now < 1.0:
            now, count = now + made.expovariate(mean), count + 1
        counts.append(float(count))
    return counts


def test_chance_is_no_burst_no_trend_and_no_dispersion():
    counts = poisson(100.0, 120)

    assert bins.dispersion(counts).get() == 1.0
    assert sum(above for above, _ in bins.bursts(counts, 30.0)) < 0.01 * sum(counts)
    assert bins.growth(counts, 3.0) == 1.0


def test_a_burst_stands_out_and_weighs_half_after_its_half_life():
    counts = [10.0] * 40
    counts[9] = counts[39] = 200.0

    found = bins.bursts(counts, 30.0)

    assert [i for i, (above, _) in enumerate(found) if above > 0] == [9, 39]
    assert found[39][1] == 1.0
    assert found[9][1] == pytest.approx(0.5)
    assert bins.base(counts) == 10.0


def test_a_level_that_stays_is_no_burst():
    counts = [10.0] * 20 + [100.0] * 20

    assert sum(above for above, _ in bins.bursts(counts, 30.0)[26:]) == 0.0


def test_persistence_is_what_became_of_earlier_bursts():
    short, long = [5.0] * 60, [5.0] * 60
    for start in (10, 30, 50):
        short[start] = 100.0
        long[start : start + 4] = [100.0] * 4

    def lasting(counts: list[float]) -> float:
        return bins.persistence([above for above, _ in bins.bursts(counts, 30.0)], 2.0)

    assert lasting([5.0] * 30 + [100.0] * 2) == 1.0
    assert lasting(short) < 0.3
    assert lasting(long) > lasting(short)


def test_a_clear_rise_is_drawn_on_within_reason():
    rising = [100.0 + 10.0 * i for i in range(10)]

    assert bins.growth(rising, 2.0) == pytest.approx(1.0 + 20.0 / 190.0)
    assert bins.growth(rising, 1000.0) == 2.0
    assert bins.growth(rising[::-1], 2.0) == 1.0
    assert bins.growth(rising[:5], 2.0) == 1.0


def test_lengths_keep_to_the_longer_run_unless_they_clearly_left_it():
    shape = distribution.of({500.0: 1.0, 1500.0: 1.0})

    assert bins.steadied(shape, 100, [104_000.0] * 20, [100.0] * 20).mean == pytest.approx(1040)
    assert bins.steadied(shape, 100, [300_000.0] * 20, [100.0] * 20).mean == 1000
    assert bins.steadied(shape, 100, [], []).mean == 1000
