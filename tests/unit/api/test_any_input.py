"""Whatever a manifest holds, checking it gives findings and never an exception."""

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hawk_api.catalogue import shipped
from hawk_api.checks import Violation
from hawk_api.validation import validate_manifest

from .pools import group, manifest

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def rich() -> dict[str, Any]:
    """A valid pool with something in every part."""
    container = {
        "name": "engine",
        "args": ["--x", "1"],
        "env": [{"name": "A", "value": "1"}],
        "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "1500m"}},
    }
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [container], "resourceClaims": []},
    }
    layout = {"notation": "[s1] h s0 d", "sizes": {"s0": 16}}
    return manifest(
        group(acceleratorClass="h100-sxm5", template=template, kvLayout=layout, rollout={"maxSurge": "10%"}),
        group("decode", "Decode", kvLayout={"preset": "tiles-16x16"}, replicas={"min": 1, "max": 4}),
        objectives={"ttft": {"percentile": 95, "target": "250ms"}},
        traffic={"prometheus": {"url": "http://p:9090", "timeout": "5s"}, "queries": {"ttft": "x"}},
        scaling={"ratio": {"min": "1:8", "max": "8:1"}, "startupRatio": "1:2", "budget": {"usdPerHour": "9"}},
        transfer={"grace": "200ms", "chunkLayers": 16},
        drain={"timeout": "5m"},
    )


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


PLACES = [place for place in places(rich()) if place]


def put(obj: dict[str, Any], place: tuple[Any, ...], value: Any) -> None:
    target: Any = obj
    for part in place[:-1]:
        target = target[part]
    target[place[-1]] = value


def test_the_pool_that_is_changed_is_valid() -> None:
    assert [v for v in validate_manifest(rich(), shipped()) if v.severity == "Error"] == []


@settings(max_examples=150)
@given(st.sampled_from(PLACES), JSON)
def test_any_value_in_any_place_is_judged(place: tuple[Any, ...], value: Any) -> None:
    obj = deepcopy(rich())
    put(obj, place, value)

    assert all(
        isinstance(violation, Violation) and violation.message
        for violation in validate_manifest(obj, shipped())
    )


@given(JSON)
def test_any_document_is_judged(value: Any) -> None:
    assert all(violation.field for violation in validate_manifest(value))


@given(st.dictionaries(st.sampled_from(["model", "groups", "scaling", "zz"]), JSON))
def test_any_spec_is_judged(spec: dict[str, Any]) -> None:
    assert all(violation.field for violation in validate_manifest({**manifest(), "spec": spec}))
