"""Proof of a pool's links, from the reports of the agents at both ends. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_api.reasons import Reason
from hawk_operator.wiring.peers import Sides

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_operator.wiring.peers import Agent, Wiring

_SHOWN = 3


@dataclass(frozen=True)
class LinkIndex:
    """The links of one pool: how many there should be, how many are proved, and what is wrong.

    `proved` is True, False, or None while nobody can tell yet.
    """

    wanted: int
    verified: int
    proved: bool | None
    reason: Reason
    message: str


def judge_links(sides: Sides, agents: Mapping[str, Agent], wiring: Wiring) -> LinkIndex:
    """The state of the links of one pool.

    A link counts as proved when both ends list the other as verified, both live, and each has the other's
    present incarnation in its spec: a proof of a former one is no proof. Nodes without an agent have no
    links; that their workers can't be used is another condition's matter.
    """
    for role, nodes in (("prefill", sides.prefill), ("decode", sides.decode)):
        if not nodes:
            return LinkIndex(0, 0, None, Reason.NOT_OBSERVED, f"no {role} worker runs yet")
        if not any(_present(name, agents) for name in nodes):
            return LinkIndex(
                0, 0, False, Reason.NO_AGENT, f"no agent on any node of {role} workers: {listed(nodes)}"
            )
    wired = Sides(*(frozenset(n for n in s if _present(n, agents)) for s in (sides.prefill, sides.decode)))
    pairs = sorted(wired.pairs())
    dead = sorted(name for name in wired.prefill | wired.decode if not agents[name].live)
    if dead:
        verified = sum(_verified(pair, agents) for pair in pairs)
        return LinkIndex(
            len(pairs), verified, False, Reason.AGENT_LOST, f"the agent on {listed(dead)} is lost"
        )
    return _judge_pairs(pairs, agents, wiring)


def _judge_pairs(pairs: list[tuple[str, str]], agents: Mapping[str, Agent], wiring: Wiring) -> LinkIndex:
    verified = [pair for pair in pairs if _verified(pair, agents)]
    text = f"{len(verified)} of {len(pairs)} links are verified"
    if len(verified) == len(pairs):
        return LinkIndex(len(pairs), len(verified), True, Reason.AS_EXPECTED, text)
    refused = [(pair, wiring.refused[pair]) for pair in pairs if pair in wiring.refused]
    crowded = [pair for pair, (reason, _) in refused if reason is Reason.TOO_MANY_PEERS]
    hard = [entry for entry in refused if entry[1][0] is not Reason.TOO_MANY_PEERS]
    if hard:
        _, (reason, message) = hard[0]
        return LinkIndex(len(pairs), len(verified), False, reason, f"{text}; {message}")
    if crowded and len(verified) + len(crowded) == len(pairs):
        message = f"{text}; {len(crowded)} are left out: {wiring.refused[crowded[0]][1]}"
        return LinkIndex(len(pairs), len(verified), True, Reason.TOO_MANY_PEERS, message)
    problems = _problems([pair for pair in pairs if pair not in verified], agents)
    if problems:
        return LinkIndex(len(pairs), len(verified), False, Reason.LINKS_DOWN, f"{text}; {problems}")
    return LinkIndex(len(pairs), len(verified), None, Reason.WAITING, f"{text}; the others are being proved")


def _present(name: str, agents: Mapping[str, Agent]) -> bool:
    return name in agents and agents[name].reachable


def _verified(pair: tuple[str, str], agents: Mapping[str, Agent]) -> bool:
    left, right = agents[pair[0]], agents[pair[1]]
    return _knows(left, right) and _knows(right, left)


def _knows(one: Agent, other: Agent) -> bool:
    """True if `one` has proved a link to the present incarnation of `other`."""
    return one.live and other.name in one.verified and (other.name, other.address, other.epoch) in one.peers


def _problems(pairs: Iterable[tuple[str, str]], agents: Mapping[str, Agent]) -> str:
    found = []
    for left, right in pairs:
        for one, other in sorted({(left, right), (right, left)}):
            for peer, reason, message in agents[one].problems:
                if peer == other:
                    found.append(f"{one} to {other}: {reason} {message}".rstrip())
    return "; ".join(found[:_SHOWN]) + (f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")


def listed(given: Iterable[str], shown: int = _SHOWN) -> str:
    """The first few names in order, and how many more there are."""
    names = sorted(given)
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
