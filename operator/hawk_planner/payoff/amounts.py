"""Numbers for people: bytes and rates with a prefix, the rest with as many digits as are worth reading."""

from __future__ import annotations

__all__ = ["amount", "figure"]

PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
PREFIXED = {"bytes": "B", "bytes/s": "B/s", "FLOP/s": "FLOP/s"}
"""Units that are written with a prefix, and their symbols."""


def figure(value: float | None, digits: int = 1) -> str:
    """Return a number for people, empty when there is none."""
    return "" if value is None else f"{value:,.{digits}f}"


def amount(value: float, unit: str) -> str:
    """Return a value with its unit: 3.35 TB/s for 3.35e12 bytes/s, 15,350 tokens, 0.6 for a share."""
    symbol = PREFIXED.get(unit)
    if symbol is not None:
        for factor, prefix in PREFIXES:
            if abs(value) >= factor:
                return f"{_plain(value / factor)} {prefix}{symbol}"
    return f"{_plain(value)} {symbol or unit}".strip()


def _plain(value: float) -> str:
    """Four digits, and never an exponent for a large number."""
    if abs(value) >= 1e4:
        return f"{value:,.0f}"
    return f"{float(f'{value:.4g}'):,.6g}"
