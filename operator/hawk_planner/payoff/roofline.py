"""Roofline of a device: arithmetic against reading memory.

A piece of work is so many FLOPs and so many bytes; the slower of the two decides, and is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from . import checks

__all__ = ["Bound", "Machine", "Work", "attainable_flops", "mfu_limit", "run_time", "time_and_bound"]

Bound = Literal["compute", "memory"]


@dataclass(frozen=True)
class Machine:
    """Peak rates of one replica (all its devices together) and the shares of them that are reached."""

    flops: float
    """FLOP/s at the precision computed in."""
    bytes_per_second: float
    compute_share: float = 1.0
    """Share of peak FLOP/s that is reached (MFU), above 0 to 1."""
    memory_share: float = 1.0
    """Share of peak bandwidth that is reached (MBU), above 0 to 1."""

    @property
    def ridge(self) -> float:
        """FLOPs a byte above which arithmetic is the limit, both at peak."""
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


def time_and_bound(work: Work, machine: Machine) -> tuple[float, Bound]:
    """Return seconds and what they are bound by; raises InputError for an impossible machine."""
    flops = checks.positive("FLOPs", machine.flops)
    rate = checks.positive("memory bandwidth", machine.bytes_per_second)
    compute = work.flops / (flops * checks.positive("compute share", machine.compute_share))
    memory = work.nbytes / (rate * checks.positive("memory share", machine.memory_share))
    return (compute, "compute") if compute >= memory else (memory, "memory")


def run_time(work: Work, machine: Machine) -> float:
    """Return the seconds that `work` takes on `machine`."""
    return time_and_bound(work, machine)[0]


def attainable_flops(intensity: float, machine: Machine) -> float:
    """Return the FLOP/s that the roofline allows at `intensity` FLOPs a byte."""
    return min(machine.flops, checks.positive("intensity", intensity) * machine.bytes_per_second)


def mfu_limit(intensity: float, machine: Machine) -> float:
    """Return the largest share of peak FLOP/s that the roofline allows at `intensity`."""
    return attainable_flops(intensity, machine) / machine.flops
