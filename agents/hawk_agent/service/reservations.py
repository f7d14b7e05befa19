"""Leases on this node's memory: granted to engines, and told to their prefill sides as tickets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_agent.errors import UnknownLeaseError
from hawk_agent.protocol import common_pb2, engine_pb2
from hawk_agent.transfer import translation as translations

if TYPE_CHECKING:
    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.protocol import peer_pb2
    from hawk_agent.service.pools import PoolTable
    from hawk_agent.streaming.lease import LeaseTerms
    from hawk_agent.streaming.table import HeldLease, LeaseRecord, LeaseTable


class Reservations:
    """Grants leases and writes their tickets."""

    def __init__(
        self,
        table: LeaseTable,
        pools: PoolTable,
        identity: peer_pb2.Identity,
        defaults: LeaseTerms,
    ) -> None:
        self._table = table
        self._pools = pools
        self._identity = identity
        self._defaults = defaults
        self.address = ""
        """host:port that peers are told; set when they are served."""

    def reserve(self, request: engine_pb2.Reserve, region: CacheRegion, owner: object) -> HeldLease:
        """Grant a lease on a part of a region."""
        extent = request.extent
        selection = (
            translations.Selection(region.layout)
            if extent.empty
            else translations.select_extent(region.layout, extent.windows, extent.blocks)
        )
        asked = self._pools.get(region.pool)
        terms = asked.over(self._defaults, request.grace_ms / 1000, request.max_grace_ms / 1000)
        return self._table.grant(
            region,
            selection,
            terms,
            request=request.request,
            verify=request.verify or asked.verify or common_pb2.VERIFY_ALWAYS,
            owner=owner,
            empty=extent.empty,
        )

    def ticket(self, held: HeldLease) -> engine_pb2.Ticket:
        """The ticket by which the prefill side fills a lease."""
        terms = held.lease.terms
        return engine_pb2.Ticket(
            node=self._identity.node,
            address=self.address,
            epoch=self._identity.epoch,
            lease=held.id,
            slot=held.slot,
            generation=held.generation,
            token=held.token,
            layout=translations.layout_to_wire(held.selection.layout),
            blocks=held.selection.blocks,
            empty=held.empty,
            verify=held.verify,
            grace_ms=round(terms.grace * 1000),
            max_grace_ms=round(terms.max_grace * 1000),
            request=held.request,
            pool=held.region.pool,
        )

    def on_failure(self, held: HeldLease) -> str:
        """The pool's action for a request whose transfer failed; empty where it sets none."""
        return self._pools.get(held.region.pool).on_failure

    def of(self, lease: int, owner: object) -> LeaseRecord:
        """A lease of this owner's. UnknownLeaseError for any other."""
        held = self._table.get(lease)
        if held.owner is not owner:
            raise UnknownLeaseError(f"lease {lease} belongs to another engine")
        return held

    def owned_by(self, owner: object) -> list[HeldLease]:
        """The live leases of an owner."""
        return self._table.owned_by(owner)

    def report(self, record: LeaseRecord) -> engine_pb2.Ended:
        """How a lease ended."""
        return self._table.report(record)
