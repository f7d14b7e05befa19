"""Traffic of a pool, read from Prometheus as a typed window.

`collect` asks; `Window` holds what came back, every signal with its state.
"""

from hawk_operator.traffic.collect import collect
from hawk_operator.traffic.distribution import Distribution
from hawk_operator.traffic.signals import Signal, State
from hawk_operator.traffic.source import GroupTarget, Source
from hawk_operator.traffic.window import SideTraffic, Window

__all__ = ["Distribution", "GroupTarget", "SideTraffic", "Signal", "Source", "State", "Window", "collect"]
