"""A plan that isn't a translation is found out before it runs, whatever is wrong with it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hawk_agent.layouts import CoverageError, Layout, LayoutError, compile_nest, coverage, engines

from .strategies import layout, pairs
from .test_translation import engine as forced


def spoil(program, draw):
    """The same program with one number changed."""
    if not program.loops or draw(st.booleans()):
        name = draw(st.sampled_from(["source", "destination", "source_entry", "destination_entry", "run"]))
        return replace(program, **{name: getattr(program, name) + draw(st.sampled_from([2, 64]))})
    k = draw(st.integers(0, len(program.loops) - 1))
    name = draw(st.sampled_from(["count", "source", "destination", "source_step", "destination_step"]))
    loop = replace(
        program.loops[k], **{name: getattr(program.loops[k], name) + draw(st.sampled_from([1, 2, 32]))}
    )
    return replace(program, loops=(*program.loops[:k], loop, *program.loops[k + 1 :]))


@given(pair=pairs(), data=st.data())
def test_any_number_changed_in_a_plan_is_noticed(pair, data):
    source, target = (layout(side, "float16") for side in pair)
    nest = compile_nest(source, target)
    assume(nest.units)
    k = data.draw(st.integers(0, len(nest.units) - 1))
    spoilt = [*nest.units[:k], spoil(nest.units[k], data.draw), *nest.units[k + 1 :]]

    coverage.prove_coverage(source, target, nest.units, nest.zeros)
    with pytest.raises(CoverageError, match="nothing was moved"):
        coverage.prove_coverage(source, target, spoilt, nest.zeros)


@given(pair=pairs(), data=st.data())
def test_a_part_left_out_or_done_twice_is_noticed(pair, data):
    source, target = (layout(side, "float16") for side in pair)
    nest = compile_nest(source, target)
    assume(nest.units)
    k = data.draw(st.integers(0, len(nest.units) - 1))

    for wrong in ([*nest.units[:k], *nest.units[k + 1 :]], [*nest.units, nest.units[k]]):
        with pytest.raises(CoverageError):
            coverage.prove_coverage(source, target, wrong, nest.zeros)


def test_missing_padding_is_noticed():
    sizes = {"h": 2, "s": 37, "d": 32}
    source, target = Layout.preset("row-major", sizes), Layout.preset("tiles-16x16", sizes)
    nest = compile_nest(source, target)

    with pytest.raises(CoverageError, match="doesn't write each destination byte once"):
        coverage.prove_coverage(source, target, nest.units, [])


def test_a_coverage_error_is_a_layout_error():
    assert issubclass(CoverageError, LayoutError)


@pytest.mark.parametrize("tokens", [32768, 131072, 131071])
def test_the_nest_of_a_long_sequence_is_as_small_as_that_of_a_short_one(tokens):
    """A million pieces or a thousand: the loops are the same few."""
    sizes = {"l": 80, "c": 2, "h": 8, "d": 128}
    for target in ("tiles-16x16", "nz", "pages-tiles-16x16"):
        source, short = Layout.preset("pages-nhd", {**sizes, "s": tokens}), {**sizes, "s": tokens % 128 + 256}
        long = compile_nest(source, Layout.preset(target, {**sizes, "s": tokens}))
        brief = compile_nest(Layout.preset("pages-nhd", short), Layout.preset(target, short))

        assert [len(program.loops) for program in long.moves] == [
            len(program.loops) for program in brief.moves
        ]


def test_the_compiled_nest_is_kept():
    sizes = {"h": 2, "s": 37, "d": 32}
    pair = [(Layout.preset("row-major", sizes), Layout.preset("nz", sizes)) for _ in range(2)]

    assert compile_nest(*pair[0]) is compile_nest(*pair[1])


def test_a_fingerprint_covers_the_rule_and_the_model_but_not_the_request():
    base = {"l": 2, "h": 4, "s": 64, "d": 32}
    one = Layout.preset("pages-hnd", base)
    same = [{**base, "s": 128}, {**base, "s1": 99}]
    other = [{**base, "l": 3}, {**base, "h": 8}, {**base, "d": 64}, {**base, "s0": 32}]

    assert {Layout.preset("pages-hnd", sizes).fingerprint for sizes in same} == {one.fingerprint}
    assert one.narrow("s", 3, 9).fingerprint == one.fingerprint
    prints = [Layout.preset("pages-hnd", sizes).fingerprint for sizes in other]
    prints += [
        Layout.preset("pages-nhd", base).fingerprint,
        Layout.preset("pages-hnd", base, "bfloat16").fingerprint,
    ]
    prints += [Layout.parse("l c [s1] h s0 d", {**base, "s0": 16}, strides={"h": 999}).fingerprint]
    assert len({one.fingerprint, *prints}) == len(prints) + 1


@pytest.mark.parametrize("name", engines.available())
def test_a_stream_cut_anywhere_makes_the_same_memory(name):
    """Whoever packs and whoever unpacks, with whichever engine: the stream has one order."""
    rng = np.random.default_rng(5)
    sizes = {"l": 2, "h": 3, "s": 37, "d": 48}
    source = Layout.preset("pages-nhd", {**sizes, "s1": 5})
    target = Layout.preset("pages-tiles-16x16", {**sizes, "s2": 3})
    nest = compile_nest(source, target)
    data = rng.integers(0, 256, source.nbytes, dtype=np.uint8)
    whole, pieces = np.full((2, target.nbytes), 7, np.uint8)
    nest.run(data, whole, source_blocks=[4, 0, 2], destination_blocks=[1])
    at = 0
    with forced(name):
        while at < nest.payload_nbytes:
            stop = min(at + int(rng.integers(1, 2000)), nest.payload_nbytes)
            bounce = bytearray(stop - at)
            nest.pack(data, bounce, at, stop, source_blocks=[4, 0, 2])
            nest.unpack(bounce, pieces, at, stop, destination_blocks=[1])
            at = stop
    nest.zero_padding(pieces, destination_blocks=[1])

    assert np.array_equal(whole, pieces)


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 4), (0, 10**9)])
def test_a_range_outside_the_stream_is_refused(start, stop):
    nest = compile_nest(*[Layout.parse("h s d", {"s": 4, "d": 8})] * 2)

    with pytest.raises(LayoutError, match=f"range: {start}:{stop} leaves the payload of 64 bytes"):
        nest.pack(bytes(64), bytearray(64), start, stop)


@given(pair=pairs(), data=st.data())
def test_every_engine_packs_the_same_stream(pair, data):
    """Any two cuts, inside runs too: numpy's own way of cutting is what the kernel's must equal."""
    source, target = (layout(side, "float16") for side in pair)
    nest = compile_nest(source, target)
    memory = np.random.default_rng(1).integers(0, 256, source.nbytes, dtype=np.uint8)
    start = data.draw(st.integers(0, nest.payload_nbytes))
    stop = data.draw(st.integers(start, nest.payload_nbytes))
    packed, placed = set(), set()
    for name in engines.available():
        piece, out = bytearray(stop - start), bytearray(target.nbytes)
        with forced(name):
            nest.pack(memory, piece, start, stop, source_blocks=pair[0].table)
            nest.unpack(piece, out, start, stop, destination_blocks=pair[1].table)
        packed.add(bytes(piece))
        placed.add(bytes(out))

    assert len(packed) == len(placed) == 1


@pytest.mark.parametrize("name", engines.available())
@pytest.mark.parametrize("target", ["tiles-16x16", "nz", "transposed", "token-major", "pages-nhd"])
def test_a_stream_in_the_order_of_the_source_is_its_memory(name, target):
    """A source without gaps goes out as it stands, whatever the destination, and is placed from any cut."""
    sizes = {"l": 2, "h": 3, "s": 64, "d": 48}
    source, destination = Layout.preset("row-major", sizes), Layout.preset(target, sizes)
    nest = compile_nest(source, destination)
    blocks = [3, 1, 0, 2] if destination.table else None
    data = np.random.default_rng(5).integers(0, 256, source.nbytes, dtype=np.uint8)
    whole, placed = np.zeros((2, destination.nbytes), np.uint8)
    with forced(name):
        nest.run(data, whole, destination_blocks=blocks)
        place = nest.unpacker(placed, destination_blocks=blocks, source_order=True)
        for start in range(0, data.size, 1000):
            place(data[start : start + 1000], start, min(start + 1000, data.size))

    assert np.array_equal(whole, placed)
