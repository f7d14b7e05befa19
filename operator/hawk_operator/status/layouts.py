"""Whether every prefill group's KV cache can be translated into every decode group's. Pure.

The proof is the translation itself: the nest is compiled for the model's geometry, exactly as the agents
will, for each kind of layer that the model has.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hawk_api.reasons import Reason
from hawk_api.v1alpha1 import AttentionKind
from hawk_api.v1alpha1.enums import LayoutPreset
from hawk_operator.status.facts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_agent.layouts import Layout
    from hawk_api.models import Geometry
    from hawk_api.policy import Violation
    from hawk_api.v1alpha1 import AcceleratorClassSpec, GroupSpec, HawkPoolSpec, KvLayout

_TOKENS: Final = 4096
"""A length to compile for; whether two orders agree doesn't depend on it."""

_OUTER: Final = ("l", "c")
"""Axes that a notation may leave out because an engine keeps them in arrays of their own."""


def judge(
    spec: HawkPoolSpec,
    geometry: Geometry | None,
    classes: Mapping[str, AcceleratorClassSpec],
    violations: Iterable[Violation] = (),
) -> Verdict:
    """True when every pair compiles; False with both sides' values; None while the model isn't known.

    `violations` are what was found about the spec: those about layouts are repeated here.
    """
    for violation in violations:
        if violation.reason is Reason.LAYOUTS_INCOMPATIBLE:
            return Verdict(False, Reason.LAYOUTS_INCOMPATIBLE, str(violation))
    if geometry is None:
        return Verdict(None, Reason.NOT_ENOUGH_KNOWN, "the model's geometry isn't known")
    shapes = shapes_of(geometry)
    if not shapes:
        return Verdict(True, Reason.NOT_NEEDED, "no layer of the model keeps keys and values")
    sources = [group for group in spec.groups if group.role.prefills]
    targets = [group for group in spec.groups if group.role.decodes]
    pairs = [(s, t) for s in sources for t in targets if s is not t]
    for source, target in pairs:
        problem = clash(source, target, shapes, spec.model.kv_dtype.value, classes)
        if problem:
            return Verdict(False, Reason.LAYOUTS_INCOMPATIBLE, f"{source.name} to {target.name}: {problem}")
    if not pairs:
        return Verdict(True, Reason.NOT_NEEDED, "one group does both: nothing is translated")
    return Verdict(True, Reason.AS_EXPECTED, f"{len(pairs)} pairs of groups compile")


def shapes_of(geometry: Geometry) -> tuple[tuple[int, int, int, int], ...]:
    """(layers, parts, heads, head dimension) of each kind of layer that keeps something a token.

    Parts are keys and values; a compressed latent has one.
    """
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
    shapes: tuple[tuple[int, int, int, int], ...],
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
def _compiled(
    left: _Description, right: _Description, shapes: tuple[tuple[int, int, int, int], ...], dtype: str
) -> str:
    from hawk_agent.layouts import LayoutError, compile_nest  # noqa: PLC0415 - numpy is loaded with it

    for shape in shapes:
        try:
            compile_nest(_built(left, shape, dtype), _built(right, shape, dtype))
        except LayoutError as error:
            return str(error)
    return ""


def _built(described: _Description, shape: tuple[int, int, int, int], dtype: str) -> Layout:
    from hawk_agent.layouts import Layout  # noqa: PLC0415

    preset, notation, own = described
    layers, parts, heads, width = shape
    sizes = {"l": layers, "c": parts, "b": 1, "h": heads, "s": _TOKENS, "d": width, **dict(own)}
    if preset:
        return Layout.preset(preset, sizes, dtype)
    axes = {term.strip("[]")[0] for term in notation.split()}
    missing = [axis for axis in _OUTER if axis not in axes and sizes[axis] > 1]
    return Layout.parse(" ".join([*missing, notation]), sizes, dtype)
