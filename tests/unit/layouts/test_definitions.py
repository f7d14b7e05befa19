"""Definitions that agents and people must read alike: digests, streams, presets, descriptions."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.layouts import Layout, LayoutError, compile_nest, engines, fallback
from hawk_agent.layouts.digest import key_words, picks
from hawk_agent.layouts.loops import Loop, Program
from hawk_agent.layouts.presets import PRESETS, preset_layout

from .strategies import layout, pairs, sides
from .test_translation import engine as forced

GOLDEN = 0x9E3779B97F4A7C15
SPLITMIX64 = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
"""The published generator's first outputs for the seed 0."""


@pytest.mark.parametrize("turn", range(3))
def test_a_key_is_spread_by_splitmix64(turn):
    assert key_words(turn * GOLDEN)[0] == SPLITMIX64[turn]
    assert key_words(turn * GOLDEN % 2**64 ^ 0x6A09E667F3BCC909)[1] == SPLITMIX64[turn]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_keys_have_64_bits_and_differ_in_both_words(left, right):
    first, second = key_words(left), key_words(right)

    assert all(0 <= word < 2**64 for word in first)
    assert all((a == b) == (left == right) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", engines.available())
def test_the_digest_stays_what_it_is(name):
    """Agents of two releases compare their digests: one that changes is a new protocol."""
    same = Layout.preset("row-major", {"l": 2, "h": 2, "s": 8, "d": 8})
    data = np.arange(same.nbytes // 2, dtype=np.uint16)
    with forced(name):
        assert compile_nest(same, same).digest_source(data, 11) == 12321839876707109813
        assert compile_nest(same, same).digest_source(data, 2**64 - 1) == 11304051298035552073


def test_the_stripes_of_a_sample_stay_what_they_are():
    assert picks(40, 4, 11, 2).tolist() == [3, 4, 9, 14, 18, 20, 24, 29, 32, 38]
    assert picks(10, 4, 0, 0).tolist() == [0, 6, 9]
    assert picks(9, 4, 2**63, 1).tolist() == [3, 5, 8]


@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 2**64 - 1), st.integers(0, 99))
def test_a_sample_takes_one_stripe_of_every_few_neighbours(stripes, sample, key, salt):
    taken = picks(stripes, sample, key, salt).tolist()

    assert len(taken) == -(-stripes // sample)
    for group, stripe in enumerate(taken):
        assert group * sample <= stripe or stripe == stripes - 1
        assert stripe < min((group + 1) * sample, stripes)


@given(pair=pairs(), most=st.integers(1, 9), seed=st.integers(0, 2**32))
def test_a_digest_taken_in_small_batches_is_the_same(pair, most, seed):
    nest = compile_nest(*(layout(side, "float16") for side in pair))
    data = np.random.default_rng(seed).integers(0, 256, nest.source.nbytes, dtype=np.uint8)
    with forced("numpy"), pytest.MonkeyPatch.context() as patch:
        whole = nest.digest_source(data, seed, blocks=pair[0].table)
        patch.setattr(fallback, "_BATCH", most)

        assert nest.digest_source(data, seed, blocks=pair[0].table) == whole


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 60))
def test_batches_are_as_large_as_they_may_be_and_in_order(counts, most):
    loops = tuple(Loop(count, *([7**k] * 3)) for k, count in enumerate(counts))
    program = Program(5, 5, 5, 0, 0, loops, 1)
    batches = list(fallback._batches(program, most))

    def places(piece):
        turns = product(*(range(loop.count) for loop in piece.loops))
        return [
            piece.source + sum(i * loop.source for i, loop in zip(turn, piece.loops, strict=True))
            for turn in turns
        ]

    assert [place for batch in batches for place in places(batch)] == places(program)
    assert all(batch.runs <= max(most, counts[-1]) for batch in batches)
    if program.runs <= most:
        assert batches == [program]


@given(st.data())
def test_a_window_touches_the_entries_of_its_tokens(data):
    totals = {"l": 1, "c": 1, "b": 1, "h": 1, "s": data.draw(st.integers(1, 40)), "d": 2}
    side = data.draw(sides(totals, {axis: [] for axis in "lcbhd"} | {"s": [2, 4, 16]}))
    start = data.draw(st.integers(0, totals["s"]))
    stop = data.draw(st.integers(start, totals["s"]))
    whole = layout(side, "float16")
    if "s" not in side.sizes:
        return
    window = whole.narrow("s", start, stop)
    if whole.table is None or start == stop:
        assert window.entries == (0, 0)
        return
    every = 1
    for name in side.names("s")[:-1]:
        every *= side.level_size(name)

    assert window.entries == (start // every, (stop - 1) // every + 1)


@given(pair=pairs())
def test_moves_write_forwards(pair):
    """Where blocks follow each other, so that nothing is written twice and the stream has one order."""
    nest = compile_nest(*(layout(side, "float16") for side in pair))
    page = nest.pages[1]
    for move in nest.moves:
        steps = [loop.destination + loop.destination_step * page for loop in move.loops]
        assert steps == sorted(steps, reverse=True)


def test_a_stream_that_begins_in_a_later_page_is_packed_alike_by_every_engine():
    sizes = {"h": 2, "s": 64, "d": 8}
    source = Layout.preset("pages-hnd", {**sizes, "s1": 5}).narrow("s", 17, 60)
    target = Layout.preset("pages-nhd", {**sizes, "s1": 6}).narrow("s", 18, 61)
    nest = compile_nest(source, target)
    memory = np.random.default_rng(1).integers(0, 256, source.nbytes, dtype=np.uint8)
    expected = bytearray(target.nbytes)
    nest.run(memory, expected, source_blocks=[4, 0, 3, 1], destination_blocks=[5, 2, 0, 4])
    nest.zero_padding(expected, destination_blocks=[5, 2, 0, 4])
    for name in engines.available():
        piece, out = bytearray(nest.payload_nbytes), bytearray(target.nbytes)
        with forced(name):
            nest.pack(memory, piece, 0, len(piece), source_blocks=[4, 0, 3, 1])
            nest.unpack(piece, out, 0, len(piece), destination_blocks=[5, 2, 0, 4])

        assert out == expected, name


@pytest.mark.parametrize("shape", [(1000, 64, 256), (1, 4096, 16), (8, 100, 64), (3, 7, 1), (5, 5, 8000)])
def test_a_stripe_is_some_kilobytes_whatever_the_shape(shape):
    rows, columns, run = shape
    program = Program(
        0, 0, 0, 0, 0, (Loop(rows, *[columns * run * 2] * 3), Loop(columns, *[run * 2] * 3)), run
    )
    pieces = engines.stripes(program)

    assert sum(piece.nbytes for piece in pieces) == program.nbytes
    for piece in pieces:
        block = piece.run
        for loop in piece.loops[-2:]:
            block *= loop.count
        assert block <= 4096
        assert block >= min(2048, piece.nbytes // max(piece.runs, 1))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (Layout.parse("h s d", {"h": 2, "s": 4, "d": 8}, "float16"), "h s d (h=2,s=4,d=8 float16)"),
        (
            Layout.parse("[s1] h s0 d", {"h": 2, "s": 40, "s0": 16, "d": 8}, "int8"),
            "[s1] h s0 d (h=2,s=40,d=8,s0=16 int8)",
        ),
    ],
)
def test_a_layout_describes_itself(made, text):
    assert str(made) == text


def test_presets_are_found_by_name():
    assert all(preset_layout(name) is preset for name, preset in PRESETS.items())


@pytest.mark.parametrize(
    ("name", "meant"),
    [("row-majr", "row-major"), ("ROW-MAJOR", "row-major"), ("pages-nhd-togethr", "pages-nhd-together")],
)
def test_a_name_that_is_nearly_a_presets_is_answered_with_that(name, meant):
    with pytest.raises(
        LayoutError, match=f"preset: unknown layout '{name}'; did you mean {meant}.*Use one of row-major, "
    ):
        preset_layout(name)


def test_a_name_like_no_preset_is_answered_with_all():
    with pytest.raises(LayoutError, match=", ".join(PRESETS)) as refused:
        preset_layout("qqqq")

    assert "did you mean" not in str(refused.value)


def test_of_many_near_names_three_are_offered():
    with pytest.raises(LayoutError) as refused:
        preset_layout("pages")

    assert str(refused.value).split("?")[0].count(" or ") == 2
