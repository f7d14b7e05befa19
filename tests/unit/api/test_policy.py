from copy import deepcopy
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api import checks
from hawk_api.catalogue import shipped
from hawk_api.checks import Severity, Violation
from hawk_api.checks.layout import bypasses
from hawk_api.checks.template import MAX_TEMPLATES_BYTES, uses_claims
from hawk_api.reasons import Reason
from hawk_api.v1alpha1 import AcceleratorClassSpec, GroupSpec

from .pools import TEMPLATE, group, spec

DECODE = group("decode", "Decode")
H100 = {"acceleratorClass": "h100-sxm5"}
REF = {"kind": "Deployment", "name": "mine"}
GEOMETRY = {
    "layers": 4,
    "queryHeads": 16,
    "kvHeads": 4,
    "headDim": 80,
    "hidden": 1280,
    "ffn": 4096,
    "vocabulary": 1000,
}


def found(*groups: dict[str, Any], **changes: Any) -> list[tuple[str, str]]:
    """Fields and messages of all findings, with the shipped classes known."""
    return [(v.field, v.message) for v in checks.check_spec(spec(*groups, **changes), shipped())]


def limits(**asked: object) -> dict[str, Any]:
    made = deepcopy(TEMPLATE)
    made["spec"]["containers"][0]["resources"] = {  # type: ignore[index]
        "limits": {name.replace("__", "/").replace("_", "."): value for name, value in asked.items()}
    }
    return made


def labelled(**labels: str) -> dict[str, Any]:
    return {**deepcopy(TEMPLATE), "metadata": {"labels": {f"hawkpool.dev/{k}": v for k, v in labels.items()}}}


def test_a_plain_pool_passes() -> None:
    assert found() == []


BAD: list[tuple[str, list[dict[str, Any]], dict[str, Any], str, str]] = [
    (
        "unknown model",
        [],
        {"model": {"preset": "lama-3.3-70b"}},
        "spec.model.preset",
        "did you mean llama-3.3-70b",
    ),
    ("no model", [], {"model": {}}, "spec.model", "none given; give exactly one"),
    (
        "two models",
        [],
        {"model": {"preset": "phi-4", "geometry": GEOMETRY}},
        "spec.model",
        "preset and geometry given",
    ),
    (
        "odd heads",
        [],
        {"model": {"geometry": {**GEOMETRY, "kvHeads": 3}}},
        "spec.model.geometry",
        "multiple of 3",
    ),
    (
        "one name twice",
        [group(), group(role="Decode")],
        {},
        "spec.groups[1].name",
        "'prefill' is the name of spec.groups[0]",
    ),
    (
        "both workloads",
        [group(scaleTargetRef=REF), DECODE],
        {},
        "spec.groups[0]",
        "both of template and scaleTargetRef",
    ),
    ("no workload", [{"name": "p", "role": "Prefill"}, DECODE], {}, "spec.groups[0]", "neither of template"),
    ("no prefill", [DECODE], {}, "spec.groups", "no group can prefill"),
    ("no decode", [group()], {}, "spec.groups", "no group can decode"),
    (
        "min above max",
        [group(replicas={"min": 4, "max": 2}), DECODE],
        {},
        "spec.groups[0].replicas.max",
        "max 2 is below min 4",
    ),
    (
        "no rollout",
        [group(rollout={"maxSurge": "0%", "maxUnavailable": 0}), DECODE],
        {},
        "spec.groups[0].rollout.maxUnavailable",
        "no rollout could begin",
    ),
    (
        "unknown class",
        [group(acceleratorClass="h100"), DECODE],
        {},
        "spec.groups[0].acceleratorClass",
        "did you mean h100-sxm5",
    ),
    (
        "wrong role",
        [group(acceleratorClass="decode-npu"), DECODE],
        {},
        "spec.groups[0].role",
        "can't take the role Prefill",
    ),
    (
        "devices and parallelism",
        [group(**H100, acceleratorsPerReplica=6, parallelism={"tensor": 4}), DECODE],
        {},
        "spec.groups[0].acceleratorsPerReplica",
        "give a multiple of 4",
    ),
    (
        "query heads",
        [group(parallelism={"tensor": 3}), DECODE],
        {},
        "spec.groups[0].parallelism.tensor",
        "64 query heads",
    ),
    (
        "key/value heads",
        [group(parallelism={"tensor": 6}), DECODE],
        {"model": {"geometry": {**GEOMETRY, "queryHeads": 12, "kvHeads": 4}}},
        "spec.groups[0].parallelism.tensor",
        "neither divides the other",
    ),
    (
        "stages",
        [group(parallelism={"pipeline": 81}), DECODE],
        {},
        "spec.groups[0].parallelism.pipeline",
        "81 stages for 80",
    ),
    ("chunk", [], {"transfer": {"chunkLayers": 81}}, "spec.transfer.chunkLayers", "80 layers"),
    (
        "no layout",
        [group(kvLayout={}), DECODE],
        {},
        "spec.groups[0].kvLayout",
        "exactly one of preset and notation",
    ),
    (
        "wrong axis",
        [group(kvLayout={"preset": "pages-hnd", "sizes": {"x": 4}}), DECODE],
        {},
        "spec.groups[0].kvLayout.sizes[x]",
        "'x' is no axis",
    ),
    (
        "size missing",
        [group(kvLayout={"notation": "[s1] h s0 d"}), DECODE],
        {},
        "spec.groups[0].kvLayout.sizes",
        "add sizes.s0",
    ),
    (
        "axis twice",
        [group(kvLayout={"notation": "b h s s d"}), DECODE],
        {},
        "spec.groups[0].kvLayout.notation",
        "axis s stands more than once",
    ),
    (
        "level missing",
        [group(kvLayout={"notation": "b h s2 s0 d", "sizes": {"s0": 4}}), DECODE],
        {},
        "spec.groups[0].kvLayout.notation",
        "levels of s are s0, s2; number them from 0",
    ),
    (
        "size of nothing",
        [group(kvLayout={"notation": "h s d", "sizes": {"b": 4}}), DECODE],
        {},
        "spec.groups[0].kvLayout.sizes[b]",
        "doesn't stand in",
    ),
    (
        "tile that doesn't divide",
        [group(kvLayout={"preset": "tiles-32x32"}), DECODE],
        {"model": {"geometry": GEOMETRY}},
        "spec.groups[0].kvLayout",
        "tiles of 32 features don't divide the model's head dimension 80",
    ),
    (
        "tile in a notation",
        [group(kvLayout={"notation": "h s1 d1 s0 d0", "sizes": {"s0": 16, "d0": 48}}), DECODE],
        {},
        "spec.groups[0].kvLayout",
        "tiles of 48 features",
    ),
    (
        "tile against its preset",
        [group(kvLayout={"preset": "tiles-16x16", "sizes": {"d0": 32}}), DECODE],
        {},
        "spec.groups[0].kvLayout.sizes[d0]",
        "32 contradicts tiles-16x16",
    ),
    (
        "page against its preset",
        [group(kvLayout={"preset": "tiles-16x16", "sizes": {"s0": 64}}), DECODE],
        {},
        "spec.groups[0].kvLayout.sizes[s0]",
        "64 contradicts tiles-16x16",
    ),
    (
        "feature size against the model",
        [group(kvLayout={"notation": "h s d", "sizes": {"d": 64}}), DECODE],
        {},
        "spec.groups[0].kvLayout.sizes[d]",
        "head dimension 128",
    ),
    (
        "half a device",
        [group(template=limits(nvidia_com__gpu="500m")), DECODE],
        {},
        "spec.groups[0].template.spec.containers[0].resources.limits[nvidia.com/gpu]",
        "'500m' is not a whole number of devices",
    ),
    (
        "no quantity",
        [group(template=limits(cpu="1g")), DECODE],
        {},
        "spec.groups[0].template.spec.containers[0].resources.limits[cpu]",
        "'1g' is not a quantity",
    ),
    (
        "devices that differ",
        [group(**H100, acceleratorsPerReplica=8, template=limits(nvidia_com__gpu=4)), DECODE],
        {},
        "spec.groups[0].acceleratorsPerReplica",
        "8 contradicts the template, which asks for 4 nvidia.com/gpu",
    ),
    (
        "our label",
        [group(template=labelled(role="x")), DECODE],
        {},
        "spec.groups[0].template.metadata.labels[hawkpool.dev/role]",
        "the operator sets this label",
    ),
    (
        "one target twice",
        [
            {"name": "p", "role": "Prefill", "scaleTargetRef": REF},
            {"name": "d", "role": "Decode", "scaleTargetRef": REF},
        ],
        {},
        "spec.groups[1].scaleTargetRef",
        "Deployment mine is scaled by spec.groups[0] too",
    ),
    (
        "small budget",
        [group(**H100, acceleratorsPerReplica=8, replicas={"min": 2}), DECODE],
        {"scaling": {"budget": {"devices": 15}}},
        "spec.scaling.budget.devices",
        "15 devices are fewer than the 16",
    ),
    (
        "ratio upside down",
        [],
        {"scaling": {"ratio": {"min": "2:1", "max": "1:2"}}},
        "spec.scaling.ratio.max",
        "min 2:1 is above max 1:2",
    ),
    (
        "start outside",
        [group(replicas={"max": 9}), group("d", "Decode", replicas={"max": 9})],
        {"scaling": {"ratio": {"min": "1:2"}, "startupRatio": "1:4"}},
        "spec.scaling.startupRatio",
        "1:4 is outside",
    ),
    (
        "out of reach",
        [group(replicas={"max": 2}), group("d", "Decode", replicas={"min": 1, "max": 4})],
        {"scaling": {"ratio": {"min": "3:1"}}},
        "spec.scaling.ratio",
        "allow only 1:4 to 2:1",
    ),
    (
        "no change matters",
        [],
        {"scaling": {"tolerance": "1"}},
        "spec.scaling.tolerance",
        "ignores every change",
    ),
    ("no interval", [], {"scaling": {"interval": "0s"}}, "spec.scaling.interval", "give more"),
    ("no target", [], {"objectives": {"itl": {"target": "0ms"}}}, "spec.objectives.itl.target", "give more"),
    (
        "graces",
        [],
        {"transfer": {"grace": "1m", "maxGrace": "1s"}},
        "spec.transfer.maxGrace",
        "1s is less than grace 1m",
    ),
]


@pytest.mark.parametrize(
    ("groups", "changes", "field", "says"), [b[1:] for b in BAD], ids=[b[0] for b in BAD]
)
def test_each_contradiction_is_found_alone_with_field_and_remedy(
    groups: list[dict[str, Any]], changes: dict[str, Any], field: str, says: str
) -> None:
    violations = found(*groups, **changes)

    assert [where for where, _ in violations] == [field]
    assert says in violations[0][1]
    assert ";" in violations[0][1] or violations[0][1].startswith("give ")


def test_every_finding_is_reported_at_once() -> None:
    bad = group(acceleratorClass="nope", replicas={"min": 3, "max": 1}, kvLayout={})

    assert [where for where, _ in found(bad)] == [
        "spec.groups",
        "spec.groups[0].replicas.max",
        "spec.groups[0].acceleratorClass",
        "spec.groups[0].kvLayout",
    ]


def test_what_is_not_known_is_not_judged() -> None:
    pool = spec(group(acceleratorClass="nope"), DECODE, model={"configMapRef": {"name": "m"}})

    assert checks.check_spec(pool) == ()
    assert [v.field for v in checks.check_spec(pool, {})] == ["spec.groups[0].acceleratorClass"]
    assert [v.reason for v in checks.check_spec(pool, None, "{}")] == [Reason.UNKNOWN_MODEL]


def test_money_is_counted_where_prices_are_known() -> None:
    priced = AcceleratorClassSpec.model_validate({"pricePerHour": "2.5"})
    free = AcceleratorClassSpec.model_validate({})
    pool = spec(
        group(acceleratorClass="priced", acceleratorsPerReplica=8, replicas={"min": 2}),
        group("d", "Decode", acceleratorClass="free"),
        scaling={"budget": {"usdPerHour": "39"}},
    )
    violations = checks.check_spec(pool, {"priced": priced, "free": free})

    assert [(v.severity, v.field) for v in violations] == [
        (Severity.ERROR, "spec.scaling.budget.usdPerHour"),
        (Severity.WARNING, "spec.scaling.budget.usdPerHour"),
    ]
    assert "39 is less than the 40" in violations[0].message
    assert "free has no pricePerHour" in violations[1].message
    assert checks.errors_only(violations) == violations[:1]


counts = st.integers(0, 20)


@given(st.lists(st.tuples(counts, st.integers(1, 8)), min_size=2, max_size=5), st.integers(1, 300))
def test_a_budget_below_the_minima_is_refused_and_no_other(
    groups: list[tuple[int, int]], budget: int
) -> None:
    pool = spec(
        *(
            group(
                f"g{index}",
                "Both",
                acceleratorClass="x",
                acceleratorsPerReplica=size,
                replicas={"min": least},
            )
            for index, (least, size) in enumerate(groups)
        ),
        scaling={"budget": {"devices": budget}},
    )
    short = sum(least * size for least, size in groups) > budget

    assert [v.field for v in checks.check_spec(pool)] == ["spec.scaling.budget.devices"] * short


@given(counts, st.integers(1, 20), counts, st.integers(1, 20), st.integers(1, 9), st.integers(1, 9))
def test_a_ratio_is_out_of_reach_exactly_when_no_replicas_give_it(
    pmin: int, pmax: int, dmin: int, dmax: int, low: int, high: int
) -> None:
    pool = spec(
        group(replicas={"min": min(pmin, pmax), "max": pmax}),
        group("d", "Decode", replicas={"min": min(dmin, dmax), "max": dmax}),
        scaling={"ratio": {"min": f"{low}:{high}"}},
    )
    prefill = range(min(pmin, pmax), pmax + 1)
    decode = range(max(1, min(dmin, dmax)), dmax + 1)
    reached = any(Fraction(p, d) >= Fraction(low, high) for p in prefill for d in decode)

    assert (checks.check_spec(pool) == ()) == reached


@pytest.mark.parametrize(
    ("container", "switch"),
    [
        (
            {
                "args": [
                    "--kv-transfer-config",
                    '{"kv_connector_extra_config": {"enforce_handshake_compat": false}}',
                ]
            },
            True,
        ),
        ({"args": ['{"enable_permute_local_kv": true}']}, True),
        ({"env": [{"name": "ENABLE_PERMUTE_LOCAL_KV", "value": "True"}]}, True),
        ({"command": ["serve", "--enforce-handshake-compat=false"]}, True),
        ({"args": ['{"enforce_handshake_compat": true}']}, False),
        ({"env": [{"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}, False),
        ({"args": None, "env": None}, False),
    ],
)
def test_switches_that_leave_layouts_uncompared_are_seen(container: dict[str, Any], switch: bool) -> None:
    made = GroupSpec.model_validate(group(template={"spec": {"containers": [{"name": "x", **container}]}}))

    assert bool(bypasses(made)) == switch


def test_implied_layouts_are_complained_about_only_while_the_comparison_is_off() -> None:
    off = {"spec": {"containers": [{"name": "x", "args": ['{"enforce_handshake_compat":false}']}]}}
    stated = {"kvLayout": {"preset": "pages-nhd", "sizes": {"s0": 64}}}
    half = spec(group(template=off, **stated), DECODE)
    whole = spec(group(template=off, **stated), {**DECODE, **stated})

    [violation] = checks.check_spec(half)
    assert (violation.field, violation.reason, violation.severity) == (
        "spec.groups[1].kvLayout",
        Reason.LAYOUTS_IMPLIED,
        Severity.WARNING,
    )
    assert checks.check_spec(whole) == ()
    assert checks.check_spec(spec()) == ()


def test_templates_are_bounded_together() -> None:
    def filled(size: int) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": "x", "args": ["y" * size]}]}}

    fits = spec(group(template=filled(300_000)), group("d", "Decode", template=filled(300_000)))
    too_large = spec(group(template=filled(400_000)), group("d", "Decode", template=filled(600_000)))

    assert checks.check_spec(fits) == ()
    [violation] = checks.check_spec(too_large)
    assert violation.field == "spec.groups[1].template"
    assert f"at most {MAX_TEMPLATES_BYTES}" in violation.message


def test_claims_are_told_from_counted_devices() -> None:
    claimed = {"spec": {"containers": [{"name": "x"}], "resourceClaims": [{"name": "gpu"}]}}

    assert uses_claims(claimed)
    assert not uses_claims(TEMPLATE)


def test_a_finding_reads_as_a_line() -> None:
    assert str(Violation("spec.x", Reason.INVALID_SPEC, "is 1; give 2")) == "spec.x: is 1; give 2"
