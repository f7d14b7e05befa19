"""hawk cleanup: remove what an uninstalled operator and its agents made by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hawk_api.labels import SHIPPED
from hawk_cli.support.cluster import connect
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows
from hawk_kube.errors import ApiError, NotFoundError
from hawk_kube.kinds import ACCELERATOR_CLASS, HAWK_NODE, LEASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hawk_kube.client import Client
    from hawk_kube.kinds import ResourceKind

WRITERS: Final = frozenset({"hawk-agent", "hawk-operator"})
"""Field managers of the Leases that are HawkPool's."""


@dataclass(frozen=True)
class Removed:
    """Names of what was removed."""

    leases: list[str]
    hawk_nodes: list[str]
    accelerator_classes: list[str]


def cleanup(
    system_namespace: Annotated[
        str, typer.Option("--system-namespace", help="Namespace that the release was in.")
    ] = "hawk-system",
    *,
    leases_only: Annotated[
        bool, typer.Option("--leases-only", help="Leave cluster-scoped objects alone.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove HawkNodes, Leases and shipped classes that outlived their release. Pools and CRDs stay.

    Run it when operator and agents are gone: they would make all of it again. `helm uninstall` runs it by
    itself unless uninstall.cleanup is false. Exit status 2 where something can't be removed.
    """
    api = connect()
    try:
        removed = remove(api, system_namespace, nodes=not leases_only)
    except ApiError as error:
        fail(f"cluster: {error}")
    finally:
        api.close()
    emit_output(removed, output, lambda: rows(None, ["KIND", "REMOVED"], _lines(removed)))


def remove(api: Client, system_namespace: str, *, nodes: bool) -> Removed:
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
