"""Where the workers of a pool are: by their pods, and by the memory that agents registered for it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_operator.wiring.peers import Sides

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_api.v1alpha1 import HawkPoolSpec
    from hawk_operator.wiring.peers import Agent


def sides_of(
    spec: HawkPoolSpec, pool: str, nodes: Mapping[str, frozenset[str]], agents: Iterable[Agent]
) -> Sides:
    """The nodes of both sides of a pool (`namespace/name`); `nodes` are those of each group's pods.

    A registered region counts even without a pod of ours: workers of scale targets, and processes that run
    outside of the cluster's pods, are known by it alone.
    """
    where = {group.name: set(nodes.get(group.name, ())) for group in spec.groups}
    for agent in agents:
        for owner, name, _ in agent.regions:
            if owner == pool and name in where:
                where[name].add(agent.name)
    prefill: set[str] = set()
    decode: set[str] = set()
    for group in spec.groups:
        if group.role.prefills:
            prefill |= where[group.name]
        if group.role.decodes:
            decode |= where[group.name]
    return Sides(frozenset(prefill), frozenset(decode))
