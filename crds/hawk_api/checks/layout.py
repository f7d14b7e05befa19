"""Checks of KV layouts as far as the spec alone tells; whether two translate is the compiler's to say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hawk_api.checks.template import container_words
from hawk_api.checks.violation import error, groups, warning
from hawk_api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hawk_api.checks.violation import SpecContext, Violation
    from hawk_api.models import Geometry
    from hawk_api.v1alpha1 import GroupSpec, HawkPoolSpec, KvLayout, LayoutPreset

_AXIS = re.compile(r"[lcbhsd][0-9]?")
_BYPASSES = {
    "enforce_handshake_compat": r"false|0|no|off",
    "enable_permute_local_kv": r"true|1|yes|on",
}
"""Engine switches that let two sides talk although their layouts weren't compared, and the values that do."""

_SWITCH = {
    name: re.compile(rf"{name.replace('_', '[-_]')}[\"']?\s*[:=\s]\s*[\"']?({values})\b", re.IGNORECASE)
    for name, values in _BYPASSES.items()
}


def form(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """A layout is a preset or a notation, and its sizes belong to it."""
    for path, group in groups(spec):
        layout = group.kv_layout
        if layout is None:
            continue
        field = f"{path}.kvLayout"
        if (layout.preset is None) == (layout.notation is None):
            yield error(field, "give exactly one of preset and notation")
        for axis in layout.sizes or {}:
            if not _AXIS.fullmatch(axis):
                yield error(
                    f"{field}.sizes[{axis}]",
                    f"{axis!r} is no axis; use l, c, b, h, s or d with an optional level, such as s0",
                )
        if layout.notation is not None:
            yield from _notation(field, layout.notation, layout.sizes or {})


def _notation(field: str, notation: str, sizes: dict[str, int]) -> Iterator[Violation]:
    axes = notation.replace("[", "").replace("]", "").split()
    for axis in sorted({axis for axis in axes if axes.count(axis) > 1}):
        yield error(f"{field}.notation", f"axis {axis} stands more than once in {notation!r}; name each once")
    for letter in sorted({axis[0] for axis in axes}):
        levels = sorted({int(axis[1:] or 0) for axis in axes if axis[0] == letter})
        if levels != list(range(len(levels))):
            shown = ", ".join(f"{letter}{level}" for level in levels)
            yield error(
                f"{field}.notation", f"levels of {letter} are {shown}; number them from 0 without a gap"
            )
        for level in levels[:-1]:
            if f"{letter}{level}" not in sizes:
                yield error(
                    f"{field}.sizes", f"the size of {letter}{level} is missing; add sizes.{letter}{level}"
                )
    for axis in sorted(set(sizes) - set(axes)):
        if _AXIS.fullmatch(axis) and axis[0] not in axes:
            yield error(f"{field}.sizes[{axis}]", f"{axis} doesn't stand in {notation!r}; remove its size")


def fit(spec: HawkPoolSpec, context: SpecContext) -> Iterator[Violation]:
    """Tiles divide what they tile."""
    geometry = context.geometry(spec)
    for path, group in groups(spec):
        if group.kv_layout is not None:
            yield from _fit(f"{path}.kvLayout", group.kv_layout, geometry)


def _fit(field: str, layout: KvLayout, geometry: Geometry | None) -> Iterator[Violation]:
    sizes = layout.sizes or {}
    tile = layout.preset.feature_tile if layout.preset else 1
    if tile > 1 and sizes.get("d0", tile) != tile:
        yield error(
            f"{field}.sizes[d0]",
            f"{sizes['d0']} contradicts {layout.preset} with its {tile} features a tile; remove it",
        )
    tile = sizes.get("d0", tile)
    for head_dim in sorted(geometry.head_dims if geometry else ()):
        if head_dim % tile:
            yield error(
                field,
                f"tiles of {tile} features don't divide the model's head dimension {head_dim}; "
                f"choose a tile that divides {head_dim}",
                Reason.LAYOUTS_INCOMPATIBLE,
            )
        if "d" in sizes and sizes["d"] != head_dim:
            yield error(
                f"{field}.sizes[d]",
                f"{sizes['d']} contradicts the model's head dimension {head_dim}; remove it",
            )
    if layout.preset and layout.preset.token_tile > 1:
        yield from _token_tile(field, layout.preset, sizes)


def _token_tile(field: str, preset: LayoutPreset, sizes: dict[str, int]) -> Iterator[Violation]:
    tile = preset.token_tile
    if sizes.get("s0", tile) != tile:
        yield error(
            f"{field}.sizes[s0]",
            f"{sizes['s0']} contradicts {preset} with its {tile} tokens a tile; remove it",
        )


def stated(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """Layouts are stated wherever the engine was told not to compare them."""
    found = [(path, name) for path, group in groups(spec) for name in bypasses(group)]
    if not found:
        return
    for path, group in groups(spec):
        if group.kv_layout is None:
            where, name = found[0]
            yield warning(
                f"{path}.kvLayout",
                f"the layout is only implied, while {where}.template turns the engine's own comparison off "
                f"({name}); state kvLayout, or leave the comparison on",
                Reason.LAYOUTS_IMPLIED,
            )


def bypasses(group: GroupSpec) -> list[str]:
    """Switches in the group's arguments and environment that let layouts go uncompared."""
    if group.template is None:
        return []
    text = "\n".join(container_words(group.template.get("spec")))
    return [name for name, pattern in _SWITCH.items() if pattern.search(text)]
