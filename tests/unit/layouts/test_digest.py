"""The digest: the same on both sides of any translation, and different after any slip."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.layouts import Layout, compile_nest, engines
from hawk_agent.layouts.digest import key_words

from .oracle import AXES, Side, grid
from .strategies import DTYPES, layout, pairs
from .test_translation import engine as forced

SIZES = {"l": 4, "c": 2, "h": 4, "s": 96, "d": 64}
SOURCE = Layout.preset("row-major", SIZES)
PAGES = Layout.preset("pages-hnd", {**SIZES, "s1": 9})
TABLE = [7, 2, 0, 5, 8, 3]


@pytest.fixture
def sent():
    """Source and destination after a right translation, the nest, and the key."""
    data = np.random.default_rng(3).integers(0, 2**16, SOURCE.nbytes // 2, dtype=np.uint16)
    out = np.zeros(PAGES.nbytes // 2, np.uint16)
    nest = compile_nest(SOURCE, PAGES)
    nest.run(data, out, destination_blocks=TABLE)
    return data, out, nest


def agree(sent, key=11, table=TABLE) -> bool:
    data, out, nest = sent
    return nest.digest_source(data, key) == nest.digest_destination(out, key, blocks=table)


def test_a_right_translation_agrees(sent):
    assert agree(sent)


@given(seed=st.integers(0, 2**32), key=st.integers(0, 2**64 - 1))
def test_one_flipped_bit_is_found(seed, key):
    rng = random.Random(seed)
    data = np.random.default_rng(3).integers(0, 2**16, SOURCE.nbytes // 2, dtype=np.uint16)
    nest = compile_nest(SOURCE, SOURCE)
    before = nest.digest_source(data, key)
    data[rng.randrange(data.size)] ^= 1 << rng.randrange(16)

    assert nest.digest_source(data, key) != before


def test_two_swapped_heads_are_found(sent):
    pages = sent[1].reshape(4, 2, 9, 4, 16, 64)
    pages[1, 0, 2, [0, 1]] = pages[1, 0, 2, [1, 0]]

    assert not agree(sent)


def test_two_swapped_tokens_are_found(sent):
    pages = sent[1].reshape(4, 2, 9, 4, 16, 64)
    pages[3, 1, 5, 2, [4, 9]] = pages[3, 1, 5, 2, [9, 4]]

    assert not agree(sent)


def test_a_stale_block_is_found(sent):
    pages = sent[1].reshape(4, 2, 9, 4, 16, 64)
    pages[:, :, TABLE[3]] = 0

    assert not agree(sent)


def test_a_block_of_another_request_is_found(sent):
    assert not agree(sent, table=[7, 2, 0, 5, 8, 1])


def test_a_dropped_chunk_is_found(sent):
    data, out, nest = sent
    chunks = [nest.layers(first, 2) for first in (0, 2)]
    whole = nest.digest_source(data, 11)

    assert chunks[0].digest_destination(out, 11, blocks=TABLE) != whole


def test_zeros_are_told_from_nothing(sent):
    """A digest that ignored zeros would pass a chunk that never came into cleared memory."""
    nest = compile_nest(SOURCE, SOURCE)
    empty = np.zeros(SOURCE.nbytes, np.uint8)

    assert nest.digest_source(empty, 11) not in {0, nest.layers(0, 2).digest_source(empty, 11)}


@pytest.mark.parametrize("name", engines.available())
@pytest.mark.parametrize("target", ["pages-hnd", "tiles-16x16", "nz", "transposed", "row-major"])
def test_chunks_add_up_in_any_split(name, target):
    data = np.random.default_rng(3).integers(0, 2**16, SOURCE.nbytes // 2, dtype=np.uint16)
    layout = Layout.preset(target, SIZES)
    nest = compile_nest(SOURCE, layout)
    with forced(name):
        whole = nest.digest_source(data, 5)
        for axis, cuts in (("l", [0, 1, 4]), ("s", [0, 7, 48, 96]), ("h", [0, 3, 4]), ("c", [0, 1, 2])):
            parts = [
                nest.window(axis, start, stop).digest_source(data, 5)
                for start, stop in itertools.pairwise(cuts)
            ]

            assert sum(parts) % 2**64 == whole, axis


def test_the_key_decides(sent):
    data, _, nest = sent

    assert len({nest.digest_source(data, key) for key in range(100)}) == 100


def test_a_sample_finds_what_spoils_everything(sent):
    data, out, nest = sent
    pages = out.reshape(4, 2, 9, 4, 16, 64)
    assert nest.digest_source(data, 5, sample=4) == nest.digest_destination(out, 5, blocks=TABLE, sample=4)
    pages[:, :, :, [0, 1]] = pages[:, :, :, [1, 0]]

    assert nest.digest_source(data, 5, sample=4) != nest.digest_destination(out, 5, blocks=TABLE, sample=4)


@pytest.mark.parametrize("sample", [2, 16])
def test_a_sample_finds_its_share_of_single_faults(sent, sample):
    """Over many keys, one spoilt stripe of 4 KiB is found about once in `sample`."""
    data, out, nest = sent
    out.reshape(4, 2, 9, 4, 16, 64)[2, 1, TABLE[1], 3] ^= 1
    keys = range(400)
    found = 0
    for key in keys:
        read = nest.digest_source(data, key, sample=sample)
        found += read != nest.digest_destination(out, key, blocks=TABLE, sample=sample)

    assert 0.5 * len(keys) / sample < found < 2 * len(keys) / sample


def defined(side: Side, data: np.ndarray, totals: dict[str, int], key: int) -> int:
    """The digest word by word, as its definition says, in Python's own numbers."""
    first, second = key_words(key)
    low, whole = 2**32 - 1, 2**64 - 1
    width = data.dtype.itemsize
    rows = data[grid(side, {a: range(totals[a]) for a in AXES})].reshape(-1, totals["d"])
    words = -(-totals["d"] * width // 8)
    total = 0
    for row, features in enumerate(rows):
        padded = features.tobytes().ljust(8 * words, b"\0")
        for k in range(words):
            x = (row * words + k + first) & whole
            x = ((x & low) * 0x9E3779B1 + (x << 32 | x >> 32)) & whole ^ second
            x = ((x & low) * 0x85EBCA77 + (x << 32 | x >> 32)) & whole
            m = int.from_bytes(padded[8 * k : 8 * k + 8], "little")
            total += ((m + x) & low) * (((m >> 32) + (x >> 32)) & low)
    return total & whole


@given(pair=pairs(), dtype=st.sampled_from(sorted(DTYPES)), seed=st.integers(0, 2**32))
def test_it_is_what_its_definition_says(pair, dtype, seed):
    """Wherever neither side cuts words in a way that no loop joins (tiles of three features)."""
    source = pair[0]
    for side in pair:
        side.windows.clear()
    totals = {a: max(side.sizes.get(a, 1) for side in pair) for a in AXES}
    data = np.random.default_rng(seed).integers(0, 256, source.elements() * 4, np.uint8)
    data = data.view(DTYPES[dtype])[: source.elements()]
    nest = compile_nest(*(layout(side, dtype) for side in pair))
    if nest.unit == 8:
        assert nest.digest_source(data, seed, blocks=source.table) == defined(source, data, totals, seed)


WIDTHS = {1: "int8", 2: "float16", 4: "float32"}


@pytest.mark.parametrize("name", engines.available())
@pytest.mark.parametrize("features", [64, 57])
@pytest.mark.parametrize(
    ("pair", "width"),
    [
        *((("h s d", "h d s"), width) for width in WIDTHS),
        (("h s d", "h d1 s d0"), 2),
        (("h s d", "h d1 s d0"), 1),
        (("h d s", "h d s"), 2),
        (("[s1] h d s0", "h s d"), 2),
        (("h s d", "h s d1 d0"), 2),
    ],
)
def test_short_runs_are_hashed_in_whole_words_and_slips_in_them_found(name, features, pair, width):
    """Transposed keys, and the pairs of features that dot-product instructions want: runs of 1 to 8 bytes."""
    sizes = {"h": 2, "s": 96, "d": features}
    tiles = {"s0": 16, "d0": 2 if width < 4 else 1}
    sides = [
        Layout.parse(text, sizes | {k: v for k, v in tiles.items() if k in text}, WIDTHS[width])
        for text in pair
    ]
    nest = compile_nest(*sides)
    blocks = list(range(6)) if sides[0].table else None
    data = np.random.default_rng(5).integers(0, 256, sides[0].nbytes, np.uint8)
    out = np.zeros(sides[1].nbytes, np.uint8)
    for stream in (False, True):
        with forced(name, stream):
            read = nest.run(data, out, source_blocks=blocks, key=9)

            assert nest.unit == 8
            assert nest.digest_source(data, 9, blocks=blocks) == read
            assert nest.digest_destination(out, 9) == read
            samples = {
                nest.digest_source(data, 9, blocks=blocks, sample=3),
                nest.digest_destination(out, 9, sample=3),
            }
            assert len(samples) == 1
            for spoil in (_flip, _swap_heads, _stale, _drop):
                spoilt = out.copy()
                spoil(spoilt)

                assert nest.digest_destination(spoilt, 9) != read, spoil.__name__


def _flip(memory: np.ndarray) -> None:
    memory[1234] ^= 16


def _swap_heads(memory: np.ndarray) -> None:
    heads = memory.reshape(2, -1)
    heads[:] = heads[::-1].copy()


def _stale(memory: np.ndarray) -> None:
    memory[512:768] = np.random.default_rng(8).integers(0, 256, 256)


def _drop(memory: np.ndarray) -> None:
    memory[memory.size // 2 :] = 0
