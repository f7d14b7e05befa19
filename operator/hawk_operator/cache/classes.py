"""AcceleratorClasses: what the cluster has, and what this release ships."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hawk_api import labels
from hawk_api.v1alpha1 import AcceleratorClassSpec
from hawk_kube.kinds import ACCELERATOR_CLASS
from hawk_operator.workloads.children import missing_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_kube.client import Client, Object
    from hawk_operator.kube.schema_check import Schema

_log = logging.getLogger(__name__)


def parse_classes(bodies: Iterable[Mapping[str, object]] | None) -> dict[str, AcceleratorClassSpec]:
    """The classes by name. The shipped ones where the cluster's can't be read."""
    if bodies is None:
        from hawk_api.catalogue import shipped  # noqa: PLC0415 - not needed where the cluster has them

        return dict(shipped())
    found = {}
    for body in bodies:
        name = str(body["metadata"]["name"])  # type: ignore[index]
        try:
            found[name] = AcceleratorClassSpec.model_validate(body.get("spec"))
        except ValidationError as error:
            _log.warning("AcceleratorClass %s can't be read: %s", name, error)
    return found


def class_bodies() -> list[Object]:
    """The shipped classes as they are applied."""
    from hawk_api.catalogue import manifests  # noqa: PLC0415

    found: list[Object] = []
    for manifest in manifests():
        metadata = dict(manifest["metadata"])  # type: ignore[call-overload]
        metadata["labels"] = {
            **(metadata.get("labels") or {}),
            labels.SHIPPED: "true",
            labels.MANAGED_BY: labels.MANAGER,
        }
        found.append({"metadata": metadata, "spec": manifest["spec"]})
    return found


def sync_due(wanted: Object, present: Mapping[str, Mapping[str, object]]) -> bool:
    """True if a shipped class has to be applied: it is absent, or ours and different.

    A class of that name without our label is the user's, and stays as it is.
    """
    live = present.get(wanted["metadata"]["name"])
    if live is None:
        return True
    own_labels = (live.get("metadata") or {}).get("labels") or {}  # type: ignore[attr-defined]
    return own_labels.get(labels.SHIPPED) == "true" and bool(missing_fields(wanted, live))


def apply_shipped(api: Client, present: Iterable[Object], schema: Schema) -> list[Object]:
    """Apply the shipped classes that are due, as far as the cluster knows their fields; gives them as they
    were written."""
    by_name = {body["metadata"]["name"]: body for body in present}
    kind = ACCELERATOR_CLASS.kind
    fitting = [{**body, "spec": schema.fit(kind, "spec", body["spec"])} for body in class_bodies()]
    return [api.apply(ACCELERATOR_CLASS, wanted) for wanted in fitting if sync_due(wanted, by_name)]
