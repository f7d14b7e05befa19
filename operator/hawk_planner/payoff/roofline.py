"""Roofline of a device at its peaks: arithmetic against reading memory, for charts and published figures.

The time of a step is `hawk_planner.perf.steps`.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import checks

__all__ = ["Machine", "Work", "attainable_flops", "mfu_limit"]


@dataclass(frozen=True)
class Machine:
    """Peak rates of a device."""

    flops: float
    """FLOP/s at the precision computed in."""
    bytes_per_second: float

    @property
    def ridge(self) -> float:
        """FLOPs a byte above which arithmetic is the limit."""
        return self.flops / self.bytes_per_second


@dataclass(frozen=True)
class Work:
    """FLOPs and bytes of memory traffic."""

    flops: float
    nbytes: float

    @property
    def intensity(self) -> float:
        """FLOPs a byte."""
        return self.flops / self.nbytes


def attainable_flops(intensity: float, machine: Machine) -> float:
    """Return the FLOP/s that the roofline allows at `intensity` FLOPs a byte."""
    return min(machine.flops, checks.positive("intensity", intensity) * machine.bytes_per_second)


def mfu_limit(intensity: float, machine: Machine) -> float:
    """Return the largest share of peak FLOP/s that the roofline allows at `intensity`."""
    return attainable_flops(intensity, machine) / machine.flops
