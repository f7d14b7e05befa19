"""Wrong translations are refused before a byte moves, with both sides' values and the remedy."""

import mmap
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.layouts import PRESETS, Layout, LayoutError, compile_nest, mismatches

from .strategies import layout, pairs

SIZES = {"h": 2, "s": 32, "d": 32}
TILES = {**SIZES, "s0": 16, "d0": 16}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "notation: empty"),
        ("b h x d", "unknown axis 'x'"),
        ("b h s s", "'s' stands twice"),
        ("b h s0 s0 d", "'s0' stands twice"),
        ("h s s0 d", "with and without levels"),
        ("h s2 s0 d", r"levels \[0, 2\]"),
        ("h s1 d", r"levels \[1\]"),
        ("[h] [s1] s0 d", "2 block tables"),
        ("[s0] s1 h d", "s1 is coarser"),
        ("[s1 s0 h d", r"can't read '\['"),
        ("h s-1 d", "can't read 's-1'"),
        ("h s:: d", "can't read 's::'"),
        ("h " * 200, "the longest accepted is 256"),
    ],
)
def test_a_notation_that_makes_no_sense(text, message):
    with pytest.raises(LayoutError, match=message):
        Layout.parse(text, SIZES)


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        ("h s1 d1 s0 d0", SIZES, "sizes.s0: missing"),
        ("h s d", {**SIZES, "s0": 16}, "sizes.s0: 'h s d' has no such axis or level"),
        ("s d", SIZES, "sizes.h: 2, but 's d' doesn't place the head axis"),
        ("h s d", {**SIZES, "h": 0}, "sizes.h: 0 is too small"),
        ("h s d", {**SIZES, "h": -3}, "sizes.h: -3 is too small"),
        ("h s d", {**SIZES, "h": 2.5}, "sizes.h: 2.5 isn't a whole number"),
        ("h s d", {**SIZES, "h": True}, "sizes.h: True isn't a whole number"),
        (
            "[s1] h s0 d",
            {**SIZES, "s0": 16, "s1": 1},
            "sizes.s1: 1 times 16 holds 16 of the 32 token indices",
        ),
        ("h s d", {"h": 2**40, "s": 2**40, "d": 1}, "check them for a slip"),
    ],
)
def test_sizes_that_do_not_fit(text, sizes, message):
    with pytest.raises(LayoutError, match=message):
        Layout.parse(text, sizes)


@pytest.mark.parametrize(
    ("dtype", "message"),
    [("int4", "packs several elements into one byte"), ("complex64", "unknown element type")],
)
def test_element_types_that_do_not_move_by_bytes(dtype, message):
    with pytest.raises(LayoutError, match=f"dtype: .*{message}"):
        Layout.parse("h s d", SIZES, dtype)


def test_an_order_that_contradicts_the_strides_is_refused():
    """Pages declared heads first while memory holds tokens first: the strides tell."""
    sizes = {"h": 4, "s": 64, "s0": 16, "d": 32}
    tokens_first = {"s1": 16 * 4 * 32, "h": 32, "s0": 4 * 32, "d": 1}

    with pytest.raises(LayoutError, match=r"strides\.h: 32 elements, but s0:128 stands inside it"):
        Layout.parse("[s1] h s0 d", sizes, strides=tokens_first)
    Layout.parse("[s1] s0 h d", sizes, strides=tokens_first)


def test_equal_page_and_head_counts_are_told_apart_by_the_notation():
    """16 heads and pages of 16 tokens: both orders have one shape, and must not be taken for each other."""
    sizes = {"h": 16, "s": 64, "s0": 16, "d": 16}
    data = np.arange(4 * 16 * 16 * 16, dtype=np.uint16)
    rows = Layout.parse("h s d", {k: v for k, v in sizes.items() if k != "s0"})
    outs = []
    for text, order in (("[s1] h s0 d", (1, 0, 2, 3)), ("[s1] s0 h d", (2, 0, 1, 3))):
        out = np.zeros(data.size, np.uint16)
        compile_nest(Layout.parse(text, sizes), rows).run(data, out, source_blocks=range(4))
        outs.append(out)

        assert np.array_equal(out, data.reshape(4, 16, 16, 16).transpose(order).ravel())
    assert not np.array_equal(*outs)


def test_a_view_with_gaps_between_pages_is_honoured():
    sizes = {"h": 2, "s": 64, "s0": 16, "d": 8}
    gap = Layout.parse("[s1:600] h s0 d", sizes)
    data = np.random.default_rng(0).integers(0, 2**16, gap.nbytes // 2, dtype=np.uint16)
    rows = Layout.parse("h s d", {"h": 2, "s": 64, "d": 8})
    out = np.zeros(rows.nbytes // 2, np.uint16)
    compile_nest(gap, rows).run(data, out, source_blocks=[2, 0, 3, 1])
    pages = [data[600 * k : 600 * k + 256].reshape(2, 16, 8) for k in (2, 0, 3, 1)]

    assert np.array_equal(out.reshape(2, 64, 8), np.concatenate(pages, axis=1))


@pytest.mark.parametrize(
    ("change", "field", "values"),
    [
        ({"dtype": "int8"}, "dtype", ("float16", "int8")),
        ({"h": 4}, "h (head)", ("2 of 2", "4 of 4")),
        ({"d": 64}, "d (feature)", ("32 of 32", "64 of 64")),
        ({"l": 3}, "l (layer)", ("1 of 1", "3 of 3")),
        ({"s0": 24}, "s (token)", ("groups of 16", "groups of 24")),
    ],
)
def test_a_pair_that_does_not_match_names_the_field_and_both_values(change, field, values):
    source = Layout.preset("tiles-16x16", SIZES)
    change = dict(change)
    dtype = change.pop("dtype", "float16")
    target = Layout.preset("tiles-16x16", {**SIZES, **change}, dtype)

    (found,) = mismatches(source, target)
    assert (found.field, found.source, found.destination) == (field, *values)
    with pytest.raises(LayoutError, match=f"the source has {values[0]}, the destination {values[1]}; "):
        compile_nest(source, target)


def test_every_mismatch_of_a_pair_is_named_at_once():
    source = Layout.preset("row-major", SIZES, "bfloat16")
    target = Layout.preset("row-major", {"h": 3, "s": 32, "d": 16}, "float8")

    assert [found.field for found in mismatches(source, target)] == ["dtype", "h (head)", "d (feature)"]


def test_all_presets_translate_into_each_other():
    sizes = {"l": 2, "h": 2, "s": 40, "d": 64}
    for source in PRESETS:
        for target in PRESETS:
            if ("latent" in source) == ("latent" in target):
                given = {**sizes, "h": 1, "c": 1} if "latent" in source else {**sizes, "c": 2}
                compile_nest(Layout.preset(source, given), Layout.preset(target, given))


@pytest.fixture
def nest():
    return compile_nest(
        Layout.parse("h s d", SIZES), Layout.parse("[s1] h s0 d", {**SIZES, "s0": 16, "s1": 5})
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "destination_blocks: missing"),
        ([1], "destination_blocks: 1 entries, but 2 are needed"),
        ([0, 5], "block 5 is outside the pool of 5"),
        ([0, -1], "block -1 is outside the pool"),
        ([2**62, 0], "is outside the pool"),
        ([0, 2**63], f"block {2**63} is outside the pool of 5 blocks"),
        (np.array([2**63, 0], np.uint64), f"block {2**63} is outside the pool of 5 blocks"),
        ([-(2**70), 0], f"block -{2**70} is outside the pool of 5 blocks"),
        ([3, 3], "a block stands twice"),
        (["a", "b"], "destination_blocks: not a list of block numbers"),
        ([0.5, 1.5], "destination_blocks: not a list of block numbers"),
    ],
)
def test_block_tables_that_can_not_be_followed(nest, table, message):
    out = np.full(nest.destination.nbytes, 7, np.uint8)

    with pytest.raises(LayoutError, match=message):
        nest.run(bytes(nest.source.nbytes), out, destination_blocks=table)
    assert (out == 7).all()


def test_a_table_for_a_side_without_pages_is_refused(nest):
    with pytest.raises(LayoutError, match="source_blocks: given, but 'h s d' indexes no axis"):
        nest.run(bytes(nest.source.nbytes), bytearray(nest.destination.nbytes), source_blocks=[0, 1])


@pytest.mark.parametrize(
    ("source", "destination", "message"),
    [
        (bytes(10), bytearray(20480), "source: 10 bytes, but its layout needs 4096"),
        (bytes(4096), bytearray(10), "destination: 10 bytes, but its layout needs 10240"),
        (bytes(4096), bytes(20480), "destination: the buffer is read-only"),
        ("text", bytearray(20480), "source: str isn't a buffer"),
        (np.zeros((64, 128), np.uint8)[:, ::2], bytearray(20480), "source: the buffer has gaps"),
    ],
)
def test_buffers_that_do_not_fit(nest, source, destination, message):
    with pytest.raises(LayoutError, match=message):
        nest.run(source, destination, destination_blocks=[0, 1])


def test_translating_in_place_is_refused(nest):
    memory = np.zeros(20480, np.uint8)

    with pytest.raises(LayoutError, match="destination: it overlaps the source"):
        nest.run(memory[100:], memory, destination_blocks=[0, 1])


@pytest.mark.parametrize(("dtype", "width"), [("float16", 2), ("float32", 4)])
@pytest.mark.parametrize("past", [(1, 0), (0, 1), (3, 1)])
def test_memory_that_is_not_aligned_to_its_elements_is_refused(dtype, width, past):
    nest = compile_nest(Layout.preset("row-major", SIZES, dtype), Layout.preset("tiles-16x16", SIZES, dtype))
    read, write = (np.full(nest.source.nbytes + 8, 7, np.uint8)[k : k + nest.source.nbytes] for k in past)
    source, destination = (k % width for k in past)
    message = (
        f"alignment: elements of {dtype} stand at multiples of {width} bytes, "
        f"but source begins {source} bytes past one and destination begins {destination} bytes past one; "
        "give memory that begins at a multiple"
    )

    with pytest.raises(LayoutError, match=message):
        nest.run(read, write)
    assert (write == 7).all()
    for side, buffer, call in (
        (0, read, nest.digest_source),
        (1, write, nest.digest_destination),
        (0, read, lambda buffer, _: nest.pack(buffer, bytearray(64), 0, 64)),
        (1, write, lambda buffer, _: nest.unpack(bytes(64), buffer, 0, 64)),
        (1, write, lambda buffer, _: nest.zero_padding(buffer)),
    ):
        if past[side]:
            with pytest.raises(LayoutError, match="alignment: elements of"):
                call(buffer, 1)


def test_tiles_that_do_not_divide_are_refused_where_padding_is_not_allowed():
    source = Layout.preset("row-major", {**SIZES, "s": 37})
    target = Layout.preset("tiles-16x16", {**SIZES, "s": 37})
    message = r"s \(token\): the source has 37, the destination room for 48 in groups of 16; allow padding"

    with pytest.raises(LayoutError, match=message):
        compile_nest(source, target, padding=False)
    assert compile_nest(source.narrow("s", 0, 32), target.narrow("s", 0, 32), padding=False).zeros == ()


def test_a_sample_of_nothing_is_refused(nest):
    with pytest.raises(LayoutError, match="sample: 0; give 1 for everything"):
        nest.digest_source(bytes(nest.source.nbytes), 1, sample=0)


def test_mapped_memory_works_as_a_buffer(nest):
    with mmap.mmap(-1, nest.destination.nbytes) as memory:
        nest.run(b"\x01" * nest.source.nbytes, memory, destination_blocks=[4, 2])

        assert memory[:].count(b"\x01") == nest.source.nbytes


def test_a_window_outside_the_axis_is_refused():
    with pytest.raises(LayoutError, match="s: the window 8:33 leaves the 32 token indices"):
        Layout.parse("h s d", SIZES).narrow("s", 8, 33)


def test_a_whole_prefix_hit_moves_nothing():
    source = Layout.parse("[s1] h s0 d", {**SIZES, "s0": 16}).narrow("s", 32, 32)
    target = Layout.parse("h s d", SIZES).narrow("s", 32, 32)
    out = np.full(target.nbytes, 7, np.uint8)
    nest = compile_nest(source, target)
    nest.run(bytes(source.nbytes), out, source_blocks=[])

    assert nest.payload_nbytes == 0
    assert nest.digest_source(bytes(source.nbytes), 1, blocks=[]) == 0
    assert (out == 7).all()


@pytest.mark.parametrize("tokens", [1, 15, 16, 17, 127, 128, 129, 1000])
@pytest.mark.parametrize(("small", "large"), [(16, 128)])
def test_blocks_of_different_sizes(tokens, small, large):
    """Both ways; the last destination block's tail is zero, and pages that aren't needed stay untouched."""
    rng = np.random.default_rng(tokens)
    for before, after in ((small, large), (large, small)):
        have, want = -(-tokens // before) + 2, -(-tokens // after) + 2
        base = {"h": 2, "s": tokens, "d": 8}
        source = Layout.parse("[s1] h s0 d", {**base, "s0": before, "s1": have}, "int8")
        target = Layout.parse("[s1] h s0 d", {**base, "s0": after, "s1": want}, "int8")
        data = rng.integers(1, 255, (have, 2, before, 8), dtype=np.uint8)
        out = np.full((want, 2, after, 8), 255, np.uint8)
        read, write = rng.permutation(have)[: have - 2], rng.permutation(want)[: want - 2]
        unused = [k for k in range(have) if k not in read]
        data[unused] = 255
        compile_nest(source, target).run(data, out, source_blocks=read, destination_blocks=write)
        flat = data[read].transpose(1, 0, 2, 3).reshape(2, -1, 8)[:, :tokens]
        padded = np.zeros((2, len(write) * after, 8), np.uint8)
        padded[:, :tokens] = flat

        assert np.array_equal(out[write].transpose(1, 0, 2, 3).reshape(2, -1, 8), padded)
        assert (out[[k for k in range(want) if k not in write]] == 255).all()


@given(st.text(alphabet="lcbhsd0123[]:+ x-", max_size=40))
def test_no_text_breaks_the_parser(text):
    """It parses or says why; nothing else escapes."""
    try:
        layout = Layout.parse(text, {})
    except LayoutError:
        return
    assert Layout.parse(str(layout.notation), layout.sizes) == layout


@given(
    pair=st.tuples(pairs(), pairs()),
    dtypes=st.tuples(*[st.sampled_from(["float16", "int8"])] * 2),
)
def test_no_pair_breaks_the_compiler(pair, dtypes):
    """Layouts that have nothing to do with each other: a nest that was proved, or the reasons why not."""
    source, target = (layout(sides[k], dtypes[k]) for k, sides in enumerate(pair))
    if found := mismatches(source, target):
        with pytest.raises(LayoutError) as refused:
            compile_nest(source, target)
        assert all(str(mismatch) in str(refused.value) for mismatch in found)
        return
    nest = compile_nest(source, target)

    assert nest.payload_nbytes == prod(e.count for e in target.extents) * target.itemsize


@given(
    st.text(alphabet="lcbhsd0123[]:+ ", max_size=20),
    st.dictionaries(st.text("hsdl01", max_size=2), st.integers(-2, 99)),
)
def test_no_sizes_break_the_parser(text, sizes):
    try:
        layout = Layout.parse(text, sizes)
    except LayoutError:
        return
    assert Layout.parse(str(layout.notation), layout.sizes) == layout
