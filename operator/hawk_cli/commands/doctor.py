"""hawk doctor: find what will stop HawkPool in this cluster, each with the remedy."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hawk_api.base import GROUP, VERSION
from hawk_api.labels import MANAGED_BY, MANAGER
from hawk_cli.support.cluster import connect_cluster
from hawk_cli.support.output import Output, OutputOption, emit_output, rows
from hawk_kube.errors import ApiError, NotFoundError
from hawk_kube.kinds import DAEMON_SET, DEPLOYMENT, HAWK_NODE, LEASE, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hawk_kube.client import Client

    Objects = Sequence[Mapping[str, Any]]

ENFORCE: Final = "pod-security.kubernetes.io/enforce"
LEADER: Final = "leader.hawkpool.dev"
_AGENTS: Final = {"app.kubernetes.io/name": "hawk", "app.kubernetes.io/component": "agent"}


@dataclass(frozen=True)
class CheckResult:
    """One check: "ok", "problem", or "unknown" where the cluster didn't let it be read."""

    check: str
    state: str
    message: str
    remedy: str = ""


def diagnose_cluster(
    system_namespace: Annotated[
        str, typer.Option("--system-namespace", help="Namespace of the release.")
    ] = "hawk-system",
    *,
    output: OutputOption = Output.TABLE,
) -> None:
    """Find what keeps HawkPool from working in this cluster. Exit status 1 if there is a problem."""
    api = connect_cluster()
    try:
        results = [run_check(name, check, api, system_namespace) for name, check in CHECKS.items()]
    finally:
        api.close()
    columns = ["CHECK", "STATE", "WHAT", "REMEDY"]
    lines = [(result.check, result.state, result.message, result.remedy) for result in results]
    emit_output({"checks": results}, output, lambda: rows(None, columns, lines))
    if any(result.state == "problem" for result in results):
        raise typer.Exit(1)


def run_check(
    name: str, check: Callable[[Client, str], tuple[str, str, str]], api: Client, system: str
) -> CheckResult:
    """Run one check; what can't be read is unknown, with the API server's words."""
    try:
        return CheckResult(name, *check(api, system))
    except ApiError as error:
        return CheckResult(name, "unknown", str(error), "run it as a user who may read this")


def _api_served(api: Client, _: str) -> tuple[str, str, str]:
    try:
        document = api.document(f"/apis/{GROUP}/{VERSION}")
    except NotFoundError:
        return "problem", f"{GROUP}/{VERSION} isn't served", "install the chart with crds.install=true"
    return judge_served({item["name"] for item in document.get("resources") or ()})


def judge_served(served: set[str]) -> tuple[str, str, str]:
    """Compare the served kinds with those that there must be. Pure."""
    lacking = sorted({"hawkpools", "hawknodes", "acceleratorclasses"} - served)
    if lacking:
        return "problem", f"not served: {', '.join(lacking)}", "upgrade the chart with crds.install=true"
    return "ok", "hawkpools, hawknodes and acceleratorclasses are served", ""


def _operator_leads(api: Client, system: str) -> tuple[str, str, str]:
    try:
        lease = api.get(LEASE, LEADER, system)
    except NotFoundError:
        return "problem", f"no operator ever led in {system}", "see its pods, or give --system-namespace"
    return judge_leader(lease, time.time())


def judge_leader(lease: Mapping[str, Any], now: float) -> tuple[str, str, str]:
    """From the leader's Lease and the time, in seconds since the epoch, to a verdict. Pure."""
    from hawk_operator.workloads.pods import seconds  # noqa: PLC0415 - after --help

    spec = lease.get("spec") or {}
    age = now - seconds(spec.get("renewTime"))
    holder = spec.get("holderIdentity")
    if not holder or age > float(spec.get("leaseDurationSeconds") or 0):
        return (
            "problem",
            f"no operator leads; the Lease is {age:.0f} s old",
            "see the operator's pods and log",
        )
    return "ok", f"{holder} leads", ""


def _agents_run(api: Client, _: str) -> tuple[str, str, str]:
    from hawk_operator.reconcile.agent_pods import last_refusal, missing_pods  # noqa: PLC0415 - after --help

    refused = []
    daemons = api.list(DAEMON_SET, labels=_AGENTS)
    for daemon in daemons:
        name, namespace = daemon["metadata"]["name"], daemon["metadata"]["namespace"]
        missing = missing_pods(daemon.get("status") or {})
        if missing > 0:
            said = last_refusal(api, namespace, name)
            refused.append(f"{namespace}/{name} lacks {missing} pods: {said}")
    return judge_agents(len(daemons), refused, api.list(HAWK_NODE))


def judge_agents(daemons: int, refused: Sequence[str], nodes: Objects) -> tuple[str, str, str]:
    """From the DaemonSets, what their pods were refused for, and the HawkNodes to a verdict. Pure."""
    if refused:
        remedy = (
            "quota: agent.priorityQuota.enabled; PodSecurity: agent.createNamespace, or label the namespace"
        )
        return "problem", refused[0], remedy
    silent = sorted(node["metadata"]["name"] for node in nodes if not _says(node, "Ready", "True"))
    if silent:
        return (
            "problem",
            f"not ready on {', '.join(silent[:5])}",
            "see kubectl get hawknodes and the agents' pods",
        )
    if not nodes:
        return (
            "problem",
            f"no HawkNode; {daemons} DaemonSets of agents",
            "see agent.enabled, agent.nodeSelector",
        )
    return "ok", f"{len(nodes)} agents are ready", ""


def _says(node: Mapping[str, Any], kind: str, status: str) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(entry.get("type") == kind and entry.get("status") == status for entry in conditions)


def _data_paths(api: Client, _: str) -> tuple[str, str, str]:
    return judge_data_paths(api.list(HAWK_NODE))


def judge_data_paths(nodes: Objects) -> tuple[str, str, str]:
    """The data paths that agents were allowed and couldn't open: libraries, devices, locked memory. Pure."""
    for node in nodes:
        for entry in (node.get("status") or {}).get("conditions") or ():
            if entry.get("type") == "Ready" and "isn't used: " in str(entry.get("message")):
                message = f"{node['metadata']['name']}: {entry['message'].partition('; ')[2]}"
                return (
                    "problem",
                    message,
                    "see agent.rdma and agent.memlock, or leave it out of agent.transports",
                )
    return "ok", "agents opened every data path that they are allowed", ""


def _workers_admitted(api: Client, _: str) -> tuple[str, str, str]:
    children = api.list(DEPLOYMENT, labels={MANAGED_BY: MANAGER})
    levels = {
        namespace["metadata"]["name"]: (namespace["metadata"].get("labels") or {}).get(ENFORCE, "privileged")
        for namespace in api.list(NAMESPACE)
    }
    return judge_admission(children, levels)


def judge_admission(children: Objects, levels: Mapping[str, str]) -> tuple[str, str, str]:
    """Workers with a volume of their node, against the PodSecurity level of their namespace. Pure."""
    refused = sorted(
        {
            namespace
            for child in children
            if (namespace := child["metadata"]["namespace"])
            and levels.get(namespace, "privileged") != "privileged"
            and any("hostPath" in volume for volume in _volumes(child))
        }
    )
    if refused:
        message = f"PodSecurity refuses workers' hostPath in {', '.join(refused[:5])}"
        return "problem", message, f"label it {ENFORCE}=privileged, or set agent.socketAccess to DevicePlugin"
    return "ok", "no namespace of a pool refuses its workers", ""


def _volumes(child: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    volumes: Iterable[Mapping[str, Any]] = child["spec"]["template"]["spec"].get("volumes") or ()
    return volumes


CHECKS: Final = {
    "API": _api_served,
    "operator": _operator_leads,
    "agents": _agents_run,
    "data paths": _data_paths,
    "PodSecurity": _workers_admitted,
}
"""Every check, in the order in which a person would look."""
