"""KV layouts of groups, and whether one can be translated into another, compiled as the agents will."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hawk_api.v1alpha1 import AttentionKind
from hawk_api.v1alpha1.enums import LayoutPreset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_agent.layouts import Layout
    from hawk_api.models import Geometry
    from hawk_api.v1alpha1 import AcceleratorClassSpec, GroupSpec, KvLayout

Shape = tuple[int, int, int, int]
"""Layers, parts (keys and values are two, a compressed latent is one), heads, head dimension."""

_TOKENS: Final = 4096
"""A length to compile for; whether two orders agree doesn't depend on it."""

_OUTER: Final = ("l", "c")
"""Axes that a notation may leave out because an engine keeps them in arrays of their own."""


def shapes_of(geometry: Geometry) -> tuple[Shape, ...]:
    """The shape of each kind of layer that keeps something a token."""
    counts: dict[tuple[int, int, int], int] = {}
    for layer in geometry.layers:
        attention = layer.attention
        if attention.elements_per_token and attention.kv_heads and attention.head_dim:
            parts = 1 if attention.kind is AttentionKind.MLA else 2
            key = (parts, attention.kv_heads, attention.head_dim)
            counts[key] = counts.get(key, 0) + 1
    return tuple((layers, *key) for key, layers in sorted(counts.items()))


def clash(
    source: GroupSpec,
    target: GroupSpec,
    shapes: tuple[Shape, ...],
    dtype: str,
    classes: Mapping[str, AcceleratorClassSpec],
) -> str:
    """Why the KV cache of one group can't become another's; "" when it can."""
    left, right = (_described(layout_of(group, classes)) for group in (source, target))
    return _compiled(left, right, shapes, dtype)


def layout_of(group: GroupSpec, classes: Mapping[str, AcceleratorClassSpec]) -> KvLayout:
    """The group's own layout, else its class's native tile, else row-major."""
    from hawk_api.v1alpha1 import KvLayout  # noqa: PLC0415 - only built where the spec has none

    if group.kv_layout is not None:
        return group.kv_layout
    device = classes.get(group.accelerator_class or "")
    tile = device.native_tile if device is not None else None
    return KvLayout(preset=tile or LayoutPreset.ROW_MAJOR)


_Description = tuple[str, str, tuple[tuple[str, int], ...]]


def _described(layout: KvLayout) -> _Description:
    return (
        layout.preset.value if layout.preset else "",
        layout.notation or "",
        tuple(sorted((layout.sizes or {}).items())),
    )


@lru_cache(maxsize=256)
def _compiled(left: _Description, right: _Description, shapes: tuple[Shape, ...], dtype: str) -> str:
    from hawk_agent.layouts import LayoutError, compile_nest  # noqa: PLC0415 - numpy is loaded with it

    for shape in shapes:
        try:
            compile_nest(_made(left, shape, _TOKENS, dtype), _made(right, shape, _TOKENS, dtype))
        except LayoutError as error:
            return str(error)
    return ""


def layout_for(layout: KvLayout, shape: Shape, tokens: int, dtype: str) -> Layout:
    """A group's layout of `tokens` tokens of one kind of layer. Raises LayoutError."""
    return _made(_described(layout), shape, tokens, dtype)


def _made(described: _Description, shape: Shape, tokens: int, dtype: str) -> Layout:
    from hawk_agent.layouts import Layout  # noqa: PLC0415

    preset, notation, own = described
    layers, parts, heads, width = shape
    sizes = {"l": layers, "c": parts, "b": 1, "h": heads, "s": tokens, "d": width, **dict(own)}
    if preset:
        return Layout.preset(preset, sizes, dtype)
    axes = {term.strip("[]")[0] for term in notation.split()}
    missing = [axis for axis in _OUTER if axis not in axes and sizes[axis] > 1]
    return Layout.parse(" ".join([*missing, notation]), sizes, dtype)
