"""The share of a link that a pair of KV layouts leaves: the cheapest strategy's time against the link's own.

A network card gathers small pieces slower than its link is fast, so equal layouts use the whole link
and unlike ones the share that descriptors, strided keys or tiling at an end leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import checks
from .kv_layouts import layout_for, layout_of, shapes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.models import Geometry
    from hawk_api.v1alpha1 import AcceleratorClassSpec, DataType, GroupSpec

__all__ = ["WHOLE", "LayoutPath", "layout_path"]


@dataclass(frozen=True)
class LayoutPath:
    """The share of a link that a pair of layouts uses, and why it is no more."""

    share: float
    how: str


WHOLE = LayoutPath(1.0, "equal layouts: whole runs, limited by the link")
BLOCK = 16
"""Tokens are rounded up to whole blocks of these for the estimate."""


def layout_path(
    source: GroupSpec,
    target: GroupSpec,
    classes: Mapping[str, AcceleratorClassSpec],
    geometry: Geometry,
    *,
    dtype: DataType,
    tokens: int,
    link_bytes_per_second: float,
) -> LayoutPath:
    """Return what the groups' layouts leave of one rail; MissingInputError where nothing translates them."""
    left, right = layout_of(source, classes), layout_of(target, classes)
    if left == right:
        return WHOLE
    # Compiling a translation loads numpy, which equal layouts never need.
    from hawk_agent.layouts import LayoutError, compile_nest  # noqa: PLC0415
    from hawk_agent.plans import Costs, applicable_strategies, choose_strategy  # noqa: PLC0415
    from hawk_agent.plans.strategies import REMOTE  # noqa: PLC0415

    costs = Costs(link_bytes_per_s=link_bytes_per_second)
    whole = -(-tokens // BLOCK) * BLOCK
    seconds = nbytes = 0.0
    ways: list[str] = []
    try:
        for shape in shapes_of(geometry):
            nest = compile_nest(*(layout_for(side, shape, whole, dtype.value) for side in (left, right)))
            way = choose_strategy(applicable_strategies(nest, costs), among=REMOTE)
            seconds += way.seconds
            nbytes += nest.payload_nbytes
            ways.append(f"{way.name}, limited by {way.limited_by}")
    except LayoutError as error:
        raise checks.MissingInputError(
            "kvLayout", f"{source.name} to {target.name}: {error}", "see hawk layout explain"
        ) from error
    if not seconds:
        return WHOLE
    share = min(1.0, nbytes / link_bytes_per_second / seconds)
    return LayoutPath(share, f"{'; '.join(dict.fromkeys(ways))}, at assumed prices of a 400 Gb/s card")
