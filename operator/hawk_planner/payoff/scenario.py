"""Everything a plan is made from, with units, and nothing that the user can't see.

A figure that isn't known is None; asking for it raises MissingInputError with its name,
which a plan turns into "unknown", never into a default.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hawk_planner.perf.rates import Rates, rates_of

from . import checks, economics

if TYPE_CHECKING:
    from hawk_planner.perf.collectives import Interconnect
    from hawk_planner.perf.objectives import LatencyObjective
    from hawk_planner.perf.rates import Efficiency
    from hawk_planner.perf.work import ModelWork

    from .handoff import Emitter
    from .measured import Measured

__all__ = [
    "DeclaredGroup",
    "Device",
    "Drafter",
    "Link",
    "Replica",
    "Scenario",
    "SteadyTraffic",
    "Targets",
]


@dataclass(frozen=True)
class Device:
    """One accelerator: peak rates, memory, power and price."""

    name: str
    flops: float | None
    """FLOP/s at the weights' precision."""
    memory: float | None
    bandwidth: float | None
    watts: float | None = None
    price_usd: float | None = None
    price_per_hour_usd: float | None = None
    prefills: bool = True
    decodes: bool = True
    startup_seconds: float | None = None
    attention_flops: float | None = None
    """FLOP/s in 16 bits, where they differ from `flops`."""
    interconnect: Interconnect | None = None
    """How the devices of a replica reach each other."""

    def known(self, name: Literal["flops", "memory", "bandwidth", "startup_seconds"]) -> float:
        """Return a figure that a computation can't do without."""
        value: float | None = getattr(self, name)
        if value is None:
            raise checks.MissingInputError(
                f"{self.name}.{name}",
                "the accelerator class doesn't give it",
                f"add it to the class or pass --set {self.name}.{name.removesuffix('_seconds')}=VALUE",
            )
        return checks.positive(f"{self.name}.{name}", value)

    @property
    def priced(self) -> bool:
        """True if what it costs is known: a price by the hour, or a purchase price and power."""
        return self.price_per_hour_usd is not None or None not in (self.price_usd, self.watts)

    def usd_per_hour(self, tariff: economics.Tariff) -> float | None:
        """Return what one device costs an hour, None when no price is known."""
        return economics.hourly_cost_usd(
            watts=self.watts,
            price_usd=self.price_usd,
            price_per_hour_usd=self.price_per_hour_usd,
            tariff=tariff,
        )


@dataclass(frozen=True)
class Replica:
    """One worker: devices that serve together."""

    device: Device
    devices: int
    measured: Measured | None = None
    """Engine times of the scenario's model on this class, where there are some."""
    most_sequences: int | None = None
    """Sequences that the engine decodes at once, where its template says."""

    def sized(self, devices: int) -> Replica:
        """Return the replica with another number of devices."""
        return replace(self, devices=devices)

    def rates(self, efficiency: Efficiency) -> Rates:
        """Return the rates that the replica reaches."""
        attention = self.device.attention_flops
        return rates_of(
            self.device.known("flops") * self.devices,
            self.device.known("bandwidth") * self.devices,
            attention_flops=attention and attention * self.devices,
            devices=self.devices,
            interconnect=self.device.interconnect,
            efficiency=efficiency,
        )

    def room(self, efficiency: Efficiency) -> float:
        """Return the bytes for weights and KV."""
        return self.device.known("memory") * self.devices * efficiency.usable_memory


@dataclass(frozen=True)
class Link:
    """The path of the KV cache, a rail (network port) or several."""

    bytes_per_second: float
    """Of one rail, end to end."""
    rails: int = 1
    chunk_layers: int | None = None
    """Layers sent together; None chooses the length with the least exposed time."""
    overhead_seconds: float = 0.0
    """Posting and detecting one chunk."""
    registration_seconds: float = 0.0
    """Registering memory for one request; 0 where regions are registered once."""
    port_usd: float = 0.0
    port_watts: float = 0.0
    message_seconds: float = 0.0
    """Latency of one small message."""

    @property
    def rate(self) -> float:
        """Bytes a second over all rails."""
        return checks.positive("link bandwidth", self.bytes_per_second) * checks.whole("rails", self.rails)


@dataclass(frozen=True)
class SteadyTraffic:
    """Steady traffic: requests a second, tokens in and out, and how bursty they come."""

    requests_per_second: float
    prompt_tokens: int
    output_tokens: int
    dispersion: float = 1.0
    """Variance over mean of arrival counts; 1 is Poisson."""

    @property
    def tokens_per_second(self) -> float:
        """Output tokens a second."""
        return self.requests_per_second * self.output_tokens

    @property
    def mean_context(self) -> float:
        """Tokens that an average decode step attends to."""
        return self.prompt_tokens + self.output_tokens / 2

    @property
    def longest_context(self) -> int:
        """Tokens retained when a request ends."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True)
class Targets:
    """Objectives, None where there is none."""

    ttft: LatencyObjective | None = None
    itl: LatencyObjective | None = None


@dataclass(frozen=True)
class Drafter:
    """The inputs that price a draft and verify split."""

    work: ModelWork
    acceptance: float
    synchronisation_seconds: float


@dataclass(frozen=True)
class DeclaredGroup:
    """A declared group: its replica and the bounds on how many."""

    name: str
    replica: Replica
    most: int | None = None
    """Most replicas the pool allows; None where a candidate isn't bound by it."""


@dataclass(frozen=True)
class Scenario:
    """One question for the planner."""

    work: ModelWork
    prefill: DeclaredGroup
    decode: DeclaredGroup
    workload: SteadyTraffic
    targets: Targets
    link: Link
    efficiency: Efficiency
    tariff: economics.Tariff
    emitter: Emitter = "decode"
    budget_devices: int | None = None
    budget_usd_per_hour: float | None = None
    role_changes_per_hour: float = 0.0
    drain_seconds: float = 0.0
    drafter: Drafter | None = None
    most_devices_per_replica: int = 8
    path_share: float = 1.0
    """Share of the link's rate that the layout's descriptors leave."""

    def at(self, **changes: object) -> Scenario:
        """Return the scenario with some fields changed; those of workload and link by their own names."""
        workload = {name: value for name, value in changes.items() if hasattr(self.workload, name)}
        link = {name: value for name, value in changes.items() if hasattr(self.link, name)}
        rest = {name: value for name, value in changes.items() if name not in workload | link}
        return replace(
            self,
            workload=replace(self.workload, **workload),  # type: ignore[arg-type]
            link=replace(self.link, **link),  # type: ignore[arg-type]
            **rest,  # type: ignore[arg-type]
        )
