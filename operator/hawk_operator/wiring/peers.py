"""The peers of every agent, computed for the whole cluster at once. Pure.

Prefill workers' nodes and decode workers' nodes of a pool reach each other. A link is one thing with two
ends, so peers are chosen as pairs: either both ends list each other or neither does. Where an agent would get
more than it may have, near pairs come first and a hash of the names decides among equals, so that a new node
moves few of the others.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hawk_api.reasons import Reason
from hawk_api.v1alpha1.hawknode import MAX_PEERS, MAX_POOLS, HawkNodeStatus, PoolTerms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Agent:
    """A HawkNode, as far as the wiring needs it."""

    name: str
    address: str = ""
    epoch: str = ""
    protocol: int | None = None
    host: str = ""
    zone: str = ""
    live: bool = False
    ready: bool = False
    """True if its HawkNode says Ready; an agent that is lost can't take that back."""
    verified: frozenset[str] = frozenset()
    problems: tuple[tuple[str, str, str], ...] = ()
    """(peer, reason, message) of links that aren't verified."""
    regions: tuple[tuple[str, str, str], ...] = ()
    """(namespace/pool, group, worker) of registered memory."""
    peers: tuple[tuple[str, str, str], ...] = ()
    """(node, address, epoch) that its spec has now."""
    expected: str = ""
    """The epoch in its spec."""
    terms: tuple[PoolTerms, ...] = ()
    """The pool settings in its present spec."""
    busy: tuple[tuple[str, str, str, bool], ...] = ()
    """(namespace/pool, group, worker, whether in use) of memory that it was asked about."""

    @property
    def reachable(self) -> bool:
        """True if it has said where it is and who it is."""
        return bool(self.address and self.epoch)


def agent_of(body: Mapping[str, Any], live: Iterable[str]) -> Agent:
    """An agent from a HawkNode's plain form."""
    metadata, spec = body["metadata"], body.get("spec") or {}
    status = HawkNodeStatus.model_validate(body.get("status") or {})
    return Agent(
        name=metadata["name"],
        address=status.address or "",
        epoch=status.epoch or "",
        protocol=status.protocol,
        host=status.host_id or "",
        zone=(metadata.get("labels") or {}).get(ZONE, ""),
        live=metadata["name"] in live and not metadata.get("deletionTimestamp"),
        ready=any(c.type == "Ready" and c.status == "True" for c in status.conditions),
        verified=frozenset(status.verified_peers),
        problems=tuple((item.peer, item.reason, item.message) for item in status.links.problems),
        regions=tuple((item.pool, item.group, item.worker) for item in status.regions),
        peers=tuple((p["node"], p["address"], p["epoch"]) for p in spec.get("peers") or ()),
        expected=str(spec.get("expectedEpoch") or ""),
        terms=tuple(PoolTerms.model_validate(entry) for entry in spec.get("pools") or ()),
        busy=tuple((r.pool, r.group, r.worker, r.busy) for r in status.regions if r.busy is not None),
    )


@dataclass(frozen=True)
class Sides:
    """The nodes of one pool by what its workers there do; a node may be on both sides."""

    prefill: frozenset[str] = frozenset()
    decode: frozenset[str] = frozenset()

    def pairs(self) -> frozenset[tuple[str, str]]:
        """Unordered pairs of nodes between which KV may move; a node on both sides pairs with itself."""
        return frozenset(
            (min(left, right), max(left, right)) for left in self.prefill for right in self.decode
        )


@dataclass(frozen=True)
class Wiring:
    """The chosen pairs, and the pairs that can't be linked with (reason, message)."""

    peers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refused: Mapping[tuple[str, str], tuple[Reason, str]] = field(default_factory=dict)


def wire_agents(sides: Iterable[Sides], agents: Mapping[str, Agent], limit: int = MAX_PEERS) -> Wiring:
    """Choose the pairs for all pools together; every agent gets at most `limit` peers, sorted by name."""
    ambiguous = _ambiguous(agents.values())
    wanted = {pair for side in sides for pair in side.pairs()}
    refused: dict[tuple[str, str], tuple[Reason, str]] = {}
    possible = []
    for pair in wanted:
        left, right = (agents.get(name) for name in pair)
        if left is None or right is None or not left.reachable or not right.reachable:
            continue  # no agent there, or not yet: the pool's condition says so
        problem = _clash(left, right, ambiguous)
        if problem:
            refused[pair] = problem
        else:
            possible.append(pair)
    counts: Counter[str] = Counter()
    chosen: dict[str, list[str]] = {}
    for pair in _by_preference(possible, agents, limit):
        left_name, right_name = pair
        if counts[left_name] >= limit or counts[right_name] >= limit:
            full = left_name if counts[left_name] >= limit else right_name
            refused[pair] = (
                Reason.TOO_MANY_PEERS,
                f"{full} has {limit} peers already, the most there may be",
            )
            continue
        for one, other in {pair, pair[::-1]}:
            counts[one] += 1
            chosen.setdefault(one, []).append(other)
    return Wiring({name: tuple(sorted(others)) for name, others in chosen.items()}, refused)


def _by_preference(
    pairs: list[tuple[str, str]], agents: Mapping[str, Agent], limit: int
) -> list[tuple[str, str]]:
    """The pairs in the order in which places are given; any order where there are places for all of them."""
    counts = Counter(name for pair in pairs for name in {*pair})
    if all(count <= limit for count in counts.values()):
        return pairs
    return sorted(pairs, key=lambda pair: (_distance(*(agents[name] for name in pair)), _spread(pair), pair))


def rewired_agents(before: Wiring, after: Wiring) -> frozenset[str]:
    """The agents whose peers, or whose refused pairs, are others than before."""
    peers = {
        name
        for name in {*before.peers, *after.peers}
        if before.peers.get(name, ()) != after.peers.get(name, ())
    }
    refused = {
        pair
        for pair in {*before.refused, *after.refused}
        if before.refused.get(pair) != after.refused.get(pair)
    }
    return frozenset(peers.union(*refused))


@dataclass(frozen=True)
class NodeSpec:
    """A HawkNode's spec as it should be."""

    epoch: str
    peers: tuple[tuple[str, str, str], ...] = ()
    """(node, address, epoch), by node."""
    terms: tuple[PoolTerms, ...] = ()
    """By pool."""

    def to_dict(self) -> dict[str, Any]:
        """As it is applied."""
        return {
            "expectedEpoch": self.epoch,
            "peers": [{"node": n, "address": address, "epoch": epoch} for n, address, epoch in self.peers],
            "pools": [entry.to_dict() for entry in self.terms],
        }


def spec_of(
    agent: Agent, peers: Iterable[str], agents: Mapping[str, Agent], terms: Iterable[PoolTerms] = ()
) -> NodeSpec:
    """The desired spec of an agent's HawkNode."""
    return NodeSpec(
        agent.epoch,
        tuple((name, agents[name].address, agents[name].epoch) for name in peers),
        tuple(sorted(terms, key=lambda entry: entry.pool))[:MAX_POOLS],
    )


def is_outdated(agent: Agent, wanted: NodeSpec) -> bool:
    """True if the spec must be written. An agent that is told nothing and needs nothing is left alone."""
    if not (wanted.peers or wanted.terms or agent.peers or agent.terms):
        return False
    return (wanted.peers, wanted.terms, wanted.epoch) != (
        tuple(sorted(agent.peers)),
        tuple(sorted(agent.terms, key=lambda entry: entry.pool)),
        agent.expected,
    )


def _ambiguous(agents: Iterable[Agent]) -> dict[str, str]:
    """Agents with an address that another has too, by name; of several, one that alone lives is right."""
    by_address: dict[str, list[Agent]] = {}
    for agent in agents:
        if agent.address:
            by_address.setdefault(agent.address, []).append(agent)
    found = {}
    for group in by_address.values():
        if len(group) < 2:
            continue
        alive = [agent for agent in group if agent.live]
        for agent in group:
            if len(alive) != 1 or agent is not alive[0]:
                found[agent.name] = next(other.name for other in group if other is not agent)
    return found


def _clash(left: Agent, right: Agent, ambiguous: Mapping[str, str]) -> tuple[Reason, str] | None:
    for agent in (left, right):
        if agent.name in ambiguous:
            return (
                Reason.PEER_REFUSED,
                f"{agent.name} and {ambiguous[agent.name]} both say that they are at {agent.address}",
            )
    if None not in (left.protocol, right.protocol) and left.protocol != right.protocol:
        return (
            Reason.AGENT_INCOMPATIBLE,
            f"{left.name} speaks protocol {left.protocol}, {right.name} speaks {right.protocol}",
        )
    return None


def _distance(left: Agent, right: Agent) -> int:
    if left.name == right.name or (left.host and left.host == right.host):
        return 0
    if left.zone and left.zone == right.zone:
        return 1
    return 2


def _spread(pair: tuple[str, str]) -> bytes:
    return hashlib.sha256("\0".join(pair).encode()).digest()[:8]
