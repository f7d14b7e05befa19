"""The engines' side of the agent's socket.

>>> from hawk_agent.client import AgentClient
>>> client = AgentClient()                                                              # doctest: +SKIP
"""

from hawk_agent.client.engine import AgentClient, Layers, LeaseHandle, Transfer, TransferResult
from hawk_agent.client.memory import allocate_shared, layer_events

__all__ = [
    "AgentClient",
    "Layers",
    "LeaseHandle",
    "Transfer",
    "TransferResult",
    "allocate_shared",
    "layer_events",
]
