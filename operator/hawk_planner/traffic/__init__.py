"""Traffic of a pool as a typed window: every signal with its state. Pure."""

from hawk_planner.traffic.distribution import Distribution
from hawk_planner.traffic.signals import Signal, State
from hawk_planner.traffic.window import SideTraffic, Window

__all__ = ["Distribution", "SideTraffic", "Signal", "State", "Window"]
