"""The result of a check, and the context that it may use."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hawk_api.models import Geometry, resolve_geometry
from hawk_api.reasons import Reason
from hawk_api.v1alpha1 import AcceleratorClassSpec, GroupSpec, HawkPoolSpec


class Severity(StrEnum):
    """An error stops the pool, a warning is only said."""

    ERROR = "Error"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Violation:
    """One finding. `field` is a path such as spec.groups[0].replicas.max; `message` ends with the remedy."""

    field: str
    reason: Reason
    message: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class SpecContext:
    """The facts besides the spec. None means not known: checks that need it are silent."""

    classes: Mapping[str, AcceleratorClassSpec] | None = None
    """The cluster's AcceleratorClasses by name."""
    config_json: str | None = None
    """The text that spec.model.configMapRef names."""

    def geometry(self, spec: HawkPoolSpec) -> Geometry | None:
        """The model's geometry, or None where it isn't known or is refused by a check of its own."""
        if spec.model.config_map_ref is not None and self.config_json is None:
            return None
        try:
            return resolve_geometry(spec.model, self.config_json)
        except ValueError:
            return None

    def class_of(self, group: GroupSpec) -> AcceleratorClassSpec | None:
        """The group's class, where it is known."""
        return (self.classes or {}).get(group.accelerator_class or "")


Check = Callable[[HawkPoolSpec, SpecContext], Iterable[Violation]]


def error(field: str, message: str, reason: Reason = Reason.INVALID_SPEC) -> Violation:
    """A finding that stops the pool."""
    return Violation(field, reason, message)


def warning(field: str, message: str, reason: Reason = Reason.INVALID_SPEC) -> Violation:
    """A finding that is only said."""
    return Violation(field, reason, message, Severity.WARNING)


def groups(spec: HawkPoolSpec) -> Iterator[tuple[str, GroupSpec]]:
    """Each group with its path."""
    for index, group in enumerate(spec.groups):
        yield f"spec.groups[{index}]", group


def dicts(value: object) -> list[tuple[int, dict[str, Any]]]:
    """The objects in a list of an opaque template, with their indices: it may hold anything."""
    listed = value if isinstance(value, list) else []
    return [(index, item) for index, item in enumerate(listed) if isinstance(item, dict)]


def suggestion(name: str, known: Iterable[str]) -> str:
    """A remedy for a name that isn't among `known`."""
    choices = sorted(known)
    near = difflib.get_close_matches(name.lower(), choices, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"choose one of {', '.join(choices)}" if choices else "none exists yet; create it"
