"""The input of one reconcile of one pool: the pool and everything that was read for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.checks import Violation
    from hawk_api.models import Geometry
    from hawk_api.v1alpha1 import AcceleratorClassSpec, HawkPool
    from hawk_kube.client import Object
    from hawk_operator.reconcile.memory import PoolMemory
    from hawk_operator.reconcile.observe import Observation
    from hawk_operator.runtime.workqueue import WorkKey
    from hawk_operator.wiring.peers import Agent


@dataclass(frozen=True)
class Case:
    """The input of a reconcile's later steps."""

    key: WorkKey
    pool: HawkPool
    body: Object
    """The pool as the API gave it."""
    memory: PoolMemory
    now: float
    """Seconds since the epoch."""
    classes: Mapping[str, AcceleratorClassSpec]
    geometry: Geometry | None
    violations: tuple[Violation, ...]
    """Errors in the spec; with any, nothing is changed."""
    seen: Observation

    @property
    def owner(self) -> str:
        """namespace/name, as regions name their pool."""
        return f"{self.key.namespace}/{self.key.name}"

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents that matter to this pool."""
        return self.seen.agents

    @property
    def live(self) -> frozenset[str]:
        """Nodes with a live agent."""
        return frozenset(name for name, agent in self.agents.items() if agent.live)
