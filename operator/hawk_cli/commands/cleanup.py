"""hawk cleanup: remove what an uninstalled operator and its agents created."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hawk_api.labels import SHIPPED
from hawk_cli.support.cluster import connect_cluster
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows
from hawk_kube.errors import ApiError, NotFoundError
from hawk_kube.kinds import ACCELERATOR_CLASS, HAWK_NODE, LEASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_kube.client import Client
    from hawk_kube.kinds import ResourceKind

WRITERS: Final = frozenset({"hawk-agent", "hawk-operator"})
"""Field managers of HawkPool's Leases."""


@dataclass(frozen=True)
class Removed:
    """Names of what was removed."""

    leases: list[str]
    hawk_nodes: list[str]
    accelerator_classes: list[str]


def clean_cluster(
    system_namespace: Annotated[
        str, typer.Option("--system-namespace", help="Namespace of the uninstalled release.")
    ] = "hawk-system",
    *,
    leases_only: Annotated[bool, typer.Option("--leases-only", help="Keep cluster-scoped objects.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove the HawkNodes, Leases and shipped classes of an uninstalled release. Pools and CRDs are kept.

    Run it after operator and agents have stopped, because they would create the objects again.
    `helm uninstall` runs it unless uninstall.cleanup is false. Exit status 2 if something can't be removed.
    """
    api = connect_cluster()
    try:
        removed = remove_leftovers(api, system_namespace, nodes=not leases_only)
    except ApiError as error:
        fail(f"cluster: {error}")
    finally:
        api.close()
    emit_output(removed, output, lambda: rows(None, ["KIND", "REMOVED"], _lines(removed)))


def remove_leftovers(api: Client, system_namespace: str, *, nodes: bool) -> Removed:
    """Delete everything and return the names; ApiError when the API server refuses."""
    leases = [str(lease["metadata"]["name"]) for lease in _ours(api.list(LEASE, system_namespace))]
    for name in leases:
        api.delete(LEASE, name, system_namespace)
    if not nodes:
        return Removed(leases, [], [])
    return Removed(leases, _all(api, HAWK_NODE), _all(api, ACCELERATOR_CLASS, {SHIPPED: "true"}))


def _ours(leases: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    for lease in leases:
        fields = lease["metadata"].get("managedFields") or ()
        if WRITERS & {str(entry.get("manager")) for entry in fields}:
            yield lease


def _all(api: Client, kind: ResourceKind, labels: Mapping[str, str] | str = "") -> list[str]:
    try:
        names = [str(item["metadata"]["name"]) for item in api.list(kind, labels=labels)]
    except NotFoundError:  # the CRD is gone, and its objects with it
        return []
    for name in names:
        api.delete(kind, name)
    return names


def _lines(removed: Removed) -> Iterable[tuple[str, str]]:
    for kind, names in (
        ("Lease", removed.leases),
        ("HawkNode", removed.hawk_nodes),
        ("AcceleratorClass", removed.accelerator_classes),
    ):
        for name in names:
            yield kind, name
