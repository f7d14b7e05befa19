"""The needs of every group for one look at the traffic, or why they can't be computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import Role
from hawk_operator.sizing.allocate import Side, size
from hawk_operator.sizing.demand import DecodeNeed, Load, PrefillNeed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_operator.sizing.problem import Group, Problem
    from hawk_operator.traffic import SideTraffic, Window

BACKLOG_HORIZON_S = 60.0
"""Time within which requests that wait already should be worked off."""


WAIT = "wait"
"""The learned correction of waits, in `corrections`."""


class CannotSizeError(Exception):
    """Something that the arithmetic needs isn't known; the message names it and the remedy."""


@dataclass(frozen=True)
class Needs:
    """Needs by group for one load."""

    load: Load
    prefill: Mapping[str, PrefillNeed]
    decode: Mapping[str, DecodeNeed]

    def wanted(self, problem: Problem, caps: Mapping[str, int], factor: float = 1.0) -> dict[str, int]:
        """Replicas that `factor` times the load needs."""
        load = self.load.scaled(factor)
        return size(
            problem,
            Side(self.prefill, load.rate + load.prefill_backlog),
            Side(self.decode, load.rate + load.decode_backlog),
            caps,
        )

    def scaled(self, factor: float) -> Needs:
        """The same needs under another rate."""
        return replace(self, load=self.load.scaled(factor))


def load_of(window: Window) -> Load:
    """The load of a window that isn't lost and has arrivals."""
    return Load(
        rate=window.arrivals.get(),
        prompt=window.prefill.prompt.get(),
        output=window.decode.output.get(),
        dispersion=max(1.0, window.burstiness.otherwise(1.0)),
        bin_s=window.burst_bin,
        prefill_backlog=_backlog(window.prefill),
        decode_backlog=_backlog(window.decode),
    )


def _backlog(side: SideTraffic) -> float:
    """Requests/s that come on top of the completed ones: a queue that grows, and one that is there."""
    growth = max(0.0, side.waiting_growth.otherwise(0.0))
    return growth + max(0.0, side.waiting.otherwise(0.0)) / BACKLOG_HORIZON_S


def needs_of(problem: Problem, load: Load, corrections: Mapping[str, float]) -> Needs:
    """Compute every group's needs; raises CannotSizeError."""
    model = problem.model
    if model is None:
        raise CannotSizeError("the model's geometry isn't known; see spec.model")
    prefill, decode = {}, {}
    for group in problem.groups:
        _check(group, model.weight_bytes)
        if group.role is not Role.DECODE:
            prefill[group.name] = PrefillNeed.of(
                model,
                group,
                load,
                problem.ttft,
                wait_factor=corrections.get(WAIT, 1.0),
                link=problem.link_bytes_per_second,
            )
        if group.role is not Role.PREFILL:
            decode[group.name] = DecodeNeed.of(model, group, load, problem.itl)
    return Needs(load, prefill, decode)


def _check(group: Group, weight_bytes: float) -> None:
    lacking = group.worker.lacking()
    if lacking:
        named = f"AcceleratorClass {group.device_class!r}" if group.device_class else "no accelerator class"
        raise CannotSizeError(f"group {group.name} ({named}) lacks {', '.join(lacking)}; add it to the class")
    memory = group.worker.memory or 0.0
    if memory <= weight_bytes:
        raise CannotSizeError(
            f"group {group.name}: the weights ({weight_bytes / 1e9:.1f} GB) don't fit a replica's memory "
            f"({memory / 1e9:.1f} GB); raise acceleratorsPerReplica"
        )
