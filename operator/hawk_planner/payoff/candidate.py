"""A candidate: one way of serving, its pools and its figures.

Times are in seconds, rates a second, money in US dollars.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .scenario import Scenario

__all__ = ["Candidate", "Feasibility", "PoolUse", "ServingMode"]


class ServingMode(StrEnum):
    """The ways of serving that are compared."""

    COLOCATED = "Colocated"
    """Prefill and decode on the same replicas."""
    SPLIT = "PrefillDecode"
    """A pool that prefills, a pool that decodes."""
    FLEXIBLE = "FlexibleRoles"
    """The same on one class of device whose replicas change role with the traffic."""
    OFFLOAD = "DecodeOffload"
    """Colocated, with a share of the decodes on the second device."""
    ATTENTION_FFN = "AttentionFFN"
    """Prefill apart; decode's attention on one device, its FFN on the other."""
    TARGET_DRAFT = "TargetDraft"
    """Colocated target, a drafter on the second device."""


class Feasibility(StrEnum):
    """How a candidate is ranked."""

    MEETS = "meets"
    """Meets every objective within every bound."""
    MISSES = "misses"
    """Can be computed, and misses an objective or a bound."""
    UNKNOWN = "unknown"
    """An input is missing."""


@dataclass(frozen=True)
class PoolUse:
    """The replicas of one role and how busy they are."""

    role: str
    device: str
    replicas: int
    devices_per_replica: int
    utilisation: float
    """Offered load over capacity of what limits the pool."""
    priced: bool
    """True if what the device costs is known."""

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        return self.replicas * self.devices_per_replica


@dataclass(frozen=True)
class Candidate:
    """One way of serving a workload, sized so that it meets the objectives where it can."""

    kind: ServingMode
    title: str
    standing: Feasibility
    problem: str = ""
    """Why it misses or is unknown; names the bound or the missing input."""
    pools: tuple[PoolUse, ...] = ()
    ttft_seconds: float | None = None
    itl_seconds: float | None = None
    tokens_per_second: float | None = None
    """Output tokens of the workload served."""
    most_tokens_per_second: float | None = None
    """Output tokens that the same replicas carry within the objectives, where that was computed."""
    watts: float | None = None
    usd_per_hour: float | None = None
    usd_per_million_tokens: float | None = None
    joules_per_token: float | None = None
    link_utilisation: float | None = None
    bottleneck: str = ""
    parts: dict[str, float] = field(default_factory=dict)
    """Times and sizes that the figures are made of; the unit is the key's last word."""
    again: Callable[[Scenario], Candidate | None] | None = field(default=None, compare=False, repr=False)
    """The same shape (devices a replica, shares, lengths) sized for another scenario; None: not possible."""

    @property
    def unpriced(self) -> str:
        """The devices whose price isn't known."""
        return ", ".join(sorted({pool.device for pool in self.pools if not pool.priced}))

    @property
    def devices(self) -> int:
        """Devices of all pools."""
        return sum(pool.devices for pool in self.pools)
