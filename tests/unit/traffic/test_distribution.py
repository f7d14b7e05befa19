"""Distributions from buckets keep the measured mean and stay inside their buckets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_planner.traffic import distribution


@st.composite
def samples(draw):
    values = draw(st.lists(st.floats(1, 9e4), min_size=1, max_size=60))
    edges = sorted(
        draw(st.sets(st.sampled_from([1, 2, 5, 10, 100, 500, 1e3, 2e3, 5e3, 1e4, 5e4]), min_size=1))
    )
    return values, [*edges, math.inf]


@given(samples())
def test_the_mean_survives_and_quantiles_stay_within_a_bucket_of_the_truth(case):
    values, edges = case
    buckets = {edge: float(sum(v <= edge for v in values)) for edge in edges}

    made = distribution.from_buckets(buckets, sum(values) / len(values))

    assert made is not None
    assert made.mean == pytest.approx(sum(values) / len(values), rel=1e-6)
    assert sum(p for _, p in made.points) == pytest.approx(1)
    for q in (0.5, 0.9, 0.99):
        true = sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
        upper = next(edge for edge in edges if true <= edge)
        lower = max([edge for edge in edges if edge < true], default=0.0)
        assert lower <= made.quantile(q) * (1 + 1e-9)
        assert made.quantile(q) <= upper * (1 + 1e-9)


def test_nothing_counted_gives_nothing():
    assert distribution.from_buckets({10.0: 0.0, math.inf: 0.0}) is None
    assert distribution.from_buckets({}) is None


def test_counts_that_fall_from_one_bucket_to_the_next_are_lifted():
    made = distribution.from_buckets({1.0: 5.0, 2.0: 4.0, math.inf: 10.0})

    assert made is not None
    assert [p for _, p in made.points] == [0.5, 0.5]


@given(st.lists(st.tuples(st.floats(1, 1e5), st.floats(0.01, 1)), min_size=1, max_size=400))
def test_coarser_points_keep_mean_and_weight_and_are_few(pairs):
    made = distribution.of(dict(pairs))

    points = made.coarser()

    assert sum(x * p for x, p in points) == pytest.approx(made.mean)
    assert sum(p for _, p in points) == pytest.approx(1)
    assert len(points) <= 2 * 40
    assert [x for x, _ in points] == sorted(x for x, _ in points)
