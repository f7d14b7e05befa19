"""hawk doctor: each thing that stops HawkPool is told, and a sound cluster has nothing to tell."""

from __future__ import annotations

from typing import Any

import pytest

from hawk_cli.commands import doctor
from hawk_kube.errors import UnavailableError
from hawk_kube.kinds import DAEMON_SET, EVENT, HAWK_NODE, ResourceKind

READY = {"type": "Ready", "status": "True", "message": "engines and peers are served"}


def node(name: str = "n1", **condition: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"conditions": [{**READY, **condition}]}}


def child(namespace: str, *volumes: dict[str, Any]) -> dict[str, Any]:
    spec = {"template": {"spec": {"volumes": list(volumes)}}}
    return {"metadata": {"name": "a", "namespace": namespace}, "spec": spec}


def lease(holder: str = "op-1", duration: int = 15) -> dict[str, Any]:
    renewed = "1970-01-01T00:01:40Z"
    return {"spec": {"holderIdentity": holder, "leaseDurationSeconds": duration, "renewTime": renewed}}


HOST = {"name": "hawk-agent", "hostPath": {"path": "/run/hawk"}}
ALL = {"hawkpools", "hawknodes", "acceleratorclasses", "hawkpools/status"}

SOUND = {
    "served": doctor.judge_served(ALL),
    "leader": doctor.judge_leader(lease(), 110.0),
    "agents": doctor.judge_agents(1, [], [node()]),
    "data paths": doctor.judge_data_paths([node()]),
    "privileged": doctor.judge_admission([child("a", HOST)], {"a": "privileged"}),
    "device plugin": doctor.judge_admission([child("a", {"name": "x"})], {"a": "restricted"}),
}
PROBLEMS = {
    "served": (doctor.judge_served(ALL - {"hawknodes"}), "not served: hawknodes"),
    "old lease": (doctor.judge_leader(lease(), 200.0), "no operator leads; the Lease is 100 s old"),
    "given up": (doctor.judge_leader(lease(holder=""), 101.0), "no operator leads"),
    "refused pods": (doctor.judge_agents(1, ["a/b lacks 2 pods: quota"], [node()]), "lacks 2 pods: quota"),
    "lost agent": (doctor.judge_agents(1, [], [node(), node("n2", status="Unknown")]), "not ready on n2"),
    "no agent": (doctor.judge_agents(0, [], []), "no HawkNode"),
    "no verbs": (
        doctor.judge_data_paths([node(message="served; verbs isn't used: no libibverbs")]),
        "n1: verbs isn't used: no libibverbs",
    ),
    "hostPath": (doctor.judge_admission([child("a", HOST)], {"a": "baseline"}), "hostPath in a"),
}


@pytest.mark.parametrize("what", SOUND)
def test_a_sound_cluster_has_nothing_to_tell(what: str) -> None:
    assert SOUND[what][0] == "ok"
    assert SOUND[what][2] == ""


@pytest.mark.parametrize("what", PROBLEMS)
def test_a_problem_is_told_with_a_remedy(what: str) -> None:
    (state, message, remedy), words = PROBLEMS[what]

    assert state == "problem"
    assert words in message
    assert remedy


def test_what_cannot_be_read_is_unknown_and_no_problem() -> None:
    def refused(*_: object) -> tuple[str, str, str]:
        raise UnavailableError("list nodes: forbidden")

    found = doctor.run_check("agents", refused, None, "hawk-system")  # type: ignore[arg-type]

    assert (found.state, found.message) == ("unknown", "list nodes: forbidden")


class Refusing:
    """An API server that refuses the agents' pods; the Events of it come in no order."""

    def __init__(self, missing: int) -> None:
        status = {"desiredNumberScheduled": 3, "currentNumberScheduled": 3 - missing}
        self.objects = {
            DAEMON_SET: [{"metadata": {"name": "hawk-agent", "namespace": "hawk"}, "status": status}],
            EVENT: [
                {"message": "exceeded quota", "lastTimestamp": "2026-01-01T00:00:02Z"},
                {"message": "a former reason", "lastTimestamp": "2026-01-01T00:00:01Z"},
            ],
            HAWK_NODE: [node()],
        }

    def list(self, kind: ResourceKind, *_: object, **__: object) -> list[dict[str, Any]]:
        return self.objects[kind]


def test_agents_whose_pods_are_refused_are_told_with_the_last_reason() -> None:
    check = doctor.CHECKS["agents"]

    assert check(Refusing(2), "hawk")[:2] == ("problem", "hawk/hawk-agent lacks 2 pods: exceeded quota")  # type: ignore[arg-type]
    assert check(Refusing(0), "hawk")[0] == "ok"  # type: ignore[arg-type]
