"""Everything that the conditions of one pool are judged by, gathered in one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hawk_api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.checks import Violation
    from hawk_api.v1alpha1 import HawkPool
    from hawk_operator.wiring.links import LinkIndex
    from hawk_operator.wiring.peers import Agent
    from hawk_operator.workloads.drain import Waiting
    from hawk_operator.workloads.pods import GroupPods
    from hawk_planner.traffic import Window


@dataclass(frozen=True)
class Judgement:
    """A judgement with three values: True, False, or None while nobody can tell."""

    status: bool | None
    reason: Reason
    message: str = ""


@dataclass(frozen=True)
class GroupFacts:
    """One group: what was decided, what is there, and what keeps it from changing."""

    name: str
    role: str
    least: int
    """replicas.min of the spec."""
    desired: int
    pods: GroupPods
    trouble: tuple[Reason, str] | None = None
    """Why its workload could not be written."""
    conflict: str = ""
    """Who else scales it."""


@dataclass(frozen=True)
class Facts:
    """The facts of one reconcile of one pool."""

    pool: HawkPool
    violations: tuple[Violation, ...] = ()
    layouts: Judgement = Judgement(None, Reason.NOT_OBSERVED)
    groups: tuple[GroupFacts, ...] = ()
    agents: Mapping[str, Agent] = field(default_factory=dict)
    agents_known: bool = True
    """True if HawkNodes may be read at all."""
    agents_refused: str = ""
    """Why nodes have no agent, where their DaemonSet says."""
    links: LinkIndex | None = None
    window: Window | None = None
    scaling: Judgement = Judgement(None, Reason.NOT_OBSERVED)
    payoff: Judgement = Judgement(None, Reason.NOT_OBSERVED)
    draining: tuple[Waiting, ...] = ()
    drain_timed_out: tuple[str, ...] = ()
