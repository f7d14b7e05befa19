"""Checks of the groups by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_api.checks.violation import error, groups, suggestion
from hawk_api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawk_api.checks.violation import SpecContext, Violation
    from hawk_api.v1alpha1 import HawkPoolSpec


def unique_names(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """Two groups never share a name or a workload."""
    names: dict[str, str] = {}
    targets: dict[tuple[str, str, str], str] = {}
    for path, group in groups(spec):
        if group.name in names:
            yield error(f"{path}.name", f"{group.name!r} is the name of {names[group.name]} too; rename one")
        names.setdefault(group.name, path)
        if target := group.scale_target_ref:
            key = (target.api_version, target.kind, target.name)
            if key in targets:
                yield error(
                    f"{path}.scaleTargetRef",
                    f"{target.kind} {target.name} is scaled by {targets[key]} too; give each group its own",
                )
            targets.setdefault(key, path)


def workload(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """A group has a template, or a target to scale, and not both."""
    for path, group in groups(spec):
        if (group.template is None) == (group.scale_target_ref is None):
            given = "neither" if group.template is None else "both"
            yield error(path, f"{given} of template and scaleTargetRef given; give exactly one")


def roles(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """Some group prefills, some group decodes."""
    if not any(group.role.prefills for group in spec.groups):
        yield error("spec.groups", "no group can prefill; give one the role Prefill or Both")
    if not any(group.role.decodes for group in spec.groups):
        yield error("spec.groups", "no group can decode; give one the role Decode or Both")


def replicas(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """Bounds are in order."""
    for path, group in groups(spec):
        if group.replicas.max < group.replicas.min:
            yield error(
                f"{path}.replicas.max",
                f"max {group.replicas.max} is below min {group.replicas.min}; raise max or lower min",
            )


def rollout(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """A rollout can begin: a worker may be added, or one may go."""
    for path, group in groups(spec):
        if {group.rollout.max_surge, group.rollout.max_unavailable} <= {0, "0%"}:
            yield error(
                f"{path}.rollout.maxUnavailable",
                "maxSurge and maxUnavailable are both zero, so no rollout could begin; raise one",
            )


def classes(spec: HawkPoolSpec, context: SpecContext) -> Iterator[Violation]:
    """Named classes exist and can take the group's role."""
    if context.classes is None:
        return
    for path, group in groups(spec):
        name = group.accelerator_class
        if name is None:
            continue
        known = context.classes.get(name)
        if known is None:
            yield error(
                f"{path}.acceleratorClass",
                f"unknown AcceleratorClass {name!r}; {suggestion(name, context.classes)}",
                Reason.UNKNOWN_ACCELERATOR_CLASS,
            )
        elif group.role not in known.roles:
            able = ", ".join(known.roles) or "none"
            yield error(
                f"{path}.role", f"{name} can't take the role {group.role} (it can: {able}); change one"
            )


def devices(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """A replica's devices can be split as its parallelism says."""
    for path, group in groups(spec):
        split = group.parallelism.tensor * group.parallelism.pipeline
        if group.devices and group.devices % split:
            yield error(
                f"{path}.acceleratorsPerReplica",
                f"{group.devices} devices can't be split into tensor {group.parallelism.tensor} x pipeline "
                f"{group.parallelism.pipeline}; give a multiple of {split}",
            )
