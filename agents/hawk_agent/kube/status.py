"""A HawkNode's status from what the agent holds. Pure, bounded, and the same for the same facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hawk_agent.service.links import LinkState
from hawk_api.conditions import NodeConditionType
from hawk_api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hawk_agent.memory.region import CacheRegion
    from hawk_agent.protocol import peer_pb2
    from hawk_agent.service.links import LinkFacts
    from hawk_agent.transfer.transport import RailFacts

MAX_REGIONS: Final = 64
MAX_PROBLEMS: Final = 16
MAX_RAILS: Final = 16
MAX_PEERS: Final = 64
MESSAGE: Final = 256
UP: Final = frozenset({LinkState.UP, LinkState.VERIFIED})

Object = dict[str, Any]


def build_node_status(
    identity: peer_pb2.Identity,
    address: str,
    regions: Iterable[CacheRegion],
    links: Sequence[LinkFacts],
    rails: Iterable[RailFacts] = (),
    *,
    busy: Mapping[str, bool] | None = None,
) -> Object:
    """The status without its conditions. Rates and times are metrics: nothing here changes by itself."""
    known = sorted(regions, key=lambda region: (region.pool, region.group, region.worker, region.name))
    verified = sorted({link.node for link in links if link.state is LinkState.VERIFIED})
    return {
        "epoch": identity.epoch,
        "version": identity.version,
        "protocol": identity.protocol,
        "address": address,
        "hostId": identity.host[:128],
        "regions": [_region(r, identity.epoch, busy or {}) for r in known if r.pool][:MAX_REGIONS],
        "regionCount": len(known),
        "links": {
            "up": sum(link.state in UP for link in links),
            "down": sum(link.state not in UP for link in links),
            "verified": sum(link.state is LinkState.VERIFIED for link in links),
            "problems": _problems(links),
        },
        "rails": [_rail(rail) for rail in rails][:MAX_RAILS],
        "verifiedPeers": verified[:MAX_PEERS],
    }


def _region(region: CacheRegion, epoch: str, busy: Mapping[str, bool]) -> Object:
    asked = {"busy": busy[region.identity]} if region.identity in busy else {}
    return {
        "pool": region.pool,
        "group": region.group,
        "worker": region.worker,
        "name": region.name[:63],
        "layout": region.layout.fingerprint,
        "bytes": region.nbytes,
        "epoch": f"{epoch[-8:]}-{region.identity}",
        **asked,
    }


def _rail(rail: RailFacts) -> Object:
    told = {
        "name": rail.name,
        "transport": rail.transport,
        "gid": rail.gid,
        "mtu": rail.mtu,
        "maxSge": rail.max_sge,
        "maxWr": rail.max_wr,
        "maxMessageBytes": rail.max_message_bytes,
        "fence": rail.fence,
    }
    return {name: value for name, value in told.items() if value is not None}


def _problems(links: Iterable[LinkFacts]) -> list[Object]:
    """The first problem of each peer, up to the bound."""
    found: dict[str, Object] = {}
    for link in links:
        if link.problem is not None and link.node not in found:
            message = link.problem.message
            found[link.node] = {
                "peer": link.node,
                "reason": link.problem.reason.value,
                "message": _short(message),
            }
    return [found[node] for node in sorted(found)][:MAX_PROBLEMS]


def node_conditions(
    links: Sequence[LinkFacts], before: Iterable[Object], now: str, *, unused: Mapping[str, str] | None = None
) -> list[Object]:
    """Ready and Wired. A condition whose status stays keeps its time.

    `unused` are the allowed data paths that couldn't be opened, each with the reason.
    """
    since = {(c["type"], c["status"]): c["lastTransitionTime"] for c in before}
    ready = "engines and peers are served"
    for name, why in (unused or {}).items():
        ready += f"; {name} isn't used: {_short(why)}"
    made = [
        (NodeConditionType.READY.value, "True", Reason.AS_EXPECTED, ready),
        (NodeConditionType.WIRED.value, *_wired(links)),
    ]
    return [
        {
            "type": kind,
            "status": state,
            "reason": reason.value,
            "message": message,
            "lastTransitionTime": since.get((kind, state), now),
        }
        for kind, state, reason, message in made
    ]


def _short(message: str) -> str:
    return message if len(message) <= MESSAGE else message[: MESSAGE - 1] + "…"


def _wired(links: Sequence[LinkFacts]) -> tuple[str, Reason, str]:
    verified = sum(link.state is LinkState.VERIFIED for link in links)
    text = f"{verified} of {len(links)} links are verified"
    if not links:
        return "Unknown", Reason.NOT_OBSERVED, "no peers were given yet"
    if verified == len(links):
        return "True", Reason.AS_EXPECTED, text
    return "False", Reason.LINKS_DOWN, text
