"""A translation moves every element to its place, and touches nothing else."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hawk_agent.layouts import Layout, compile_nest, engines

from .oracle import Side, translate
from .strategies import DTYPES, layout, pairs

GUARD = 64  # elements of sentinel on each side of the destination


@contextmanager
def engine(name: str, stream: bool = False):
    """Force an engine, and whether it writes past the caches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HAWK_ENGINE", name)
        patch.setattr(engines, "STREAM_FROM", 0 if stream else 1 << 62)
        yield


def run(source: Side, destination: Side, dtype: str, seed: int, stream: bool) -> None:
    """Translate with every engine; each must give what the oracle says, and the same digests."""
    kind = DTYPES[dtype]
    rng = np.random.default_rng(seed)
    data = rng.integers(1, np.iinfo(kind).max, source.elements(), dtype=kind)
    memory = rng.integers(1, np.iinfo(kind).max, destination.elements() + 2 * GUARD, dtype=kind)
    inside = slice(GUARD, GUARD + destination.elements())
    expected = memory.copy()
    expected[inside] = translate(source, destination, data, memory[inside])
    nest = compile_nest(layout(source, dtype), layout(destination, dtype))
    digests = set()
    for name in engines.available():
        with engine(name, stream):
            actual = memory.copy()
            inside = actual[GUARD : GUARD + destination.elements()]
            tables = {"source_blocks": source.table, "destination_blocks": destination.table}
            digests.add(nest.run(data, inside, **tables, key=seed))
            digests.add(nest.digest_source(data, seed, blocks=source.table))
            digests.add(nest.digest_destination(inside, seed, blocks=destination.table))

            assert np.array_equal(actual, expected), name
    assert len(digests) == 1


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(pair=pairs(), dtype=st.sampled_from(sorted(DTYPES)), seed=st.integers(0, 2**32), stream=st.booleans())
def test_any_layout_becomes_any_other_with_every_engine(pair, dtype, seed, stream):
    run(*pair, dtype, seed, stream)


def test_the_oracle_finds_a_run_that_is_wrong_on_purpose():
    """Were the comparison blind, it would accept the wrong tile size as well."""
    sizes = {"b": 1, "h": 2, "s": 32, "d": 32}
    source = Side(["b", "h", "s", "d"], sizes)
    right = Side(["b", "h", "s1", "d1", "s0", "d0"], {**sizes, "s0": 16, "d0": 16})
    wrong = Layout.parse("b h d1 s1 s0 d0", {**sizes, "s0": 16, "d0": 16})
    data = np.arange(1, source.elements() + 1, dtype=np.uint16)
    out = np.zeros(right.elements(), np.uint16)
    expected = translate(source, right, data, out)
    compile_nest(Layout.parse("b h s d", sizes), wrong).run(data, out)

    assert expected.tolist() != out.tolist()


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_the_founding_formula_of_tiles_holds(dtype):
    """Base + (⌊s/T⌋ · D/T + ⌊d/T⌋) · T·T + (s mod T) · T + (d mod T), for each token and feature."""
    heads, tokens, features, tile = 2, 48, 64, 16
    sizes = {"h": heads, "s": tokens, "d": features}
    kind = DTYPES[dtype]
    data = np.random.default_rng(1).integers(0, 200, (heads, tokens, features)).astype(kind)
    out = np.zeros(data.size, kind)
    compile_nest(Layout.preset("row-major", sizes, dtype), Layout.preset("tiles-16x16", sizes, dtype)).run(
        data, out
    )

    for h, s, d in np.ndindex(heads, tokens, features):
        base = h * tokens * features
        at = base + (s // tile * (features // tile) + d // tile) * tile * tile + s % tile * tile + d % tile
        assert out[at] == data[h, s, d]
