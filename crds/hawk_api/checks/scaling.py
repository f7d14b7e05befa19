"""Checks of objectives, traffic, scaling and transfer."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from hawk_api import duration, quantity, ratio
from hawk_api.checks.violation import error, warning
from hawk_api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawk_api.checks.violation import SpecContext, Violation
    from hawk_api.v1alpha1 import HawkPoolSpec


def devices(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """The budget holds the minimal replicas."""
    budget = spec.scaling.budget.devices
    least = sum(group.replicas.min * group.devices for group in spec.groups)
    if budget is not None and least > budget:
        yield error(
            "spec.scaling.budget.devices",
            f"{budget} devices are fewer than the {least} that the groups' replicas.min need; "
            "raise the budget or lower replicas.min",
        )


def money(spec: HawkPoolSpec, context: SpecContext) -> Iterator[Violation]:
    """The budget pays for the minimal replicas, as far as prices are known."""
    budget = spec.scaling.budget.usd_per_hour
    if budget is None:
        return
    priced = [(group, known.price_per_hour) for group in spec.groups if (known := context.class_of(group))]
    costs = (group.replicas.min * group.devices * price for group, price in priced if price is not None)
    least = sum(costs, Decimal(0))
    if least > budget:
        yield error(
            "spec.scaling.budget.usdPerHour",
            f"{quantity.format_quantity(budget)} is less than the {quantity.format_quantity(least)} "
            "that replicas.min cost; "
            "raise the budget or lower replicas.min",
        )
    for group, price in priced:
        if price is None:
            yield warning(
                "spec.scaling.budget.usdPerHour",
                f"AcceleratorClass {group.accelerator_class} has no pricePerHour, so it isn't bounded; "
                "add the price",
                Reason.NOT_ENOUGH_KNOWN,
            )


def ratios(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """Ratio bounds are in order, hold the start-up ratio, and can be reached."""
    low, high = spec.scaling.ratio.min, spec.scaling.ratio.max
    if low is not None and high is not None and low > high:
        yield error(
            "spec.scaling.ratio.max",
            f"min {ratio.format_ratio(low)} is above max {ratio.format_ratio(high)} "
            "as prefill:decode; exchange the two",
        )
        return
    start = spec.scaling.startup_ratio
    if start is not None and not (low or start) <= start <= (high or start):
        yield error(
            "spec.scaling.startupRatio",
            f"{ratio.format_ratio(start)} is outside ratio.min and ratio.max; choose one between them",
        )
    yield from _reachable(spec, low, high)


def _reachable(spec: HawkPoolSpec, low: Fraction | None, high: Fraction | None) -> Iterator[Violation]:
    if any(group.role.prefills and group.role.decodes for group in spec.groups):
        return
    prefill = [group.replicas for group in spec.groups if group.role.prefills]
    decode = [group.replicas for group in spec.groups if group.role.decodes]
    if not prefill or not decode:
        return
    most = Fraction(sum(r.max for r in prefill), max(1, sum(r.min for r in decode)))
    least = Fraction(sum(r.min for r in prefill), max(1, sum(r.max for r in decode)))
    if (low is not None and most < low) or (high is not None and least > high):
        yield error(
            "spec.scaling.ratio",
            f"the groups' replicas allow only {ratio.format_ratio(least) if least else '0'} to "
            f"{ratio.format_ratio(most)} as prefill:decode; widen ratio or replicas",
            Reason.INFEASIBLE,
        )


def tolerance(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """The tolerance leaves something to react to."""
    if spec.scaling.tolerance >= 1:
        yield error(
            "spec.scaling.tolerance", f"{spec.scaling.tolerance} ignores every change; give less than 1"
        )


def spans(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """Durations that nothing works without are above zero, and fit each other."""
    positive = {"spec.scaling.interval": spec.scaling.interval, "spec.drain.timeout": spec.drain.timeout}
    for name, objective in (("ttft", spec.objectives.ttft), ("itl", spec.objectives.itl)):
        if objective is not None:
            positive[f"spec.objectives.{name}.target"] = objective.target
    if spec.traffic is not None:
        positive["spec.traffic.window"] = spec.traffic.window
        positive["spec.traffic.prometheus.timeout"] = spec.traffic.prometheus.timeout
    for field, seconds in positive.items():
        if seconds <= 0:
            yield error(field, "0s would never pass or always be missed; give more")
    if spec.transfer.max_grace < spec.transfer.grace:
        yield error(
            "spec.transfer.maxGrace",
            f"{duration.format_duration(spec.transfer.max_grace)} is less than grace "
            f"{duration.format_duration(spec.transfer.grace)}; raise maxGrace or lower grace",
        )


def observed(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """A pool that scales by itself is observed."""
    if spec.traffic is None and spec.scaling.mode == "Auto" and spec.objectives.ttft is not None:
        yield warning(
            "spec.traffic",
            "objectives are given but no traffic is observed: the ratio stays at its start; add spec.traffic",
            Reason.NOT_ENOUGH_KNOWN,
        )
