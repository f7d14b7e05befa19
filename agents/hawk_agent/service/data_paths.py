"""The data paths of an agent, best first, and which of them a peer has too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.protocol import peer_pb2
    from hawk_agent.transfer.transport import Transport


class DataPaths:
    """The open transports by name, in the order in which they are preferred."""

    def __init__(self, transports: Mapping[str, Transport], identity: peer_pb2.Identity) -> None:
        self.transports = transports
        self._identity = identity

    def shared_with(self, peer: peer_pb2.Identity) -> list[str]:
        """Those that both ends have, best first. To itself an agent prefers what needs no network."""
        same_host = peer.host == self._identity.host
        found = [
            name
            for name, transport in self.transports.items()
            if name in peer.transports and (same_host or not transport.same_host_only)
        ]
        if peer.epoch == self._identity.epoch:
            found.sort(key=lambda name: not self.transports[name].same_host_only)
        return found

    def explain_nothing_shared(self, peer: peer_pb2.Identity) -> str:
        """Why `shared_with` has nothing for this peer, with the names that each side has."""
        mine, theirs = ", ".join(self.transports), ", ".join(peer.transports)
        text = f"no data path in common: {peer.node} has {theirs or 'none'}, this agent has {mine or 'none'}"
        apart = ", ".join(name for name in self.transports if name in peer.transports)
        return f"{text}; {apart} works within one machine only" if apart else text

    async def adopt(self, region: CacheRegion) -> None:
        """An engine handed this memory over. An error of any path refuses it."""
        for transport in self.transports.values():
            await transport.adopt(region)

    def keep(self, peer: peer_pb2.Identity, regions: frozenset[str]) -> None:
        """Drop what is kept of a peer's regions other than these."""
        for transport in self.transports.values():
            transport.keep(_origin(peer), regions)

    def forget(self, peer: peer_pb2.Identity) -> None:
        """Drop what is kept of a peer's incarnation."""
        for transport in self.transports.values():
            transport.forget(_origin(peer))


def _origin(peer: peer_pb2.Identity) -> str:
    return f"{peer.node}/{peer.epoch}"
