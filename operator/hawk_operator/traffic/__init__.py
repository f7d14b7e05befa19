"""Traffic of a pool, read from Prometheus as a typed window.

`collect.collect` asks; `Window` holds what came back, every signal with its state. What is exported here is
pure: deciding on a window takes no client of a metrics store.
"""

from hawk_operator.traffic.distribution import Distribution
from hawk_operator.traffic.signals import Signal, State
from hawk_operator.traffic.source import GroupTarget, Source
from hawk_operator.traffic.window import SideTraffic, Window

__all__ = ["Distribution", "GroupTarget", "SideTraffic", "Signal", "Source", "State", "Window"]
