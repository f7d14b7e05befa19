"""The chain of checks of a HawkPool's spec, each a pure function from spec to findings.

`hawk validate`, the operator's conditions and admission run the same chain. A check that lacks something it
would need to know (classes, a config.json) is silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_api.checks import group, layout, model, scaling, template
from hawk_api.checks.violation import Check, Severity, SpecContext, Violation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.v1alpha1 import AcceleratorClassSpec, HawkPoolSpec

CHAIN: tuple[Check, ...] = (
    model.source,
    group.unique_names,
    group.workload,
    group.roles,
    group.replicas,
    group.rollout,
    group.classes,
    group.devices,
    model.heads,
    model.layers,
    layout.form,
    layout.fit,
    layout.stated,
    template.size,
    template.resources,
    template.own_labels,
    scaling.devices,
    scaling.money,
    scaling.ratios,
    scaling.tolerance,
    scaling.spans,
    scaling.observed,
)
"""Every check, in the order in which findings are reported."""


def check_spec(
    spec: HawkPoolSpec,
    classes: Mapping[str, AcceleratorClassSpec] | None = None,
    config_json: str | None = None,
) -> tuple[Violation, ...]:
    """All findings about `spec`, errors first.

    `classes` are the cluster's AcceleratorClasses by name, `config_json` is the text that the model's
    configMapRef names; None where it isn't known.
    """
    known = SpecContext(classes, config_json)
    found = [violation for step in CHAIN for violation in step(spec, known)]
    return tuple(sorted(found, key=lambda violation: violation.severity is Severity.WARNING))


def errors_only(violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """Those that stop a pool."""
    return tuple(violation for violation in violations if violation.severity is Severity.ERROR)


__all__ = ["CHAIN", "Check", "Severity", "SpecContext", "Violation", "check_spec", "errors_only"]
