"""Energy and money: what a pool draws and costs, a token at a time.

Power is the declared power of every device as long as the pool is on: idle capacity is paid for too.
Money is a price by the hour where one is declared; else the purchase price over its years, with electricity.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import checks

__all__ = [
    "Tariff",
    "capital_per_rate",
    "hourly_cost_usd",
    "joules_per_token",
    "price_per_bandwidth",
    "usd_per_million_tokens",
]

HOURS_A_YEAR = 8766.0


@dataclass(frozen=True)
class Tariff:
    """How a purchase becomes a cost by the hour."""

    years: float
    """Over which a purchase is written off."""
    usd_per_kwh: float
    power_usage_effectiveness: float
    """Energy of the building over that of the devices, 1 or more."""


def joules_per_token(watts: float, tokens_per_second: float) -> float:
    """Return the energy of one output token."""
    return checks.at_least("power", watts) / checks.positive("tokens per second", tokens_per_second)


def hourly_cost_usd(
    *, watts: float | None, price_usd: float | None, price_per_hour_usd: float | None, tariff: Tariff
) -> float | None:
    """Return what one device costs an hour; None without a price by the hour or price and power.

    A price by the hour is taken to include electricity.
    """
    if price_per_hour_usd is not None:
        return checks.at_least("price per hour", price_per_hour_usd)
    if price_usd is None or watts is None:
        return None
    written_off = checks.at_least("price", price_usd) / (
        checks.positive("write-off years", tariff.years) * HOURS_A_YEAR
    )
    pue = checks.at_least("power usage effectiveness", tariff.power_usage_effectiveness, 1)
    kwh = checks.at_least("power", watts) / 1000 * pue
    return written_off + kwh * checks.at_least("electricity price", tariff.usd_per_kwh)


def usd_per_million_tokens(usd_per_hour: float, tokens_per_second: float) -> float:
    """Return the cost of a million tokens at a steady rate."""
    return usd_per_hour / 3600 / checks.positive("tokens per second", tokens_per_second) * 1e6


def capital_per_rate(price_usd: float, tokens_per_second: float) -> float:
    """Return the purchase price for one token a second."""
    return checks.at_least("price", price_usd) / checks.positive("tokens per second", tokens_per_second)


def price_per_bandwidth(price_usd: float, bytes_per_second: float) -> float:
    """Return USD for one TB/s of memory bandwidth."""
    return checks.at_least("price", price_usd) / (
        checks.positive("memory bandwidth", bytes_per_second) / 1e12
    )
