"""Compatibility of two agents. Pure: facts of both sides in, reasons with both values out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hawk_agent.errors import HawkAgentError
from hawk_agent.layouts import LayoutError, mismatches
from hawk_agent.transfer import translation as translations
from hawk_api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hawk_agent.layouts import Layout
    from hawk_agent.protocol import peer_pb2


class HandshakeProblem(NamedTuple):
    """Why a link isn't what it should be."""

    reason: Reason
    message: str


def check_identity(
    mine: peer_pb2.Identity, theirs: peer_pb2.Identity, expected_node: str, certified: Sequence[str] | None
) -> HandshakeProblem | None:
    """The first thing that forbids working with this peer, or None.

    `certified` are the names in the peer's certificate, None without TLS.
    """
    if theirs.protocol != mine.protocol:
        return HandshakeProblem(
            Reason.AGENT_INCOMPATIBLE,
            f"protocol {theirs.protocol} (agent {theirs.version}) on {theirs.node or 'it'}, "
            f"{mine.protocol} (agent {mine.version}) on {mine.node}; run one version on both nodes",
        )
    if not theirs.node or not theirs.epoch:
        return HandshakeProblem(
            Reason.PEER_REFUSED, "the peer says neither its node nor its epoch; it is no agent of ours"
        )
    if expected_node and theirs.node != expected_node:
        return HandshakeProblem(
            Reason.PEER_REFUSED,
            f"the address answers as node {theirs.node}, {expected_node} was meant; check the addresses",
        )
    if theirs.node == mine.node and theirs.epoch != mine.epoch:
        return HandshakeProblem(
            Reason.PEER_REFUSED,
            f"both agents call themselves {mine.node}; give each node's agent its own name",
        )
    if certified is not None and theirs.node not in certified:
        return HandshakeProblem(
            Reason.NOT_TRUSTED,
            f"node {theirs.node} presents a certificate for {', '.join(certified) or 'nobody'}",
        )
    return None


def check_regions(
    mine: Iterable[peer_pb2.Region], theirs: Iterable[peer_pb2.Region]
) -> HandshakeProblem | None:
    """The first pair of regions of one pool, in different groups, that no translation joins."""
    known = list(mine)
    for their in theirs:
        for our in known:
            if our.pool != their.pool or our.group == their.group:
                continue
            problem = _pair(our, their)
            if problem:
                return problem
    return None


def _pair(our: peer_pb2.Region, their: peer_pb2.Region) -> HandshakeProblem | None:
    try:
        left, right = translations.layout_from_wire(our.layout), translations.layout_from_wire(their.layout)
        found = mismatches(*_comparable(left, right))
    except (LayoutError, HawkAgentError) as error:
        return HandshakeProblem(
            Reason.LAYOUTS_INCOMPATIBLE, f"pool {our.pool}, groups {our.group} and {their.group}: {error}"
        )
    if not found:
        return None
    values = " | ".join(f"{m.field}: {m.source} and {m.destination}" for m in found)
    return HandshakeProblem(
        Reason.LAYOUTS_INCOMPATIBLE,
        f"pool {our.pool}, groups {our.group} and {their.group} differ in {values}; {found[0].remedy}",
    )


def _comparable(left: Layout, right: Layout) -> tuple[Layout, Layout]:
    """The properties that two regions must share, whatever a request uses of them.

    Tokens and batch slots are a region's own capacity. Heads may differ by a whole factor: that is tensor
    parallelism, and each transfer names its window of heads.
    """
    for axis in "bsh":
        sizes = left.extent(axis).count, right.extent(axis).count
        small, large = min(sizes), max(sizes)
        if axis != "h" or large % small == 0:
            left, right = left.narrow(axis, 0, small), right.narrow(axis, 0, small)
    return left, right
