"""An API server whose CRDs are older is given what it knows, and limits that it would drop stop growth."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hawk_api.fitting import undeclared, without
from hawk_operator.kube import schema_check

NEEDED = schema_check.needed_fields()


def test_every_kind_of_this_release_is_compared():
    assert set(NEEDED) == {"HawkPool", "HawkNode", "AcceleratorClass"}
    assert set(schema_check.LIMITS) <= NEEDED["HawkPool"]
    assert schema_check.compare_schemas(NEEDED, NEEDED) == schema_check.Schema()


def test_what_the_served_kinds_lack_is_left_out_of_what_is_applied():
    present = {
        "HawkPool": NEEDED["HawkPool"] - {"status.decisions[].observed", "spec.scaling.budget.devices"},
        "HawkNode": frozenset(path for path in NEEDED["HawkNode"] if not path.startswith("spec.pools")),
    }
    schema = schema_check.compare_schemas(NEEDED, present)

    assert schema.limits == ("spec.scaling.budget.devices",)
    assert schema.lacking["HawkNode"] == {"spec.pools"}, "outermost only"
    assert "AcceleratorClass" not in schema.lacking, "one that isn't served lacks nothing"
    status = {"ratio": "1:2", "decisions": [{"reason": "Demand", "observed": {"ttftSeconds": "1"}}]}
    assert schema.fit("HawkPool", "status", status) == {"ratio": "1:2", "decisions": [{"reason": "Demand"}]}
    assert schema.fit("HawkNode", "spec", {"expectedEpoch": "e", "pools": []}) == {"expectedEpoch": "e"}


def test_the_refusal_of_an_api_server_names_what_it_does_not_know():
    words = (
        "failed to create typed patch object (/n; hawkpool.dev/v1alpha1, Kind=HawkNode): errors:\n"
        "  .status.regions[0].busy: field not declared in schema\n"
        '  .status.rails[name="rxa"].fence: field not declared in schema\n'
        "  .spec.pools: field not declared in schema"
    )

    assert undeclared(words) == {"status.regions[].busy", "status.rails[].fence", "spec.pools"}
    assert undeclared("something else") == frozenset()


VALUES = st.recursive(
    st.integers(), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner)
)


LACKING = st.sets(st.sampled_from(["a", "b.c", "b[].a", "c[][].b"]))


@given(st.dictionaries(st.sampled_from("abc"), VALUES), LACKING)
def test_only_what_is_lacking_goes(value, lacking):
    def paths(part, here=""):
        if isinstance(part, dict):
            for key, inner in part.items():
                path = f"{here}.{key}" if here else key
                yield path
                yield from paths(inner, path)
        elif isinstance(part, list):
            for inner in part:
                yield from paths(inner, f"{here}[]")

    left = set(paths(without(value, lacking)))
    assert not left & lacking
    under = tuple(f"{path}{end}" for path in lacking for end in (".", "["))
    assert left == {path for path in paths(value) if path not in lacking and not path.startswith(under)}
