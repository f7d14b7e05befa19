"""The sizing problem, in plain numbers: the pool, its devices, and its objectives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_api import ratio as ratios
from hawk_api.labels import FORCE_RATIO, PAUSED
from hawk_api.v1alpha1.enums import BurstReserve, Fallback, QueueOrder, Role, ScalingMode
from hawk_planner.perf.objectives import LatencyObjective, objective_of
from hawk_planner.perf.rates import ASSUMED, interconnect_of, peak_at
from hawk_planner.perf.slots import declared_sequences
from hawk_planner.perf.work import ModelWork
from hawk_planner.sizing.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from hawk_api.models.geometry import Geometry
    from hawk_api.v1alpha1.acceleratorclass import AcceleratorClassSpec
    from hawk_api.v1alpha1.enums import Precision
    from hawk_api.v1alpha1.group import GroupSpec
    from hawk_api.v1alpha1.hawkpool import HawkPool

HOURS_OF_SERVICE = 3 * 365 * 24
"""Hours over which a device that was bought is paid off."""


@dataclass(frozen=True)
class SizedGroup:
    """One group: bounds, and what one replica is: `devices`, `usd_per_hour`, `usd` to buy, `watts`."""

    name: str
    role: Role
    least: int
    most: int
    worker: Worker
    devices: int = 1
    usd_per_hour: float | None = None
    usd: float | None = None
    watts: float | None = None
    startup_s: float | None = None
    device_class: str = ""

    @property
    def cost_per_hour(self) -> float | None:
        """The cost of a replica an hour: its price an hour, else its price to buy over three years.

        For comparing devices only; a budget an hour counts prices an hour.
        """
        if self.usd_per_hour is not None or self.usd is None:
            return self.usd_per_hour
        return self.usd / HOURS_OF_SERVICE


@dataclass(frozen=True)
class GroupObservation:
    """The present replicas: `replicas` asked for, `ready` pods, `capacity` usable ones, `pending`
    unschedulable."""

    replicas: int
    ready: int = 0
    capacity: int = 0
    pending: int = 0


@dataclass(frozen=True)
class Problem:
    """A pool as the decision sees it. Seconds, bytes, US dollars; `None` where there is no limit."""

    model: ModelWork | None
    groups: tuple[SizedGroup, ...]
    ttft: LatencyObjective | None = None
    itl: LatencyObjective | None = None
    budget_devices: int | None = None
    budget_usd_per_hour: float | None = None
    ratio_min: Fraction | None = None
    ratio_max: Fraction | None = None
    startup_ratio: Fraction | None = None
    forced_ratio: Fraction | None = None
    tolerance: float = 0.1
    up_window: float = 0.0
    down_window: float = 300.0
    interval: float = 15.0
    burst_reserve: bool = True
    fallback: Fallback = Fallback.HOLD
    mode: ScalingMode = ScalingMode.AUTO
    paused: bool = False
    observes_traffic: bool = True
    queue_order: QueueOrder = QueueOrder.ARRIVAL
    link_bytes_per_second: float | None = None
    """Rate at which one prefill worker can send KV; None when it wasn't measured."""

    @classmethod
    def of(
        cls,
        pool: HawkPool,
        classes: Mapping[str, AcceleratorClassSpec],
        geometry: Geometry | None,
        link_bytes_per_second: float | None = None,
    ) -> Problem:
        """Read it from a pool; a class that isn't known leaves its group's figures unknown."""
        spec = pool.spec
        precision = spec.model.weights or (geometry.ffn_precision if geometry else None)
        notes = pool.metadata.annotations or {}
        scaling, budget = spec.scaling, spec.scaling.budget
        return cls(
            model=None
            if geometry is None
            else ModelWork.of(geometry, spec.model.kv_dtype, spec.model.weights),
            groups=tuple(_group(g, classes.get(g.accelerator_class or ""), precision) for g in spec.groups),
            ttft=objective_of(spec.objectives.ttft),
            itl=objective_of(spec.objectives.itl),
            budget_devices=budget.devices,
            budget_usd_per_hour=None if budget.usd_per_hour is None else float(budget.usd_per_hour),
            ratio_min=scaling.ratio.min,
            ratio_max=scaling.ratio.max,
            startup_ratio=scaling.startup_ratio,
            forced_ratio=forced_ratio(notes),
            tolerance=float(scaling.tolerance),
            up_window=scaling.behavior.scale_up.stabilization_window,
            down_window=scaling.behavior.scale_down.stabilization_window,
            interval=scaling.interval,
            burst_reserve=scaling.burst_reserve is BurstReserve.KEEP,
            fallback=scaling.fallback,
            mode=scaling.mode,
            paused=notes.get(PAUSED, "").lower() == "true",
            observes_traffic=spec.traffic is not None,
            queue_order=spec.traffic.queue_order if spec.traffic else QueueOrder.ARRIVAL,
            link_bytes_per_second=link_bytes_per_second,
        )

    def side(self, role: Role) -> tuple[SizedGroup, ...]:
        """The groups of exactly this role."""
        return tuple(group for group in self.groups if group.role is role)

    def price(self, group: SizedGroup) -> float:
        """The cost of a replica for comparing groups: money where all groups have a price, else devices."""
        if all(one.cost_per_hour is not None for one in self.groups):
            return group.cost_per_hour or 0.0
        return float(max(1, group.devices))

    def devices(self, replicas: Mapping[str, int]) -> int:
        """Devices that so many replicas take."""
        return sum(replicas.get(group.name, 0) * group.devices for group in self.groups)

    def usd_per_hour(self, replicas: Mapping[str, int]) -> float | None:
        """Their cost an hour; None when a group with replicas has no price."""
        total = 0.0
        for group in self.groups:
            count = replicas.get(group.name, 0)
            if count and group.devices and group.usd_per_hour is None:
                return None
            total += count * (group.usd_per_hour or 0.0)
        return total


def forced_ratio(annotations: Mapping[str, str]) -> Fraction | None:
    """The ratio that the annotation forces; None without one, and when it can't be read."""
    text = annotations.get(FORCE_RATIO)
    if not text:
        return None
    try:
        return ratios.parse_ratio(text)
    except ValueError:
        return None


def _group(spec: GroupSpec, found: AcceleratorClassSpec | None, precision: Precision | None) -> SizedGroup:
    size = spec.accelerators_per_replica
    peaks = found.flops if found else None

    def scaled(figure: object) -> float | None:
        return None if figure is None else float(figure) * size  # type: ignore[arg-type]

    return SizedGroup(
        name=spec.name,
        role=spec.role,
        least=spec.replicas.min,
        most=spec.replicas.max,
        worker=Worker(
            flops=scaled(peak_at(peaks, precision)),
            bandwidth=scaled(found.bandwidth if found else None),
            memory=scaled(found.memory if found else None),
            devices=size,
            attention_flops=scaled(peak_at(peaks)),
            interconnect=interconnect_of(found),
            most_sequences=declared_sequences(spec) or ASSUMED.most_sequences,
        ),
        devices=spec.devices,
        usd_per_hour=scaled(found.price_per_hour if found else None),
        usd=scaled(found.price if found else None),
        watts=scaled(found.power if found else None),
        startup_s=found.startup if found else None,
        device_class=spec.accelerator_class or "",
    )
