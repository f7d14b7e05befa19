"""Checks of the model, and of the groups against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_api.checks.violation import error, groups
from hawk_api.models import resolve_geometry
from hawk_api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawk_api.checks.violation import SpecContext, Violation
    from hawk_api.v1alpha1 import HawkPoolSpec


def source(spec: HawkPoolSpec, context: SpecContext) -> Iterator[Violation]:
    """Exactly one source of the model's shape, and one that can be understood."""
    model = spec.model
    given = {"preset": model.preset, "geometry": model.geometry, "configMapRef": model.config_map_ref}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        listed = " and ".join(named) or "none"
        yield error("spec.model", f"{listed} given; give exactly one of preset, geometry and configMapRef")
        return
    if model.config_map_ref is not None and context.config_json is None:
        return
    try:
        resolve_geometry(model, context.config_json)
    except ValueError as problem:
        yield error(f"spec.model.{named[0]}", str(problem), Reason.UNKNOWN_MODEL)


def heads(spec: HawkPoolSpec, context: SpecContext) -> Iterator[Violation]:
    """Heads can be spread over each group's tensor-parallel devices."""
    geometry = context.geometry(spec)
    if geometry is None:
        return
    for path, group in groups(spec):
        tensor = group.parallelism.tensor
        field = f"{path}.parallelism.tensor"
        if geometry.query_heads % tensor:
            yield error(
                field,
                f"the model's {geometry.query_heads} query heads don't spread evenly over {tensor} devices; "
                f"give a divisor of {geometry.query_heads}",
            )
        elif geometry.kv_heads and geometry.kv_heads % tensor and tensor % geometry.kv_heads:
            yield error(
                field,
                f"{geometry.kv_heads} key/value heads of the model and {tensor} devices: neither divides the "
                "other; choose a size where one does",
            )


def layers(spec: HawkPoolSpec, context: SpecContext) -> Iterator[Violation]:
    """Stages and chunks have at least one layer."""
    geometry = context.geometry(spec)
    if geometry is None:
        return
    for path, group in groups(spec):
        if group.parallelism.pipeline > geometry.layer_count:
            yield error(
                f"{path}.parallelism.pipeline",
                f"{group.parallelism.pipeline} stages for {geometry.layer_count} layers; lower it",
            )
    chunk = spec.transfer.chunk_layers
    if chunk is not None and chunk > geometry.layer_count:
        yield error(
            "spec.transfer.chunkLayers",
            f"{chunk} is more than the model's {geometry.layer_count} layers; lower it or leave it out",
        )
