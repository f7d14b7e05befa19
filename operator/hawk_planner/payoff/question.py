"""From a pool, its classes and its traffic to a scenario, with every assumption listed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hawk_api.v1alpha1 import Role
from hawk_planner.perf.objectives import objective_of
from hawk_planner.perf.rates import interconnect_of, peak_at
from hawk_planner.perf.slots import declared_sequences
from hawk_planner.perf.work import ModelWork

from . import checks
from .assumptions import PLAIN, Assumption, Given, Inputs, bounded, gather, option_of
from .candidate import Feasibility
from .listing import batch_inputs, device_inputs, interconnect_inputs, model_inputs, time_inputs
from .measured import closest
from .paths import WHOLE, LayoutPath, layout_path
from .scenario import DeclaredGroup, Device, Replica, Scenario, Targets
from .split import split
from .times import prefill_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hawk_api.models import Geometry
    from hawk_api.v1alpha1 import AcceleratorClassSpec, HawkPoolSpec, Precision
    from hawk_api.v1alpha1.group import GroupSpec

    from .measured import Measured
    from .scenario import Drafter

__all__ = ["Question", "build_question", "device_of"]

MOST_HALVINGS = 6


@dataclass(frozen=True)
class Question:
    """A scenario and what it takes for granted."""

    scenario: Scenario
    assumptions: tuple[Assumption, ...]
    splits: bool
    """True if the pool declares groups of both roles."""


def build_question(
    spec: HawkPoolSpec,
    geometry: Geometry,
    classes: Mapping[str, AcceleratorClassSpec],
    given: Given,
    *,
    drafter: Drafter | None = None,
    measured: Given = PLAIN,
    times: Sequence[Measured] = (),
) -> Question:
    """Return the question that a pool asks; raises MissingInputError for a figure that isn't known.

    `measured` is the pool's own traffic and link, `times` are engine times.
    """
    work = ModelWork.of(geometry, spec.model.kv_dtype, spec.model.weights)
    precision = spec.model.weights or geometry.ffn_precision
    first, second = _sides(spec)
    prefill, decode = (
        _part(group, classes, precision, times, None if given.most_sequences else declared_sequences(group))
        for group in (first, second)
    )
    inputs = gather(given, measured, rails=spec.transfer.rails, chunk_layers=spec.transfer.chunk_layers)
    budget = spec.scaling.budget
    scenario = Scenario(
        work=work,
        prefill=prefill,
        decode=decode,
        workload=inputs.workload,
        targets=Targets(objective_of(spec.objectives.ttft), objective_of(spec.objectives.itl)),
        link=inputs.link,
        efficiency=inputs.efficiency,
        tariff=inputs.tariff,
        budget_devices=budget.devices,
        budget_usd_per_hour=None if budget.usd_per_hour is None else float(budget.usd_per_hour),
        role_changes_per_hour=inputs.role_changes_per_hour,
        drain_seconds=spec.drain.timeout,
        drafter=drafter,
    )
    path, scenario = _path(spec, geometry, classes, given, measured, scenario, (first, second))
    if (given.requests_per_second, measured.requests_per_second) == (None, None):
        scenario, inputs = _with_rate(scenario, inputs)
    listed = [
        *model_inputs(spec, geometry, work),
        *device_inputs(scenario),
        *interconnect_inputs(scenario),
        *time_inputs(scenario),
        *batch_inputs(scenario),
        *inputs.assumptions,
        path,
    ]
    if len(spec.groups) > 2:
        names = f"{first.name} and {second.name} of {len(spec.groups)}"
        listed.append(Assumption("groups", names, "", "the first of each role is priced"))
    return Question(scenario, tuple(listed), splits=first.name != second.name)


def _path(  # noqa: PLR0917 -- all of a question
    spec: HawkPoolSpec,
    geometry: Geometry,
    classes: Mapping[str, AcceleratorClassSpec],
    given: Given,
    measured: Given,
    scenario: Scenario,
    groups: tuple[GroupSpec, GroupSpec],
) -> tuple[Assumption, Scenario]:
    """Return the share of the link that the layouts leave; a measured rate has it in already."""
    if given.path_share is not None:
        path = LayoutPath(bounded("path_share", given.path_share), given.source)
    elif given.link_bytes_per_second is None and measured.link_bytes_per_second is not None:
        path = LayoutPath(1.0, "the link's rate was measured end to end, layouts included")
    elif groups[0].name == groups[1].name:
        path = WHOLE
    else:
        path = layout_path(
            *groups,
            classes,
            geometry,
            dtype=spec.model.kv_dtype,
            tokens=scenario.workload.prompt_tokens,
            link_bytes_per_second=scenario.link.bytes_per_second,
        )
    listed = Assumption("path_share", path.share, "", path.how, option=option_of("path_share"))
    return listed, replace(scenario, path_share=path.share)


def _with_rate(scenario: Scenario, inputs: Inputs) -> tuple[Scenario, Inputs]:
    """Return both with traffic that the declared groups carry about half full, where none is known."""
    part = scenario.prefill
    alone = prefill_seconds(scenario, part.replica)
    full = 0.5 * (part.most or 1) / alone
    rates = [float(f"{full / 2**halvings:.2g}") for halvings in range(MOST_HALVINGS)]
    carried = (rate for rate in rates if _carries(scenario.at(requests_per_second=rate)))
    rate = next(carried, rates[0])
    source = f"default: {part.most} replicas of group {part.name} at most half full, within all bounds"
    listed = tuple(
        replace(one, value=rate, source=source) if one.name == "requests_per_second" else one
        for one in inputs.assumptions
    )
    return scenario.at(requests_per_second=rate), replace(inputs, assumptions=listed)


def _carries(scenario: Scenario) -> bool:
    return split(scenario).standing is Feasibility.MEETS


def _sides(spec: HawkPoolSpec) -> tuple[GroupSpec, GroupSpec]:
    def first(*roles: Role) -> GroupSpec:
        for role in roles:
            for group in spec.groups:
                if group.role is role:
                    return group
        raise checks.InputError(
            "groups", f"none has a role of {', '.join(roles)}", "add a group with one of these roles"
        )

    return first(Role.PREFILL, Role.BOTH), first(Role.DECODE, Role.BOTH)


def _part(
    group: GroupSpec,
    classes: Mapping[str, AcceleratorClassSpec],
    precision: Precision,
    times: Sequence[Measured],
    most_sequences: int | None,
) -> DeclaredGroup:
    name = group.accelerator_class
    if name is None:
        raise checks.MissingInputError(
            f"groups.{group.name}.acceleratorClass",
            "a group on CPUs has no rates to plan with",
            "name an AcceleratorClass that describes its devices",
        )
    if name not in classes:
        raise checks.MissingInputError(
            f"groups.{group.name}.acceleratorClass",
            f"{name} is not a known AcceleratorClass",
            "create it, or choose a shipped one",
        )
    device = device_of(name, classes[name], precision)
    devices = group.accelerators_per_replica
    return DeclaredGroup(
        group.name,
        Replica(device, devices, closest(times, name, devices), most_sequences),
        group.replicas.max,
    )


def device_of(name: str, spec: AcceleratorClassSpec, precision: Precision) -> Device:
    """Return a class's figures, its FLOP/s at the `precision` of the model's weights."""

    def number(value: Any) -> float | None:
        return None if value is None else float(value)

    roles = set(spec.roles)
    return Device(
        name=name,
        flops=peak_at(spec.flops, precision),
        attention_flops=peak_at(spec.flops),
        interconnect=interconnect_of(spec),
        memory=number(spec.memory),
        bandwidth=number(spec.bandwidth),
        watts=number(spec.power),
        price_usd=number(spec.price),
        price_per_hour_usd=number(spec.price_per_hour),
        prefills=bool(roles & {Role.PREFILL, Role.BOTH}),
        decodes=bool(roles & {Role.DECODE, Role.BOTH}),
        startup_seconds=spec.startup,
    )
