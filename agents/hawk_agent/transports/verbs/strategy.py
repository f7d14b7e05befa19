"""How a transfer's bytes go over verbs, chosen by price. Pure.

    gather-writes   the sender writes; the card gathers each of the destination's runs from the source
    contiguous      the same where every write is one piece: the layouts agree in what they keep together
    scatter-reads   the receiver reads; the card scatters each of the source's runs over the destination
    tile-then-send  the sender translates into a registered bounce buffer and writes whole runs from it
    send-then-tile  the receiver reads the source's runs into a bounce buffer and translates from there

The sender chooses, for it knows its card's prices, and tells the receiver in its offer. In the two that read
the receiver sets the pace, so its bounce buffer never overflows and reads under way are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hawk_agent import plans
from hawk_agent.errors import TransportError

if TYPE_CHECKING:
    from hawk_agent.layouts import Nest
    from hawk_agent.plans import Costs, RequestLimits

FEW_FEATURES: Final = 4
"""A piece of fewer feature dimensions than this costs a card more than it carries."""


class VerbsStrategy(Enum):
    """The strategies, named as in offers, settings and metrics."""

    GATHER = "gather-writes"
    CONTIGUOUS = "contiguous"
    SCATTER = "scatter-reads"
    TILE_FIRST = "tile-then-send"
    TILE_LAST = "send-then-tile"

    @property
    def pulled(self) -> bool:
        """True if the receiver reads, so that the source is opened and not the destination."""
        return self in {VerbsStrategy.SCATTER, VerbsStrategy.TILE_LAST}


@dataclass(frozen=True, slots=True)
class StrategyDecision:
    """The choice and its reason: `prices` are the (way, predicted seconds) of all that are possible."""

    way: VerbsStrategy
    seconds: float
    why: str
    prices: tuple[tuple[VerbsStrategy, float], ...]
    warning: str = ""


@lru_cache(maxsize=256)
def decide_strategy(
    nest: Nest, costs: Costs, limits: RequestLimits, *, rails: int = 1, forced: VerbsStrategy | None = None
) -> StrategyDecision:
    """The cheapest way to move a nest over so many equal rails, or the one asked for. Decided once a nest.

    TransportError when the one asked for isn't possible here.
    """
    found = {one.name: one for one in plans.applicable_strategies(nest, _over(costs, rails), limits)}
    prices = {
        way: found[way.value].seconds
        for way in VerbsStrategy
        if way.value in found and not found[way.value].refused
    }
    gather = found[VerbsStrategy.GATHER.value]
    if gather.sges == gather.work_requests:
        prices = {VerbsStrategy.CONTIGUOUS: prices[VerbsStrategy.GATHER]} | prices
    if forced is not None and forced not in prices:
        raise TransportError(
            f"strategy {forced.value} isn't possible for {nest.source} to {nest.destination}; "
            f"possible: {', '.join(way.value for way in prices)}"
        )
    way = forced or min(prices, key=lambda one: prices[one])
    listed = tuple(sorted(prices.items(), key=lambda item: item[1]))
    told = ", ".join(f"{one.value} {seconds * 1e3:.3g} ms" for one, seconds in listed)
    counted = gather if way is VerbsStrategy.CONTIGUOUS else found[way.value]
    why = (
        f"{'asked for' if forced else 'the least'} of {told}; "
        f"{counted.work_requests} requests of {counted.sges} pieces, limited by {counted.limited_by}"
    )
    return StrategyDecision(way, prices[way], why, listed, _warning(nest, way))


def _over(costs: Costs, rails: int) -> Costs:
    """Prices of so many equal cards; the processor stays one."""
    return replace(
        costs,
        link_bytes_per_s=costs.link_bytes_per_s * rails,
        request_seconds=costs.request_seconds / rails,
        read_request_seconds=costs.read_request_seconds / rails,
        sge_seconds=costs.sge_seconds / rails,
    )


def _warning(nest: Nest, way: VerbsStrategy) -> str:
    """A warning about pieces of few features; empty where pieces are long enough or no card handles them."""
    if way not in {VerbsStrategy.GATHER, VerbsStrategy.SCATTER} or not nest.moves:
        return ""
    features = min(move.run for move in nest.moves) // nest.destination.itemsize
    if features >= FEW_FEATURES:
        return ""
    return (
        f"a piece holds {features} feature dimension{'s' if features != 1 else ''}, "
        f"fewer than {FEW_FEATURES}: the card spends its time on descriptors; "
        "use tiles with a longer feature axis, or tile-then-send"
    )
