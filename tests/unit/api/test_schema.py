"""The generated CustomResourceDefinitions, checked without an API server."""

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from hawk_agent.layouts.presets import PRESETS
from hawk_api import generate
from hawk_api.base import Model
from hawk_api.catalogue import manifests, shipped
from hawk_api.schema import SchemaError, structural_schema, unbounded_paths, value_range, walk
from hawk_api.v1alpha1 import KINDS, HawkNodeStatus, HawkPool, HawkPoolStatus, LayoutPreset
from hawk_api.validation import validate_manifest

from .pools import group, manifest

SCHEMAS = {kind.kind_info.kind: generate.schema(kind) for kind in KINDS}


def test_generated_files_are_current() -> None:
    stale = [str(path) for path, text in generate.files().items() if path.read_text(encoding="utf-8") != text]

    assert stale == []


def test_a_stale_file_fails_the_check_with_the_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "x.yaml"
    stale.write_text("old\n", encoding="utf-8")
    monkeypatch.setattr(generate, "files", lambda: {stale: "new\n"})

    assert generate.main(["--check"]) == 1
    assert "-old" in capsys.readouterr().out
    assert stale.read_text(encoding="utf-8") == "old\n"
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_list_map_and_string_of_ours_has_a_bound(kind: str) -> None:
    ours = {name: part for name, part in SCHEMAS[kind]["properties"].items() if name in {"spec", "status"}}

    assert unbounded_paths({"type": "object", "properties": ours}) == []


UNITS = re.compile(
    r"\b(bytes|tokens|elements|heads|layers|experts|stages|devices|accelerators|workers|NICs|links|regions"
    r"|entries|requests|operations per second|watts|US dollars|per cent|ratio|percentage|times|percentile"
    r"|version|generation|one in so many)\b",
    re.IGNORECASE,
)
"""Words for the unit of a number, or for the thing counted; versions and generations have no unit."""


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_number_says_its_unit_and_range(kind: str) -> None:
    nodes = {path: node for path, node in walk(SCHEMAS[kind]) if path.startswith((".spec.", ".status."))}
    for path, node in nodes.items():
        if node.get("type") not in {"integer", "number"} and not node.get("x-kubernetes-int-or-string"):
            continue
        told = nodes[path.removesuffix(".*")].get("description", "")

        assert UNITS.search(told), f"{path}: {told!r} names no unit; say what the number counts or measures"
        ranged = re.search(r"\d+ to \S*\d|above \d|or more|from \d", told)
        assert ranged or path.endswith(".*"), f"{path}: {told!r} gives no range"
        assert told.count(value_range(node)) < 2 or not value_range(node), f"{path}: {told!r} says it twice"


@pytest.mark.parametrize("kind", SCHEMAS)
def test_only_pod_templates_are_opaque(kind: str) -> None:
    opaque = [path for path, node in walk(SCHEMAS[kind]) if node.get("x-kubernetes-preserve-unknown-fields")]

    assert all(path.startswith(".spec.groups[].template") for path in opaque)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_rule_names_an_existing_field_and_a_remedy(kind: str) -> None:
    for path, node in walk(SCHEMAS[kind]):
        for rule in node.get("x-kubernetes-validations", ()):
            assert ";" in rule["message"] or rule["message"].startswith("give "), rule
            found = node
            for part in rule.get("fieldPath", "").split(".")[1:]:
                assert part in found["properties"], (path, rule["fieldPath"])
                found = found["properties"][part]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_kubectl_explain_has_something_to_say_of_every_field(kind: str) -> None:
    silent = [
        path
        for path, node in walk(SCHEMAS[kind])
        if path.startswith((".spec", ".status"))
        and not path.endswith(("*", "[]"))
        and not path.startswith(".spec.groups[].template.")
        and not node.get("description")
    ]

    assert silent == []


def test_a_pool_has_no_scale_subresource() -> None:
    version = generate.definition(HawkPool)["spec"]["versions"][0]

    assert version["subresources"] == {"status": {}}


def test_a_status_has_no_defaults() -> None:
    for kind in ("HawkPool", "HawkNode"):
        assert [path for path, node in walk(SCHEMAS[kind]["properties"]["status"]) if "default" in node] == []


@pytest.mark.parametrize("status", [HawkPoolStatus, HawkNodeStatus])
def test_every_status_key_is_in_the_schema(status: type[Model]) -> None:
    """The API server keeps every field that the models can write."""
    schema = structural_schema(status, defaults=False)
    for path, model in _models(status):
        node = dict(walk(schema))[path]
        written = {
            field.serialization_alias or field.alias or name for name, field in model.model_fields.items()
        }
        assert set(node["properties"]) == written, path


def _models(model: type[BaseModel], path: str = "") -> list[tuple[str, type[BaseModel]]]:
    found = [(path, model)]
    for name, field in model.model_fields.items():
        text = str(field.annotation)
        parts = [field.annotation, *getattr(field.annotation, "__args__", ())]
        for part in parts:
            if isinstance(part, type) and issubclass(part, BaseModel):
                suffix = "[]" if "tuple" in text else ""
                found += _models(part, f"{path}.{field.alias or name}{suffix}")
    return found


def defaulted(value: Any, schema: dict[str, Any]) -> Any:
    """Return `value` with the API server's defaults: the algorithm of its documentation."""
    if isinstance(value, dict):
        made = dict(value)
        for name, child in schema.get("properties", {}).items():
            if name not in made and "default" in child:
                made[name] = deepcopy(child["default"])
            if name in made:
                made[name] = defaulted(made[name], child)
        return made
    if isinstance(value, list):
        return [defaulted(item, schema.get("items", {})) for item in value]
    return value


PARTS = [
    {"scaling": {"mode": "Off"}},
    {"scaling": {"behavior": {"scaleUp": {"stabilizationWindow": "9s"}}}},
    {"scaling": {"ratio": {"min": "1:8"}, "budget": {"devices": 64}}},
    {"transfer": {"rails": 4}},
    {"objectives": {"ttft": {"target": "250ms"}}},
    {"traffic": {"prometheus": {"url": "http://p:9090"}}},
    {"drain": {}},
    {"groups": [group(replicas={"min": 2, "max": 2}), group("d", "Decode", rollout={"maxSurge": "25%"})]},
    {"groups": [group("both", "Both", kvLayout={"preset": "pages-nhd", "sizes": {"s0": 64}})]},
]


@given(st.lists(st.sampled_from(PARTS), max_size=4))
def test_python_and_the_api_server_fill_in_the_same(parts: list[dict[str, Any]]) -> None:
    spec = manifest()["spec"]
    for part in parts:
        spec.update(deepcopy(part))
    server = defaulted({"spec": spec}, SCHEMAS["HawkPool"])["spec"]
    for chosen in server["groups"]:  # a default that depends on another field, which a schema can't say
        chosen["replicas"].setdefault("max", chosen["replicas"]["min"])

    assert HawkPool.model_validate({"spec": spec}).spec.to_dict() == server


def test_what_a_crd_cannot_express_is_an_error_here() -> None:
    class Union(Model):
        value: int | str

    class Pattern(Model):
        value: float = Field(multiple_of=0.5)

    with pytest.raises(SchemaError, match=r"Union.value: a field can't have several types"):
        structural_schema(Union)
    with pytest.raises(SchemaError, match=r"Pattern.value: multipleOf isn't supported"):
        structural_schema(Pattern)


def test_unbounded_parts_are_found() -> None:
    class Bare(Model):
        text: str
        items: tuple[int, ...]
        table: dict[str, int]

    assert unbounded_paths(structural_schema(Bare)) == [".text", ".items", ".table"]


def test_layout_presets_are_those_of_the_layout_compiler() -> None:
    assert {preset.value for preset in LayoutPreset} == set(PRESETS)
    for preset in LayoutPreset:
        tiled = "d1" in PRESETS[preset].notation
        assert preset.feature_tile == (PRESETS[preset].sizes["d0"] if tiled else 1), preset
        assert preset.token_tile == (PRESETS[preset].sizes["s0"] if tiled else 1), preset


def test_shipped_classes_are_valid_and_know_the_published_pair() -> None:
    assert [violation for body in manifests() for violation in validate_manifest(body)] == []
    h100, npu = shipped()["h100-sxm5"], shipped()["decode-npu"]
    assert h100.flops is not None
    assert npu.flops is not None
    assert [int(h100.flops["float16"]), int(npu.flops["float16"])] == [989 * 10**12, 180 * 10**12]  # type: ignore[index]
    assert [(c.memory, c.bandwidth, c.power, c.price) for c in (h100, npu)] == [
        (80 * 10**9, 3350 * 10**9, 700, 32_000),
        (128 * 10**9, 1800 * 10**9, 185, 6_500),
    ]


def test_unknown_is_unset_in_the_catalogue() -> None:
    for name, spec in shipped().items():
        assert 0 not in spec.to_dict().values(), name
    assert shipped()["cpu"].flops is None


def test_crds_are_package_data() -> None:
    folder = generate.CRDS
    kinds = {
        yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]["names"]["kind"]
        for path in folder.glob("*.yaml")
    }

    assert kinds == set(SCHEMAS)
