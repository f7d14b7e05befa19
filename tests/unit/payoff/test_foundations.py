"""Roofline and money: the small laws under every plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_planner.payoff import economics
from hawk_planner.payoff.roofline import Machine, attainable_flops, mfu_limit

from .pools import FEW

H100 = Machine(989e12, 3.35e12)
TARIFF = economics.Tariff(years=4, usd_per_kwh=0.1, power_usage_effectiveness=1.3)


def test_roofline_of_the_two_devices() -> None:
    assert H100.ridge == pytest.approx(295.2, abs=0.1)
    assert mfu_limit(2.4, H100) == pytest.approx(0.00813, abs=5e-5)
    assert mfu_limit(2.4, Machine(180e12, 1.8e12)) == pytest.approx(0.024)
    assert attainable_flops(1e4, H100) == 989e12


def test_hourly_cost_of_a_purchase() -> None:
    """32,000 USD over 4 years and 700 W at 0.10 USD with 30% overhead, by hand."""
    cost = economics.hourly_cost_usd(watts=700, price_usd=32000, price_per_hour_usd=None, tariff=TARIFF)
    assert cost == pytest.approx(32000 / (4 * 365.25 * 24) + 0.7 * 1.3 * 0.1)


def test_an_hourly_price_includes_everything_and_an_unknown_price_stays_unknown() -> None:
    def cost(**known: float | None) -> float | None:
        base: dict[str, float | None] = {"watts": None, "price_usd": None, "price_per_hour_usd": None}
        return economics.hourly_cost_usd(**{**base, **known}, tariff=TARIFF)

    assert cost(price_per_hour_usd=2.5, price_usd=1e6, watts=700) == 2.5
    assert cost(price_usd=32000) is None
    assert cost(watts=700) is None
    assert cost(price_per_hour_usd=0) == 0


@FEW
@given(st.floats(1, 1e5), st.floats(0.1, 1e6))
def test_twice_the_tokens_halve_cost_and_energy(amount: float, rate: float) -> None:
    assert economics.usd_per_million_tokens(amount, 2 * rate) == pytest.approx(
        economics.usd_per_million_tokens(amount, rate) / 2
    )
    assert economics.joules_per_token(amount, 2 * rate) == pytest.approx(
        economics.joules_per_token(amount, rate) / 2
    )
