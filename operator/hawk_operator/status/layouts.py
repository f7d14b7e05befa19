"""Compatibility of the groups' KV layouts: prefill's must be translatable into decode's. Pure.

The proof is the translation itself: the nest is compiled for the model's geometry, exactly as the agents
will, for each kind of layer that the model has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_api.reasons import Reason
from hawk_operator.status.facts import Judgement
from hawk_planner.payoff.kv_layouts import clash, shapes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_api.checks import Violation
    from hawk_api.models import Geometry
    from hawk_api.v1alpha1 import AcceleratorClassSpec, HawkPoolSpec


def judge_layouts(
    spec: HawkPoolSpec,
    geometry: Geometry | None,
    classes: Mapping[str, AcceleratorClassSpec],
    violations: Iterable[Violation] = (),
) -> Judgement:
    """True when every pair compiles; False with both sides' values; None while the model isn't known.

    `violations` are what was found about the spec: those about layouts are repeated here.
    """
    for violation in violations:
        if violation.reason is Reason.LAYOUTS_INCOMPATIBLE:
            return Judgement(False, Reason.LAYOUTS_INCOMPATIBLE, str(violation))
    if geometry is None:
        return Judgement(None, Reason.NOT_ENOUGH_KNOWN, "the model's geometry isn't known")
    shapes = shapes_of(geometry)
    if not shapes:
        return Judgement(True, Reason.NOT_NEEDED, "no layer of the model keeps keys and values")
    sources = [group for group in spec.groups if group.role.prefills]
    targets = [group for group in spec.groups if group.role.decodes]
    pairs = [(s, t) for s in sources for t in targets if s is not t]
    for source, target in pairs:
        problem = clash(source, target, shapes, spec.model.kv_dtype.value, classes)
        if problem:
            return Judgement(False, Reason.LAYOUTS_INCOMPATIBLE, f"{source.name} to {target.name}: {problem}")
    if not pairs:
        return Judgement(True, Reason.NOT_NEEDED, "one group does both: nothing is translated")
    return Judgement(True, Reason.AS_EXPECTED, f"{len(pairs)} pairs of groups compile")
