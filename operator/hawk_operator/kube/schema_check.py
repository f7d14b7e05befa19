"""A comparison of the served kinds with those that this release knows.

CRDs may be older than the operator: where they are applied by others, and for a moment in each upgrade. An
API server drops unknown fields of a user's object without a word, and a limit that is dropped means "no
limit", so while one is missing nothing is scaled up. What we apply it refuses as a whole where one field is
unknown, so such fields are left out (`fit`). The served schema is read from the OpenAPI document, which every
service account may read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import yaml

from hawk_api.base import API_VERSION, GROUP
from hawk_api.fitting import without

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hawk_kube.client import Client

_Object = dict[str, Any]

LIMITS: Final = (
    "spec.groups[].replicas.max",
    "spec.groups[].acceleratorsPerReplica",
    "spec.scaling.mode",
    "spec.scaling.budget",
    "spec.scaling.budget.devices",
    "spec.scaling.budget.usdPerHour",
    "spec.scaling.ratio.min",
    "spec.scaling.ratio.max",
)
"""Fields that hold the operator back: without them it could do more than its user allowed."""


def schema_fields(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Every field path of a schema; list items as `[]`, map values as `{}`."""
    for name, part in (schema.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        yield here
        yield from schema_fields(part, here)
    if isinstance(schema.get("items"), dict):
        yield from schema_fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from schema_fields(schema["additionalProperties"], f"{path}{{}}")


@dataclass(frozen=True)
class Schema:
    """Fields that the served kinds lack, as far as they were compared."""

    lacking: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Paths under spec and status by kind, outermost only."""
    limits: tuple[str, ...] = ()
    """Those of HawkPool that limit something."""

    def fit(self, kind: str, part: str, value: _Object) -> _Object:
        """A spec or status (`part`) without the fields that the served kind lacks."""
        lacking = self.lacking.get(kind)
        return without(value, lacking, part) if lacking else value


def needed_fields() -> dict[str, frozenset[str]]:
    """The paths under spec and status that this release has, by kind."""
    found = {}
    for file in (resources.files("hawk_api") / "crds").iterdir():
        if file.name.endswith(".yaml"):
            body = yaml.load(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
            [version] = body["spec"]["versions"]
            found[body["spec"]["names"]["kind"]] = _ours(version["schema"]["openAPIV3Schema"])
    return found


def served_fields(api: Client) -> dict[str, frozenset[str]]:
    """The paths that the cluster serves, by kind. Raises ApiError, NotFoundError where there is no
    CRD."""
    document = api.document(f"/openapi/v3/apis/{API_VERSION}")
    found = {}
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        for item in schema.get("x-kubernetes-group-version-kind") or ():
            if item.get("group") == GROUP:
                found[str(item["kind"])] = _ours(schema)
    return found


def compare_schemas(wanted: Mapping[str, frozenset[str]], present: Mapping[str, frozenset[str]]) -> Schema:
    """The missing fields; a kind that isn't served at all is no matter of its fields."""
    lacking = {kind: _outermost(paths - present[kind]) for kind, paths in wanted.items() if kind in present}
    limits = tuple(
        path for path in LIMITS if path in wanted["HawkPool"] - present.get("HawkPool", frozenset())
    )
    return Schema({kind: paths for kind, paths in lacking.items() if paths}, limits)


def _outermost(paths: frozenset[str]) -> frozenset[str]:
    return frozenset(
        path
        for path in paths
        if not any(path.startswith((f"{other}.", f"{other}[", f"{other}{{")) for other in paths)
    )


def _ours(schema: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(path for path in schema_fields(schema) if path.startswith(("spec", "status")))
