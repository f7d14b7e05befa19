"""Attention here, FFN there: an exchange at every layer of every step.

One hidden vector a token goes each way at each layer, so the cost recurs with every step:
longer outputs never repay it, only a faster FFN or useful freed memory does.
Freed memory is useful only under two conditions, which `judge_capacity` keeps apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import comb

from . import checks
from .handoff import break_even_hidden

__all__ = [
    "Capacity",
    "CapacityCase",
    "Exchange",
    "ExchangeTimes",
    "destinations_per_token",
    "judge_capacity",
    "price_exchange",
    "send_probability",
    "tokens_per_expert",
]


@dataclass(frozen=True)
class Exchange:
    """One decode step whose FFN runs on another device."""

    hidden_size: int
    layers: int
    batch: int
    link_bytes_per_second: float
    element_bytes: float = 2.0
    ffn_saving_seconds: float = 0.0
    """How much sooner the FFN part of one step ends on its own device."""
    hidden: float = 0.0
    """Share of the exchange that other micro-batches cover, 0 to 1."""
    destinations: float = 1.0
    """FFN devices a token is sent to on average (see `destinations_per_token`)."""


@dataclass(frozen=True)
class ExchangeTimes:
    """The exchange of one step, in bytes and seconds."""

    transfer_bytes: float
    bytes_per_token: float
    transfer_seconds: float
    exposed_seconds: float
    delta_seconds: float
    """Split minus local for one step: above 0 the split is later."""
    break_even_hidden: float | None
    break_even_link_bytes_per_second: float | None


def price_exchange(exchange: Exchange) -> ExchangeTimes:
    """Return bytes, times and break-evens of one step; raises InputError for an impossible input."""
    checks.whole("hidden size", exchange.hidden_size)
    checks.whole("layers", exchange.layers)
    checks.whole("batch", exchange.batch)
    checks.positive("link bandwidth", exchange.link_bytes_per_second)
    checks.positive("element bytes", exchange.element_bytes)
    checks.share("hidden", exchange.hidden)
    checks.positive("destinations", exchange.destinations)
    per_token = 2 * exchange.hidden_size * exchange.layers * exchange.element_bytes * exchange.destinations
    total = per_token * exchange.batch
    transfer = total / exchange.link_bytes_per_second
    exposed = transfer * (1 - exchange.hidden)
    saved = exchange.ffn_saving_seconds
    exposed_bytes = total * (1 - exchange.hidden)
    return ExchangeTimes(
        transfer_bytes=total,
        bytes_per_token=per_token,
        transfer_seconds=transfer,
        exposed_seconds=exposed,
        delta_seconds=exposed - saved,
        break_even_hidden=break_even_hidden(transfer, saved),
        break_even_link_bytes_per_second=exposed_bytes / saved if saved > 0 else None,
    )


def send_probability(experts: int, experts_per_token: int, ranks: int) -> float:
    """Return the chance that a token needs a given FFN rank: 1 − C(E−E/N, k) / C(E, k).

    Experts are spread evenly over `ranks`, and each token's experts are drawn without preference.
    """
    checks.whole("experts", experts)
    checks.whole("experts per token", experts_per_token)
    checks.whole("FFN ranks", ranks)
    if experts % ranks:
        raise checks.InputError(
            "FFN ranks", f"{experts} experts don't divide by {ranks}", "choose a divisor of the experts"
        )
    if experts_per_token > experts:
        raise checks.InputError(
            "experts per token", f"{experts_per_token} is above {experts} experts", "give at most the experts"
        )
    return 1 - comb(experts - experts // ranks, experts_per_token) / comb(experts, experts_per_token)


def destinations_per_token(experts: int, experts_per_token: int, ranks: int) -> float:
    """Return how many FFN ranks a token is sent to on average."""
    return ranks * send_probability(experts, experts_per_token, ranks)


def tokens_per_expert(batch: float, experts: int, experts_per_token: int) -> float:
    """Return how many tokens of a step one expert sees on average (a dense FFN is one expert)."""
    return batch * experts_per_token / experts


class CapacityCase(StrEnum):
    """The worth of freed weight memory."""

    NOTHING_WAITS = "NothingWaits"
    """No request waits for KV space: the freed memory stays empty, the exchange is pure cost."""
    FFN_FULL = "FfnFull"
    """Requests wait, but the FFN side is at its limit: more of them only queue there."""
    FILLS_EXPERTS = "FillsExperts"
    """Requests wait and experts have room: freed space becomes tokens an expert, and a better rate."""


@dataclass(frozen=True)
class Capacity:
    """The verdict on freed memory, with the figures that led to it."""

    case: CapacityCase
    freed_requests: float
    admitted_requests: float
    """Requests that come in at once: the fewer of those freed and those waiting."""
    tokens_per_expert_before: float
    tokens_per_expert_after: float
    tokens_per_expert_limit: float
    message: str


def judge_capacity(
    *,
    freed_bytes: float,
    request_bytes: float,
    batch: float,
    waiting_requests: float,
    experts: int,
    experts_per_token: int,
    tokens_per_expert_limit: float,
) -> Capacity:
    """Return which of the three cases holds: free space, more requests, more tokens an expert, better rate.

    The chain breaks at the first link that doesn't hold, and the case names that link.
    """
    freed = checks.at_least("freed bytes", freed_bytes) / checks.positive("request bytes", request_bytes)
    waiting = checks.at_least("waiting requests", waiting_requests)
    limit = checks.positive("tokens per expert limit", tokens_per_expert_limit)
    before = tokens_per_expert(checks.at_least("batch", batch), experts, experts_per_token)
    admitted = min(freed, waiting)
    after = tokens_per_expert(batch + admitted, experts, experts_per_token)
    if admitted < 1:
        case = CapacityCase.NOTHING_WAITS
        message = (
            f"room for {freed:.1f} more requests is freed but {waiting:g} wait for it: "
            "the exchange is pure cost"
        )
    elif before >= limit:
        case = CapacityCase.FFN_FULL
        message = (
            f"experts already see {before:.1f} tokens a step and are full at {limit:.1f}: "
            "more requests would only queue for the FFN"
        )
    else:
        case = CapacityCase.FILLS_EXPERTS
        message = (
            f"{admitted:.1f} waiting requests come in and experts go from {before:.1f} to {after:.1f} "
            f"tokens a step (full at {limit:.1f}): worth measuring against the exchange"
        )
    return Capacity(
        case=case,
        freed_requests=freed,
        admitted_requests=admitted,
        tokens_per_expert_before=before,
        tokens_per_expert_after=after,
        tokens_per_expert_limit=limit,
        message=message,
    )
