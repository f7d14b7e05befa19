"""hawk status: the state of live pools, their problems, and the remedies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from hawk_api.reasons import Reason
from hawk_api.v1alpha1 import HawkPoolStatus
from hawk_cli.support.cluster import connect_cluster
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows
from hawk_kube.errors import ApiError, NotFoundError
from hawk_kube.kinds import HAWK_POOL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from hawk_api.conditions import Condition

_FINE_WHEN_FALSE = frozenset({"Draining"})
_OPTIONAL = frozenset({"PaysOff", "MetricsAvailable"})
"""Conditions that may be Unknown for good, when the spec doesn't ask for what they tell."""


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be, with its explanation."""

    condition: str
    status: str
    reason: str
    message: str
    meaning: str
    remedy: str


@dataclass(frozen=True)
class PoolReport:
    """One pool as it is printed."""

    namespace: str
    name: str
    ready: str
    reason: str
    message: str
    prefill: int | None
    decode: int | None
    ratio: str | None
    ttft_seconds: float | None
    itl_seconds: float | None
    groups: list[dict[str, Any]]
    findings: list[Finding]
    decision: dict[str, Any] | None


def show_status(
    name: Annotated[str | None, typer.Argument(help="A pool; by default all of the namespace.")] = None,
    *,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Its namespace; by default the kubeconfig's.")
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Pools of every namespace.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 unless every pool is Ready.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show live pools: counts, problems and remedies. Exit status 2 if they can't be read."""
    if name is not None and all_namespaces:
        fail("--all-namespaces: a name needs one namespace; use -n NAMESPACE instead")
    reports = [report_pool(body) for body in _read(name, namespace, all_namespaces=all_namespaces)]
    emit_output({"pools": reports}, output, lambda: _table(reports))
    if check and any(found.ready != "True" for found in reports):
        raise typer.Exit(1)


def report_pool(body: dict[str, Any]) -> PoolReport:
    """The findings about a HawkPool in its plain form. Pure."""
    metadata = body["metadata"]
    seen = HawkPoolStatus.model_validate(body.get("status") or {})
    ready = next((item for item in seen.conditions if item.type == "Ready"), None)
    return PoolReport(
        namespace=metadata["namespace"],
        name=metadata["name"],
        ready=str(ready.status) if ready else "Unknown",
        reason=str(ready.reason) if ready else "",
        message=ready.message if ready else "",
        prefill=seen.prefill,
        decode=seen.decode,
        ratio=seen.ratio,
        ttft_seconds=seen.ttft,
        itl_seconds=seen.itl,
        groups=[group.to_dict() for group in seen.groups],
        findings=findings(seen, int(metadata.get("generation") or 0)),
        decision=seen.decisions[0].to_dict() if seen.decisions else None,
    )


def findings(seen: HawkPoolStatus, generation: int) -> list[Finding]:
    """Everything that is wrong or not known, the operator's absence first."""
    found = []
    if seen.observed_generation != generation:
        found.append(
            Finding(
                "Ready",
                "Unknown",
                str(Reason.NOT_OBSERVED),
                f"the operator has seen generation {seen.observed_generation}, the spec is at {generation}",
                "The operator hasn't reconciled this spec yet.",
                "Wait a few seconds; if this persists, check that the operator runs, and its /healthz.",
            )
        )
    found += [_explained(condition) for condition in seen.conditions if _is_wrong(condition)]
    return found


def _is_wrong(condition: Condition) -> bool:
    if condition.type == "Ready" or condition.status == "True":
        return False
    if condition.type in _FINE_WHEN_FALSE:
        return False
    return condition.status == "False" or condition.type not in _OPTIONAL


def _explained(condition: Condition) -> Finding:
    try:
        known: Reason | None = next(reason for reason in Reason if reason == condition.reason)
    except StopIteration:
        known = None  # a newer operator's
    return Finding(
        condition.type,
        str(condition.status),
        condition.reason,
        condition.message,
        known.meaning if known else "",
        known.remedy if known else "",
    )


def _read(name: str | None, namespace: str | None, *, all_namespaces: bool) -> list[dict[str, Any]]:
    api = connect_cluster()
    where = namespace or api.namespace
    try:
        if name is not None:
            return [api.get(HAWK_POOL, name, where)]
        return api.list(HAWK_POOL, None if all_namespaces else where)
    except NotFoundError as error:
        fail(f"{error}; see kubectl get hawkpools -A")
    except ApiError as error:
        fail(f"cluster: {error}")
    finally:
        api.close()


def _table(reports: list[PoolReport]) -> RenderableType:
    if not reports:
        return Text("no HawkPools here; see -A for all namespaces")
    overview = rows(
        None,
        ["NAMESPACE", "NAME", "READY", "#PREFILL", "#DECODE", "RATIO", "TTFT", "ITL", "WHY"],
        (
            (
                item.namespace,
                item.name,
                item.ready,
                item.prefill,
                item.decode,
                item.ratio,
                _milliseconds(item.ttft_seconds),
                _milliseconds(item.itl_seconds),
                item.decision["reason"] if item.decision else "",
            )
            for item in reports
        ),
    )
    return Group(overview, *_details(reports))


def _details(reports: Iterable[PoolReport]) -> Iterable[RenderableType]:
    for item in reports:
        for found in item.findings:
            yield Text(f"\n{item.namespace}/{item.name}: {found.condition} is {found.status}: {found.reason}")
            yield Text(f"  {found.message or found.meaning}")
            if found.remedy:
                yield Text(f"  remedy: {found.remedy}")
        if item.decision:
            yield Text(f"\n{item.namespace}/{item.name}: last decision: {item.decision['message']}")


def _milliseconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds * 1000:.0f} ms"
