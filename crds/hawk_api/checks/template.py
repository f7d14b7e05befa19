"""Checks of what a pod template says about devices and size; the rest is the API server's to judge."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hawk_api import labels, quantity
from hawk_api.checks.violation import dicts, error, groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hawk_api.checks.violation import SpecContext, Violation
    from hawk_api.v1alpha1 import GroupSpec, HawkPoolSpec

MAX_TEMPLATES_BYTES = 1_000_000
"""All templates of a pool together. An object may have 1.5 MB, status and bookkeeping included."""


def size(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """The pool fits into one object."""
    sizes = {
        path: len(json.dumps(group.template, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        for path, group in groups(spec)
        if group.template is not None
    }
    total = sum(sizes.values())
    if total > MAX_TEMPLATES_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        yield error(
            f"{largest}.template",
            f"the pool's templates have {total} bytes, at most {MAX_TEMPLATES_BYTES} are possible; "
            "move large values into a ConfigMap",
        )


def resources(spec: HawkPoolSpec, context: SpecContext) -> Iterator[Violation]:
    """Quantities can be read, devices are whole, and their number is the group's."""
    for path, group in groups(spec):
        if group.template is None:
            continue
        wrong = False
        for field, name, value in requested(f"{path}.template.spec", group.template):
            message = _refusal(name, value)
            if message:
                wrong = True
                yield error(field, message)
        if not wrong:
            yield from _agreement(path, group, context)


def _refusal(name: str, value: object) -> str | None:
    try:
        number = quantity.parse_quantity(value)  # type: ignore[arg-type]  # parse refuses what it can't take
        if number > 0 and _is_device(name):
            quantity.parse_devices(value)  # type: ignore[arg-type]  # read above
    except ValueError as problem:
        return str(problem)
    if number < 0:
        return f"{value!r} is negative; give 0 or more"
    return None


def _is_device(name: str) -> bool:
    """True if a resource is counted in devices: extended resources are, and have a domain."""
    return "/" in name and not name.startswith("kubernetes.io/")


def _agreement(path: str, group: GroupSpec, context: SpecContext) -> Iterator[Violation]:
    known = context.class_of(group)
    if known is None or known.resource_name is None or group.template is None:
        return
    asked = [
        int(quantity.parse_quantity(value))  # type: ignore[arg-type]  # checked by the caller
        for field, name, value in requested("", group.template)
        if name == known.resource_name and ".limits" in field
    ]
    if asked and sum(asked) != group.accelerators_per_replica:
        yield error(
            f"{path}.acceleratorsPerReplica",
            f"{group.accelerators_per_replica} contradicts the template, which asks for {sum(asked)} "
            f"{known.resource_name}; make them equal, or leave the template's out",
        )


def requested(path: str, template: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """Every (path, resource name, value) that a template's containers ask for."""
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for index, container in dicts(containers):
        asked = container.get("resources")
        for kind in ("limits", "requests"):
            values = asked.get(kind) if isinstance(asked, dict) else None
            if isinstance(values, dict):
                for name, value in values.items():
                    yield f"{path}.containers[{index}].resources.{kind}[{name}]", str(name), value


def uses_claims(template: Mapping[str, Any]) -> bool:
    """True if the pods claim their devices (resourceClaims) instead of counting them."""
    spec = template.get("spec")
    return isinstance(spec, dict) and bool(spec.get("resourceClaims"))


def own_labels(spec: HawkPoolSpec, _: SpecContext) -> Iterator[Violation]:
    """The operator's labels are not the template's to set."""
    ours = {labels.POOL, labels.GROUP, labels.ROLE}
    for path, group in groups(spec):
        metadata = (group.template or {}).get("metadata")
        given = metadata.get("labels") if isinstance(metadata, dict) else None
        for name in sorted(ours & set(given if isinstance(given, dict) else ())):
            yield error(f"{path}.template.metadata.labels[{name}]", "the operator sets this label; remove it")


def container_words(spec: object) -> Iterator[str]:
    """Commands, arguments and NAME=value environment of every container."""
    if not isinstance(spec, dict):
        return
    for kind in ("containers", "initContainers"):
        for _, container in dicts(spec.get(kind)):
            for key in ("command", "args"):
                words = container.get(key)
                yield " ".join(map(str, words)) if isinstance(words, list) else str(words)
            for _, variable in dicts(container.get("env")):
                yield f"{variable.get('name')}={variable.get('value')}"
