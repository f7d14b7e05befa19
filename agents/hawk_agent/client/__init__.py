"""The engines' side of the agent's socket.

>>> from hawk_agent.client import Engine
>>> engine = Engine()                                                              # doctest: +SKIP
"""

from hawk_agent.client.engine import Engine, Layers, Lease, Result, Transfer
from hawk_agent.client.memory import allocate, layer_events

__all__ = ["Engine", "Layers", "Lease", "Result", "Transfer", "allocate", "layer_events"]
