"""Whether the cluster serves the HawkPool that this release knows.

Helm leaves CRDs alone on upgrades, and an API server drops unknown fields without a word. A limit that is
dropped means "no limit", so while one is missing nothing is scaled up. The served schema is read from the
OpenAPI document, which every service account may read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from hawk_api.base import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hawk_operator.cluster_api import ClusterApi

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


def fields(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Every field path of a schema; list items as `[]`, map values as `{}`."""
    for name, part in (schema.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        yield here
        yield from fields(part, here)
    if isinstance(schema.get("items"), dict):
        yield from fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], f"{path}{{}}")


def needed() -> frozenset[str]:
    """The paths under spec and status that this release's HawkPool has."""
    from importlib import resources  # noqa: PLC0415 - read once

    text = (resources.files("hawk_api") / "crds" / "hawkpools.yaml").read_text()
    [version] = yaml.safe_load(text)["spec"]["versions"]
    return _ours(version["schema"]["openAPIV3Schema"])


def served(api: ClusterApi) -> frozenset[str]:
    """The paths that the cluster serves. Raises ApiCallError, NotFoundError where there is no CRD."""
    document = api.document(f"/openapi/v3/apis/{API_VERSION}")
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        kinds = schema.get("x-kubernetes-group-version-kind") or ()
        if any(item.get("kind") == "HawkPool" for item in kinds):
            return _ours(schema)
    return frozenset()


def lacking(wanted: frozenset[str], present: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(all fields that are missing, outermost only; those of them that limit)."""
    gone = wanted - present
    outermost = tuple(
        sorted(path for path in gone if not any(path.startswith(f"{other}.") for other in gone))
    )
    return outermost, tuple(path for path in LIMITS if path in gone)


def _ours(schema: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(path for path in fields(schema) if path.startswith(("spec", "status")))
