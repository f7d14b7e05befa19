"""A need cut down to caps, ratio and budgets, and the extremes of a window of history."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api.reasons import Reason
from hawk_api.v1alpha1.enums import Role
from hawk_api.v1alpha1.scaling import DEFAULT_RATIO_CHAT, DEFAULT_RATIO_LONG_PROMPTS
from hawk_planner.sizing import History
from hawk_planner.sizing.allocate import Side, fill_decode, fit_budget, size, totals, within_ratio
from hawk_planner.sizing.decision import Decision
from hawk_planner.sizing.history import SizingRecord
from hawk_planner.sizing.startup import at_ratio, thumb
from tests.unit.sizing.pools import group, pool, window

P, D, B = Role.PREFILL, Role.DECODE, Role.BOTH


@dataclass(frozen=True)
class Linear:
    """A need in which each replica carries `unit` requests/s."""

    unit: float

    def replicas(self, rate: float, most: int = 1000) -> int:
        return min(most, math.ceil(rate / self.unit))

    def carries(self, replicas: int) -> float:
        return replicas * self.unit


def sides(rate: float, **units: float) -> Side:
    return Side({name: Linear(unit) for name, unit in units.items()}, rate)


CAPS = {"p": 10, "q": 10, "d": 10, "b": 10}


def test_the_cheapest_group_is_filled_to_its_cap_before_the_next():
    groups = (group("p", P, usd_per_hour=4.0), group("q", P, usd_per_hour=3.0), group("d", D))
    need, decode = sides(40, p=4, q=2), sides(3, d=1)

    assert size(pool(groups=groups), need, decode, CAPS) == {"p": 10, "q": 1, "d": 3}
    assert size(pool(groups=groups), sides(60, p=4, q=2), decode, CAPS)["q"] == 10
    assert size(pool(groups=groups), sides(0, p=4, q=2), decode, CAPS) == {"p": 1, "q": 1, "d": 3}
    assert size(pool(groups=groups), need, decode, {**CAPS, "p": 2}) == {"p": 2, "q": 10, "d": 3}


def test_without_all_prices_devices_are_the_price():
    groups = (group("p", P, usd_per_hour=None, devices=8), group("q", P, devices=1), group("d", D))
    found = size(pool(groups=groups), sides(10, p=4, q=2), sides(1, d=1), CAPS)

    assert (found["p"], found["q"]) == (1, 3)


def test_what_both_roles_do_is_what_the_dedicated_leave():
    groups = (group("p", P, most=2), group("d", D, most=2), group("b", B, least=0))
    caps = {"p": 2, "d": 2, "b": 10}
    problem = pool(groups=groups)

    assert size(problem, sides(5, p=1, b=1), sides(4, d=1, b=1), caps)["b"] == 3 + 2
    assert size(problem, sides(2, p=1, b=1), sides(2, d=1, b=1), caps)["b"] == 0
    assert fill_decode(problem, sides(6, d=1, b=2), caps) == {"p": 1, "d": 2, "b": 2}
    assert totals(problem, {"p": 2, "d": 1, "b": 3}) == (5, 4)


def test_two_groups_that_do_both_share_the_rest():
    groups = (group("b", B, least=0, usd_per_hour=1.0), group("c", B, least=0, usd_per_hour=2.0))
    need, decode = sides(10, b=1, c=1), sides(10, b=1, c=1)

    found = size(pool(groups=groups), need, decode, {"b": 5, "c": 50})
    assert found == {"b": 5, "c": 8 + 8}


@pytest.mark.parametrize(
    ("bounds", "wanted", "fitted"),
    [
        ({"ratio_min": Fraction(1)}, (1, 6), (6, 6)),
        ({"ratio_min": Fraction(1, 2)}, (1, 5), (3, 5)),
        ({"ratio_min": Fraction(2)}, (1, 8), (10, 5)),
        ({"ratio_max": Fraction(1)}, (6, 1), (6, 6)),
        ({"ratio_max": Fraction(2)}, (5, 1), (5, 3)),
        ({"ratio_max": Fraction(1, 2)}, (8, 1), (5, 10)),
        ({"ratio_min": Fraction(1), "ratio_max": Fraction(2)}, (3, 2), (3, 2)),
    ],
)
def test_the_short_side_grows_to_the_ratio_and_beyond_its_cap_the_other_shrinks(bounds, wanted, fitted):
    problem = pool(groups=(group("p", P), group("d", D)), **bounds)
    counts = dict(zip("pd", wanted, strict=True))
    found = fit_budget(problem, counts, {"p": 10, "d": 10})

    assert tuple(found.replicas.values()) == fitted
    assert found.limits == (("ratio",) if fitted != wanted else ())
    assert within_ratio(problem, found.replicas)
    assert within_ratio(problem, counts) == (fitted == wanted)
    assert within_ratio(problem, {"p": 0, "d": 5})
    assert within_ratio(problem, {"p": 5, "d": 0})


def test_caps_hold_and_are_named_and_minima_yield_to_them():
    problem = pool(groups=(group("p", P, least=3), group("d", D)))
    found = fit_budget(problem, {"p": 9, "d": 2}, {"p": 2, "d": 4})

    assert found.replicas == {"p": 2, "d": 2}
    assert found.limits == ("p: at most 2",)
    assert fit_budget(problem, {"p": 0, "d": 0}, {"p": 9, "d": 9}).replicas == {"p": 3, "d": 1}


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 30))
def test_a_budget_of_devices_takes_what_is_missed_least(prefill, decode, budget):
    problem = pool(groups=(group("p", P), group("d", D)), budget_devices=budget)
    found = fit_budget(problem, {"p": prefill, "d": decode}, {"p": 20, "d": 20})
    p, d = found.replicas.values()

    assert p + d == min(prefill + decode, budget)
    assert found.limits == (() if prefill + decode <= budget else (f"budget of {budget} devices",))
    if budget >= 2:
        assert min(p, d) >= 1
        for fewer, more in (((p + 1) / prefill, (d - 1) / decode), ((d + 1) / decode, (p - 1) / prefill)):
            assert min(p / prefill, d / decode) >= min(fewer, more) - 1e-9


@given(st.integers(1, 9), st.integers(1, 9), st.floats(0.5, 40))
def test_a_budget_of_money_holds_and_what_has_no_price_stays_at_its_minimum(prefill, decode, budget):
    groups = (group("p", P, usd_per_hour=3.0), group("d", D, usd_per_hour=None))
    found = fit_budget(pool(groups=groups, budget_usd_per_hour=budget), {"p": prefill, "d": decode}, CAPS)

    assert found.replicas["p"] * 3.0 <= budget * (1 + 1e-6)
    assert found.replicas["d"] == 1
    assert found.replicas["p"] == min(prefill, int(budget / 3))
    limited = (prefill, decode) != tuple(found.replicas.values())
    assert found.limits == ((f"budget of {budget:g} USD an hour",) if limited else ())


ENTRIES = st.lists(st.tuples(st.floats(0, 100), st.integers(0, 9), st.none() | st.integers(0, 9)), max_size=8)


@given(ENTRIES, st.floats(0, 100), st.integers(0, 9))
def test_a_history_knows_the_extremes_of_a_window(entries, since, present):
    history = History(
        tuple(SizingRecord(t, {"g": n}, standby=None if s is None else {"g": s}) for t, n, s in entries)
    )
    recent = [(n, s) for t, n, s in entries if t >= since]

    assert history.highest("g", since, present) == max([present, *(n for n, _ in recent)])
    assert history.lowest("g", since, present) == min([present, *(n for n, _ in recent)])
    assert history.least_standby("g", since, present) == min(
        [present, *(s for _, s in recent if s is not None)]
    )
    assert history.highest("another", since, present) == present
    assert history.lowest("another", since, present) == present
    assert history.least_standby("another", since, present) == present


def decision(time: float, **more) -> Decision:
    return Decision(time, {"g": 3}, Reason.DEMAND, "", 3, 0, time + 15, **more)


def test_a_history_keeps_what_was_wanted_as_long_as_it_is_used():
    history = History.start({"g": 1}, 0.0)
    assert (history.highest("g", 0.0, 0), history.target, history.seen_traffic) == (1, None, False)

    history = history.add(
        decision(100.0, wanted={"g": 2}, rate=1.5, standby={"g": 1}, corrections={"wait": 2.0})
    )
    assert (history.target, history.seen_traffic, history.corrections) == ({"g": 3}, True, {"wait": 2.0})
    assert history.entries[-1] == SizingRecord(100.0, {"g": 2}, 1.5, {"g": 1})
    later = history.add(decision(110.0), keep=10.0)
    assert [entry.time for entry in later.entries] == [100.0]
    assert later.seen_traffic
    assert [entry.time for entry in history.add(decision(110.1), keep=10.0).entries] == []
    assert len(history.add(decision(3600.0)).entries) == 2
    assert len(history.add(decision(3601.0)).entries) == 1
    assert not History().add(decision(0.0, rate=0.0)).seen_traffic
    assert not History().add(decision(0.0)).seen_traffic


def test_a_restart_begins_with_the_newest_decision():
    old = decision(10.0, wanted={"g": 1}).record()
    new = Decision(
        20.0, {"g": 5}, Reason.PAUSED, "", 5, 0, 35.0, inputs={"waitCorrection": 1.5, "x": 2.0}
    ).record()
    history = History.restore([new, old], {"g": 4}, 100.0)

    assert history.entries == (SizingRecord(100.0, {"g": 4}),)
    assert (history.target, history.seen_traffic, dict(history.corrections)) == (
        {"g": 5},
        True,
        {"wait": 1.5},
    )
    assert not History.restore([new], {"g": 4}, 100.0).seen_traffic
    fresh = History.restore([], {"g": 4}, 100.0)
    assert (fresh.target, fresh.seen_traffic, dict(fresh.corrections)) == (None, False, {})


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 20),
    st.integers(0, 20),
    st.none() | st.integers(2, 40),
)
def test_replicas_at_a_ratio_have_it_and_cover_what_is_needed_where_that_fits(p, d, prefill, decode, budget):
    problem = pool(groups=(group("p", P, most=16), group("d", D, most=16)), budget_devices=budget)
    ratio = Fraction(p, d)
    found = at_ratio(problem, ratio, {"p": prefill, "d": decode})
    times = found["p"] // ratio.numerator

    assert (found["p"], found["d"]) == (times * ratio.numerator, times * ratio.denominator)
    assert times >= 1
    fits = 16 // max(ratio.numerator, ratio.denominator)
    if budget is not None:
        fits = max(1, min(fits, budget // (ratio.numerator + ratio.denominator)))
    wanted = max(-(-min(prefill, 16) // ratio.numerator), -(-min(decode, 16) // ratio.denominator), 1)
    assert times == min(wanted, fits)


def test_the_first_groups_take_a_ratios_replicas_first_and_one_side_alone_has_none():
    groups = (group("p", P, most=3), group("q", P, least=2, most=9), group("d", D))

    assert at_ratio(pool(groups=groups), Fraction(2), {"d": 4}) == {"p": 3, "q": 5, "d": 4}
    assert at_ratio(pool(groups=groups[:2]), Fraction(2), {"p": 5}) == {"p": 3, "q": 2}


@pytest.mark.parametrize(
    ("prompt", "output", "ratio"),
    [
        (9000, 300, DEFAULT_RATIO_LONG_PROMPTS),
        (9000, 600, DEFAULT_RATIO_CHAT),
        (7000, 300, DEFAULT_RATIO_CHAT),
    ],
)
def test_lengths_choose_the_rule_of_thumb_unless_the_spec_does(prompt, output, ratio):
    found = window(1.0, prompt, output)

    assert thumb(pool(), found) == ratio
    assert thumb(pool(startup_ratio=Fraction(7, 3)), found) == Fraction(7, 3)
    assert thumb(pool(), None) == DEFAULT_RATIO_CHAT
    assert thumb(pool(), window(0.0)) == DEFAULT_RATIO_CHAT
