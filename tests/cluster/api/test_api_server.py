"""The API as a real API server serves it: what it refuses and how, what it fills in, what it keeps."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hawk_api.checks.template import MAX_TEMPLATES_BYTES
from hawk_api.conditions import ConditionType, make_condition, set_condition
from hawk_api.names import child_name, label_value
from hawk_api.reasons import Reason
from hawk_api.v1alpha1 import HawkNodeStatus, HawkPool, HawkPoolStatus
from hawk_api.validation import parse_object, validate_manifest
from tests.cluster.cluster import Cluster, CommandError
from tests.support.waiting import until

from .cases import ACCEPTED, REFUSED, Case

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str | int, ...]
Leaves = dict[Path, Any]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("crds")]

TEMPLATE = {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}}


def pool(name: str = "pool", **groups: dict[str, Any]) -> dict[str, Any]:
    chosen = groups or {"prefill": {"role": "Prefill"}, "decode": {"role": "Decode"}}
    return {
        "apiVersion": "hawkpool.dev/v1alpha1",
        "kind": "HawkPool",
        "metadata": {"name": name},
        "spec": {
            "model": {"preset": "llama-3.3-70b"},
            "groups": [{"name": key, "template": TEMPLATE, **group} for key, group in chosen.items()],
        },
    }


def create(cluster: Cluster, namespace: str, obj: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(
        cluster.kubectl("create", "-n", namespace, "-f", "-", "-o", "json", stdin=json.dumps(obj))
    )
    return made


@pytest.fixture(scope="module")
def room(cluster: Cluster) -> Iterator[str]:
    """One namespace for all cases: they leave nothing in it."""
    name = f"cases-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.path.stem)
def test_a_refusal_names_field_and_remedy(case: Case, cluster: Cluster, room: str) -> None:
    with pytest.raises(CommandError) as refused:
        create(cluster, room, case.object)
    said = " ".join(str(refused.value.stderr).split())

    assert [words for words in case.says if words not in said] == [], said
    case.check("refusal", said)


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.path.stem)
def test_an_accepted_object_loses_nothing_and_gets_the_defaults_of_the_models(
    case: Case, cluster: Cluster, room: str
) -> None:
    made = create(cluster, room, case.object)
    try:
        given, stored = dict(leaves(case.object["spec"])), dict(leaves(made["spec"]))
        parsed = dict(leaves(parse_object(case.object).to_dict()["spec"]))
        assert {path: stored.get(path) for path in given} == given
        assert without(stored, given) == without(parsed, given)
        assert [v for v in validate_manifest(made) if v.severity == "Error"] == []
    finally:
        cluster.kubectl("delete", made["kind"], made["metadata"]["name"], "-n", room, "--timeout=120s")


def without(found: Leaves, given: Leaves) -> Leaves:
    """Leaves that were filled in. `replicas.max` follows from `replicas.min`, which no schema can say."""
    return {
        path: leaf for path, leaf in found.items() if path not in given and path[-2:] != ("replicas", "max")
    }


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif value not in ({}, []):
        yield path, value


def test_the_definitions_are_accepted_whole(cluster: Cluster, crds: list[str]) -> None:
    """Structural, established, and cheap enough for the API server's estimate of their rules."""
    names = sorted(name.rpartition("/")[2] for name in crds)
    assert names == [f"{plural}.hawkpool.dev" for plural in ("acceleratorclasses", "hawknodes", "hawkpools")]
    for name in names:
        conditions = {c["type"]: c["status"] for c in cluster.get("crd", name)["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert conditions["NamesAccepted"] == "True"
        assert conditions.get("NonStructuralSchema", "False") == "False"


def test_a_pool_cannot_be_scaled_as_a_whole(cluster: Cluster, namespace: str) -> None:
    """`kubectl scale` would claim success and change nothing."""
    create(cluster, namespace, pool())
    with pytest.raises(CommandError):
        cluster.kubectl("scale", "hawkpool", "pool", "--replicas=3", "-n", namespace)

    assert cluster.get("hawkpool", "pool", "-n", namespace)["metadata"]["generation"] == 1


def test_short_names_and_categories(cluster: Cluster, namespace: str) -> None:
    create(cluster, namespace, pool())

    for words in ("hp", "hawkpools", "all", "hawk"):
        assert "pool" in cluster.kubectl("get", words, "-n", namespace, "-o", "name")
    node = f"node-{namespace}"
    create(
        cluster,
        namespace,
        {"apiVersion": "hawkpool.dev/v1alpha1", "kind": "HawkNode", "metadata": {"name": node}},
    )
    try:
        assert f"hawknode.hawkpool.dev/{node}" in cluster.kubectl("get", "hn", "-o", "name").split()
    finally:
        cluster.kubectl("delete", "hawknode", node, "--timeout=120s")
    assert isinstance(cluster.get("ac")["items"], list)


def test_columns_show_the_status(cluster: Cluster, namespace: str) -> None:
    create(cluster, namespace, pool())
    write_status(cluster, namespace, "hawkpool", "pool", full_pool_status().to_dict())
    head, row = cluster.kubectl("get", "hp", "-n", namespace).splitlines()

    assert head.split() == ["NAME", "PREFILL", "DECODE", "RATIO", "TTFT", "ITL", "READY", "AGE"]
    assert row.split()[:7] == ["pool", "2", "3", "2:3", "183.5ms", "14.2ms", "True"]


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("x" * 63, ("p", "d")),
        ("x" * 120, ("p" * 40, "d" * 40)),
        ("a.b-" + "y" * 249, ("p" * 63, "d" * 63)),
    ],
    ids=["63", "120", "253"],
)
def test_any_legal_name_has_children_that_the_api_server_takes(
    name: str, groups: tuple[str, str], cluster: Cluster, namespace: str
) -> None:
    create(cluster, namespace, pool(name, **{groups[0]: {"role": "Prefill"}, groups[1]: {"role": "Decode"}}))
    labels = {"hawkpool.dev/pool": label_value(name)}
    children = [child_name(name, group) for group in groups]
    for child in children:
        cluster.kubectl(
            "create",
            "-n",
            namespace,
            "-f",
            "-",
            "--dry-run=server",
            stdin=yaml.safe_dump(deployment(child, labels)),
        )
    cluster.kubectl("delete", "hawkpool", name, "-n", namespace, "--timeout=120s")

    assert len(set(children)) == 2
    assert cluster.get("hawkpools", "-n", namespace)["items"] == []


def deployment(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": TEMPLATE["spec"]},
        },
    }


def test_a_namespace_of_63_characters(cluster: Cluster) -> None:
    namespace = "n" * 63
    cluster.kubectl("create", "namespace", namespace)
    try:
        create(cluster, namespace, pool("x" * 120))
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")
    until(
        lambda: cluster.get("hawkpools", "-n", namespace)["items"] == [],
        what="the pool to go with its namespace",
    )


def test_a_template_of_300_kilobytes_is_kept(cluster: Cluster, namespace: str) -> None:
    large = {"spec": {"containers": [{"name": "engine", "image": "engine:1", "args": ["x" * 300_000]}]}}
    obj = pool(prefill={"role": "Prefill", "template": large}, decode={"role": "Decode"})
    made = create(cluster, namespace, obj)

    assert made["spec"]["groups"][0]["template"] == large
    assert validate_manifest(made) == ()


def test_templates_beyond_the_limit_are_refused_with_the_limit(cluster: Cluster, namespace: str) -> None:
    """At a megabyte by our own check; the API server itself ends somewhat later."""
    args = ["x" * (MAX_TEMPLATES_BYTES // 2)]
    large = {"spec": {"containers": [{"name": "engine", "image": "engine:1", "args": args}]}}
    roles = {
        "prefill": {"role": "Prefill", "template": large},
        "decode": {"role": "Decode", "template": large},
    }
    made = create(cluster, namespace, pool(**roles))
    [violation] = validate_manifest(made)

    assert f"at most {MAX_TEMPLATES_BYTES} are possible" in violation.message
    cluster.kubectl("delete", "hawkpool", "pool", "-n", namespace, "--timeout=120s")


def write_status(cluster: Cluster, namespace: str, kind: str, name: str, status: dict[str, Any]) -> None:
    cluster.kubectl(
        "patch",
        kind,
        name,
        "-n",
        namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": status}),
    )


def full_pool_status() -> HawkPoolStatus:
    """A status with every key that the models can write."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    conditions: tuple[Any, ...] = ()
    for kind in ConditionType:
        conditions = set_condition(
            conditions, make_condition(kind, True, Reason.AS_EXPECTED, "all of it", 3), now
        )
    group = {"name": "g", "role": "Both", "desired": 4, "replicas": 4, "ready": 3, "capacity": 2}
    decision = {
        "time": now,
        "reason": Reason.DEMAND,
        "message": "2 prefill and 3 decode",
        "prefill": 2,
        "decode": 3,
        "replicas": {"prefill": 2, "decode": 3},
        "prediction": {"ttft": "180ms"},
        "inputs": {"requestRate": "12.5"},
    }
    return HawkPoolStatus.model_validate(
        {
            "observedGeneration": 3,
            "conditions": conditions,
            "groups": [{**group, "name": f"g{index}"} for index in range(16)],
            "prefill": 2,
            "decode": 3,
            "ratio": "2:3",
            "ttft": 0.1835,
            "itl": 0.0142,
            "decisions": [decision] * 10,
        }
    )


def full_node_status() -> HawkNodeStatus:
    region = {
        "pool": "ns/p",
        "group": "g",
        "worker": "w",
        "name": "kv",
        "layout": "f" * 64,
        "bytes": 2**40,
        "epoch": "e",
    }
    rail = {"name": "r", "transport": "rdma", "address": "10.0.0.1", "gid": "::1", "mtu": 4096}
    limits = {"maxSge": 30, "maxWr": 32_768, "maxMessageBytes": 2**31}
    problem = {"peer": "n", "reason": "PeerUnreachable", "message": "no answer"}
    return HawkNodeStatus.model_validate(
        {
            "epoch": "e",
            "version": "1",
            "protocol": 1,
            "address": "10.0.0.1:7000",
            "hostId": "h",
            "regions": [{**region, "worker": f"w{index}"} for index in range(64)],
            "regionCount": 64,
            "links": {
                "up": 1,
                "down": 2,
                "verified": 3,
                "problems": [{**problem, "peer": f"n{i}"} for i in range(16)],
            },
            "rails": [{**rail, **limits, "name": f"r{index}"} for index in range(8)],
            "verifiedPeers": [f"n{index}" for index in range(64)],
            "conditions": full_pool_status().conditions[:4],
        }
    )


def test_no_status_key_of_a_pool_is_dropped(cluster: Cluster, namespace: str) -> None:
    status = full_pool_status().to_dict()
    create(cluster, namespace, pool())
    write_status(cluster, namespace, "hawkpool", "pool", status)
    kept = cluster.get("hawkpool", "pool", "-n", namespace)

    assert kept["status"] == status
    assert HawkPool.model_validate(kept).status == full_pool_status()
    assert set(HawkPoolStatus.model_fields) == full_pool_status().model_fields_set
    assert len(json.dumps(status)) < 100_000


def test_no_status_key_of_a_node_is_dropped(cluster: Cluster, namespace: str) -> None:
    status = full_node_status().to_dict()
    name = f"node-{namespace}"
    obj = {"apiVersion": "hawkpool.dev/v1alpha1", "kind": "HawkNode", "metadata": {"name": name}}
    create(cluster, namespace, obj)
    try:
        write_status(cluster, namespace, "hawknode", name, status)
        assert cluster.get("hawknode", name)["status"] == status
    finally:
        cluster.kubectl("delete", "hawknode", name, "--timeout=120s")
    assert set(HawkNodeStatus.model_fields) == full_node_status().model_fields_set
    assert len(json.dumps(status)) < 20_000


def test_a_status_is_written_apart_from_the_spec(cluster: Cluster, namespace: str) -> None:
    create(cluster, namespace, {**pool(), "status": {"ratio": "9:9"}})
    assert "status" not in cluster.get("hawkpool", "pool", "-n", namespace)
    write_status(cluster, namespace, "hawkpool", "pool", {"ratio": "2:3"})

    kept = cluster.get("hawkpool", "pool", "-n", namespace)
    assert (kept["status"], kept["metadata"]["generation"]) == ({"ratio": "2:3"}, 1)
