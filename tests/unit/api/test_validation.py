from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api.base import ObjectMeta
from hawk_api.v1alpha1 import HawkNode, HawkNodeStatus, HawkPool
from hawk_api.validation import parse_object, path, validate_manifest

from .pools import group, manifest
from .test_any_input import put


def lines(obj: object) -> list[str]:
    return [str(violation) for violation in validate_manifest(obj)]


def test_a_valid_pool_has_no_findings() -> None:
    assert validate_manifest(manifest()) == ()


HEADS: list[tuple[object, str]] = [
    (None, "(document): is NoneType and not an object"),
    ([], "(document): is list and not an object"),
    ({}, "kind: None is no kind of hawkpool.dev/v1alpha1"),
    ({"kind": "Hawkpool"}, "kind: 'Hawkpool' is no kind of hawkpool.dev/v1alpha1; did you mean HawkPool"),
    ({**manifest(), "apiVersion": "hawkpool.dev/v2"}, "apiVersion: 'hawkpool.dev/v2' is not served"),
    ({**manifest(), "apiVersion": 1}, "apiVersion: 1 is not served"),
    ({key: value for key, value in manifest().items() if key != "apiVersion"}, "apiVersion: None is not"),
    ({key: value for key, value in manifest().items() if key != "metadata"}, "metadata: is required; add it"),
    ({**manifest(), "metadata": {}}, "metadata.name: is required; add it"),
    ({**manifest(), "metadata": None}, "metadata: None is not an object; write its fields"),
    ({**manifest(), "metadata": {"name": None}}, "metadata.name: None is not a string"),
    (
        {**manifest(), "metadata": {"name": "Llama_3"}},
        "metadata.name: 'Llama_3' is no object name; use at most 253",
    ),
    ({**manifest(), "metadata": {"name": "x" * 254}}, "use at most 253"),
]


@pytest.mark.parametrize(("obj", "says"), HEADS)
def test_what_is_no_object_of_ours_is_told(obj: object, says: str) -> None:
    [line] = lines(obj)

    assert says in line


MISTAKES: dict[str, tuple[tuple[str | int, ...], object]] = {
    "apiVersion": (("apiVersion",), "hawkpool.dev/v2"),
    "metadata.name": (("metadata", "name"), "Llama_3"),
    "spec.objctives": (("spec", "objctives"), {}),
    "spec.drain.timeout": (("spec", "drain"), {"timeout": "5"}),
    "spec.groups[0].role": (("spec", "groups", 0, "role"), "prefill"),
    "spec.groups[1].replicas.max": (("spec", "groups", 1, "replicas"), {"max": 0}),
}


@given(st.sets(st.sampled_from(sorted(MISTAKES)), min_size=1))
def test_every_mistake_is_told_at_once(made: set[str]) -> None:
    obj = deepcopy(manifest())
    for field in made:
        place, value = MISTAKES[field]
        put(obj, place, value)

    assert {violation.field for violation in validate_manifest(obj)} == made


def test_checks_that_need_a_whole_spec_run_beside_a_wrong_name() -> None:
    bad = {**manifest(group(), group()), "metadata": {"name": "Llama_3"}}

    assert [violation.field for violation in validate_manifest(bad)] == [
        "metadata.name",
        "spec.groups[1].name",
        "spec.groups",
    ]


SHAPES: list[tuple[dict[str, Any], str]] = [
    ({"modle": {}}, "spec.modle: unknown field; did you mean model?"),
    ({"zzz": 1}, "spec.zzz: unknown field; remove it"),
    ({"groups": []}, "spec.groups: has too few items; give at least 1"),
    ({"groups": {}}, "spec.groups: {} is not a list"),
    (
        {"groups": [group(replicas={"mim": 1})]},
        "spec.groups[0].replicas.mim: unknown field; did you mean min?",
    ),
    ({"groups": [group(replicas={"min": "4"})]}, "spec.groups[0].replicas.min: '4' is not a whole number"),
    ({"groups": [group(replicas={"min": 1.5})]}, "spec.groups[0].replicas.min: 1.5 is not a whole number"),
    ({"groups": [group(replicas={"min": True})]}, "spec.groups[0].replicas.min: True is not a whole number"),
    ({"groups": [group(replicas={"min": -1})]}, "spec.groups[0].replicas.min: -1 is below 0; give 0 or more"),
    (
        {"groups": [group(replicas={"min": 99_999})]},
        "spec.groups[0].replicas.min: 99999 is above 10000; give at most",
    ),
    (
        {"groups": [group(role="prefill")]},
        "spec.groups[0].role: unsupported value 'prefill'; use 'Prefill', 'Decode'",
    ),
    ({"groups": [{"name": "a", "template": None}]}, "spec.groups[0].role: is required; add it"),
    ({"groups": [group("A")]}, "spec.groups[0].name: 'A' is not well formed; use lower-case letters"),
    ({"groups": [group("x" * 64)]}, "spec.groups[0].name: is too long; give at most 63 characters"),
    (
        {"groups": [group(acceleratorsPerReplica="500m")]},
        "spec.groups[0].acceleratorsPerReplica: '500m' is not a whole",
    ),
    ({"groups": [group(acceleratorsPerReplica=0)]}, "spec.groups[0].acceleratorsPerReplica: 0 is below 1"),
    (
        {"groups": [group(template={})]},
        "spec.groups[0].template: has no spec.containers; give a pod template",
    ),
    (
        {"groups": [group(rollout={"maxSurge": "-1%"})]},
        "spec.groups[0].rollout.maxSurge: '-1%' is neither a number",
    ),
    (
        {"groups": [group(rollout={"maxSurge": "101%"})]},
        "spec.groups[0].rollout.maxSurge: '101%' is neither a number",
    ),
    (
        {"groups": [group(rollout={"maxSurge": -1})]},
        "spec.groups[0].rollout.maxSurge: -1 is neither a number",
    ),
    ({"model": {"geometry": {"layers": 0}}}, "spec.model.geometry.layers: 0 is below 1; give 1 or more"),
    (
        {"scaling": {"interval": 15}},
        "spec.scaling.interval: 15 is not a duration; write a number with a unit",
    ),
    ({"scaling": {"interval": "15"}}, "spec.scaling.interval: '15' is not a duration"),
    ({"scaling": {"tolerance": "1g"}}, "spec.scaling.tolerance: '1g' is not a quantity"),
    ({"scaling": {"tolerance": 0.1}}, "spec.scaling.tolerance: 0.1 is not a quantity; write a number"),
    (
        {"scaling": {"ratio": {"min": 62}}},
        "spec.scaling.ratio.min: 62 is not a ratio; write prefill:decode in quotes",
    ),
    (
        {"traffic": {"prometheus": {"url": "p:9090"}}},
        "spec.traffic.prometheus.url: 'p:9090' is not well formed; write http://host:port or",
    ),
    ({"drain": None}, "spec.drain: None is not an object; write its fields"),
]


@pytest.mark.parametrize(("changes", "says"), SHAPES)
def test_wrong_shapes_are_told_with_the_path_the_api_server_uses(changes: dict[str, Any], says: str) -> None:
    found = lines(
        manifest(**{k: v for k, v in changes.items() if k != "groups"})
        | {"spec": {**manifest()["spec"], **changes}}
    )

    assert any(line.startswith(says) for line in found), found


def test_a_class_with_an_unknown_format_names_the_key() -> None:
    obj = {
        "apiVersion": "hawkpool.dev/v1alpha1",
        "kind": "AcceleratorClass",
        "metadata": {"name": "x"},
        "spec": {"flops": {"float17": "1T"}},
    }

    assert [violation.field for violation in validate_manifest(obj)] == ["spec.flops.float17"]


def test_paths() -> None:
    assert path(("spec", "groups", 0, "name")) == "spec.groups[0].name"
    assert path(()) == "(document)"


def test_an_object_as_the_api_server_sends_it_is_read() -> None:
    obj = manifest()
    obj["metadata"] |= {
        "uid": "u",
        "generation": 3,
        "resourceVersion": "9",
        "managedFields": [{}],
        "creationTimestamp": "x",
    }
    obj["status"] = {"observedGeneration": 3, "fromTheFuture": 1, "conditions": []}
    made = parse_object(obj)

    assert isinstance(made, HawkPool)
    assert made.metadata.generation == 3
    assert made.status.observed_generation == 3
    assert made.to_dict()["metadata"]["managedFields"] == [{}]


def test_what_is_written_can_be_read() -> None:
    node = HawkNode(
        metadata=ObjectMeta(name="n"),
        status=HawkNodeStatus.model_validate({"epoch": "e", "links": {"up": 2, "verified": 1}}),
    )

    assert HawkNode.model_validate(node.to_dict()) == node
    assert HawkPool.model_validate(parse_object(manifest()).to_dict()) == parse_object(manifest())


@pytest.mark.parametrize(
    ("url", "valid"),
    [
        ("http://prometheus.monitoring:9090", True),
        ("https://prometheus/prefix/", True),
        ("http://user:word@prometheus:9090", True),
        ("http://[2001:db8::1]:9090/x", True),
        ("http://10.0.0.1", True),
        ("http://PROM:bad:prometheus.monitoring:9090", False),
        ("http://prometheus:port", False),
        ("http://prometheus:", False),
        ("http://2001:db8::1:9090", False),
        ("http://[x", False),
        ("http://", False),
    ],
)
def test_the_url_of_the_metrics_has_one_host_and_at_most_one_port(url: str, valid: bool) -> None:
    found = validate_manifest(manifest(traffic={"prometheus": {"url": url}}))

    assert [violation.field for violation in found] == ([] if valid else ["spec.traffic.prometheus.url"])
