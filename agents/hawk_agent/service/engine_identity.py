"""Which pod an engine is: told by a token that only this pod has, checked against what it registers.

The socket's file permissions say which users of a node may connect. They don't tell one pod from another, so
an engine could register memory in the name of another pool's worker and be sent its KV.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hawk_agent.errors import EngineRefusedError


@dataclass(frozen=True, slots=True)
class EnginePod:
    """The pod that a token is bound to."""

    namespace: str
    name: str
    node: str
    """"" where the API server doesn't say."""


class Reviewer(Protocol):
    """Tells pods from tokens."""

    async def review(self, token: str) -> EnginePod:
        """The pod of a token. EngineRefusedError for a token that is no good, or can't be checked now."""


def check_node(pod: EnginePod, node: str) -> None:
    """A pod of another node has no business at this socket."""
    if pod.node and pod.node != node:
        raise EngineRefusedError(f"the engine's pod {pod.name} runs on {pod.node}, this agent on {node}")


def check_worker(pod: EnginePod, pool: str, worker: str) -> None:
    """An engine speaks for its own pod alone, as a worker of a pool of its own namespace."""
    namespace = pool.partition("/")[0]
    if namespace != pod.namespace:
        raise EngineRefusedError(
            f"pool {pool} isn't in namespace {pod.namespace}, where the engine's pod {pod.name} is"
        )
    if worker != pod.name:
        raise EngineRefusedError(f"worker {worker} isn't the engine's own pod; register as {pod.name}")
