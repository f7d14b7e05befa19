"""The ways to carry out a nest, each with its price; `choose` takes the cheapest that is possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_agent.layouts.errors import LayoutError
from hawk_agent.plans.counts import RequestLimits, Transfers, contiguous, gather_writes, scatter_reads
from hawk_agent.plans.keeping import Keeping, keeping
from hawk_agent.plans.keying import key_plans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hawk_agent.layouts import Nest
    from hawk_agent.plans.costs import Costs
    from hawk_agent.plans.keys import KeyPlan

LOCAL = ("fused-copy",)
"""Strategies between processes of one machine."""
REMOTE = ("gather-writes", "scatter-reads", "tile-then-send", "send-then-tile")
"""Strategies over a network card that agents carry out."""
KEYED = ("strided-keys", "interleaved-keys", "list-keys")
"""Strategies through strided keys. They are planned and priced; no agent posts them yet."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to carry out a nest.

    Attributes:
        name: one of `LOCAL`, `REMOTE` or `KEYED`.
        seconds: predicted time.
        work_requests, sges: what a network card is asked for; 0 where none is involved.
        keys, remote_keys: strided keys in use, and those of them that the peer must be told.
        limited_by: what the time goes into.
        refused: why it isn't possible, or an empty text.
    """

    name: str
    seconds: float
    work_requests: int = 0
    sges: int = 0
    keys: int = 0
    remote_keys: int = 0
    limited_by: str = ""
    refused: str = ""


def applicable_strategies(nest: Nest, costs: Costs, limits: RequestLimits | None = None) -> list[Strategy]:
    """Every strategy for a nest, those between machines by what the cards do; impossible ones say why."""
    bounds = limits or RequestLimits()
    nbytes = nest.payload_nbytes
    translate = nbytes / costs.translate_bytes_per_s
    link = nbytes / costs.link_bytes_per_s
    found = [Strategy("fused-copy", translate, limited_by="memory")]
    for name, transfers, request in (
        ("gather-writes", gather_writes(nest, bounds), costs.request_seconds),
        ("scatter-reads", scatter_reads(nest, bounds), costs.read_request_seconds),
    ):
        found.append(_listed(name, transfers, request, costs, link))
    found += [_keyed(plan, keeping(nest, plan, bounds), costs, link) for plan in key_plans(nest, bounds)]
    for name, side, request in (
        ("tile-then-send", 1, costs.request_seconds),
        ("send-then-tile", 0, costs.read_request_seconds),
    ):
        price = request + costs.sge_seconds
        found.append(_bounced(name, nest, side, price, bounds, translate=translate, link=link))
    return found


def choose_strategy(found: Iterable[Strategy], *, among: Iterable[str] = LOCAL + REMOTE) -> Strategy:
    """The possible strategy of the least predicted time.

    Raises:
        LayoutError: none of those asked for is possible; the message has each one's reason.
    """
    allowed = set(among)
    asked = [strategy for strategy in found if strategy.name in allowed]
    possible = [strategy for strategy in asked if not strategy.refused]
    if not possible:
        reasons = "; ".join(f"{strategy.name}: {strategy.refused}" for strategy in asked)
        raise LayoutError(
            f"strategy: none of {', '.join(sorted(allowed))} is possible ({reasons or 'no data'})"
        )
    return min(possible, key=lambda strategy: strategy.seconds)


def _slowest(**seconds: float) -> tuple[float, str]:
    name = max(seconds, key=lambda key: seconds[key])
    return seconds[name], name


def _listed(name: str, transfers: Transfers, request: float, costs: Costs, link: float) -> Strategy:
    cards = transfers.work_requests * request + transfers.sges * costs.sge_seconds
    seconds, limit = _slowest(link=link, descriptors=cards)
    return Strategy(name, seconds, transfers.work_requests, transfers.sges, limited_by=limit)


def _keyed(plan: KeyPlan, kept: Keeping, costs: Costs, link: float) -> Strategy:
    made: float = plan.source_keys + plan.destination_keys
    if costs.key_uses > 1 and not kept.refused:
        made = min(made, kept.moving + kept.kept / costs.key_uses)
    seconds, limit = _slowest(
        link=link,
        entries=plan.entries * costs.entry_seconds,
        keys=made * (costs.key_seconds + costs.invalidate_seconds) + plan.writes * costs.request_seconds,
    )
    return Strategy(
        f"{plan.name}-keys",
        seconds,
        plan.writes,
        plan.writes,
        plan.source_keys + plan.destination_keys,
        plan.destination_keys,
        limit,
        plan.refused,
    )


def _bounced(
    name: str, nest: Nest, side: int, request: float, limits: RequestLimits, *, translate: float, link: float
) -> Strategy:
    """Tile on one side through a registered ring, and move whole stretches: the two overlap."""
    requests = 0
    for move in nest.moves:
        stretch = contiguous(move, side)
        requests += move.nbytes // stretch * -(-stretch // limits.max_message_bytes)
    seconds, limit = _slowest(memory=translate, link=link, descriptors=requests * request)
    return Strategy(name, seconds, requests, requests, limited_by=limit)
