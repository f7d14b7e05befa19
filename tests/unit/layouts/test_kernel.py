"""The C kernel refuses what would leave its buffers, whatever it is handed."""

import contextlib
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.layouts import engines

kernel = pytest.importorskip(
    "hawk_agent.layouts._kernel", reason="missing tool: a C compiler, for the kernel"
)

NONE = np.zeros(0, np.int64)
PLAIN = (0, 0, 0)


def program(*loops, run=32, source=0, destination=0):
    return array("q", [len(loops), source, destination, 0, 0, 0, run, *(n for loop in loops for n in loop)])


def copy(
    words, source=256, destination=256, tables=(NONE, NONE), pages=(0, 0), path="", key=PLAIN, stream=False
):
    data = np.arange(source, dtype=np.uint8)
    memory = np.full(destination + 128, 7, np.uint8)
    kernel.copy(path, words, data, memory[64 : 64 + destination], *tables, *pages, stream, key)
    assert (memory[:64] == 7).all()
    assert (memory[64 + destination :] == 7).all()
    return memory[64:-64]


def test_a_right_program_runs():
    assert copy(program((4, 64, 32, 0, 0, 0)))[32] == 64


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (program((5, 64, 32, 0, 0, 0)), "buffer: too small"),
        (program((4, 64, 96, 0, 0, 0)), "buffer: too small"),
        (program(source=225), "buffer: too small"),
        (program((2**62, 2**62, 0, 0, 0, 0)), "beyond any buffer"),
        (program((2**50, 0, 0, 0, 0, 0)), "moves more than its buffer holds"),
        (program((-1, 0, 0, 0, 0, 0)), "negative step or no turns"),
        (program((0, 0, 0, 0, 0, 0)), "negative step or no turns"),
        (program((4, -64, 32, 0, 0, 0)), "negative step or no turns"),
        (program(source=-1), "negative start"),
        (program(run=0), "empty run"),
        (array("q", [3, 0, 0, 0, 0, 0, 32]), "loop count"),
        (array("q", [99, *[0] * 5, 32]), "loop count"),
        (array("q", [-1, *[0] * 5, 32]), "loop count"),
        (array("q", [0, 0, 0]), "truncated"),
        (program((2, 0, 0, 0, 1, 0)), "table: too short"),
    ],
)
@pytest.mark.parametrize("path", kernel.paths())
def test_a_wrong_program_is_refused_before_it_runs(words, why, path):
    with pytest.raises(ValueError, match=why):
        copy(words, path=path)


@pytest.mark.parametrize("table", [[-1, 0], [0, 9], [2**62, 0], [-(2**63), 0]])
def test_a_hostile_table_is_refused(table):
    words = program((2, 0, 32, 0, 1, 0))

    with pytest.raises(ValueError, match=r"table|buffer"):
        copy(words, tables=(np.array(table), NONE), pages=(64, 0))
    with pytest.raises(ValueError, match=r"table|buffer"):
        copy(program((2, 0, 0, 0, 0, 1)), tables=(NONE, np.array(table)), pages=(0, 64))


@pytest.mark.parametrize(
    ("words", "unit"),
    [
        (program((2, 64, 32, 12, 0, 0)), 8),  # a run begins inside a unit
        (program(), 3),
        (
            program((2, 2, 2, 2, 0, 0), (2, 4, 4, 8, 0, 0), (2, 8, 8, 16, 0, 0), run=2),
            8,
        ),  # joined outside the block
        (program((4, 2, 2, 2, 0, 0), (2, 8, 8, 8, 0, 1), run=2), 8),
        (program((2, 3, 3, 3, 0, 0), run=3), 8),  # three bytes make no word
    ],
)
def test_a_unit_that_the_block_does_not_hold_is_refused(words, unit):
    with pytest.raises(ValueError, match="unit"):
        copy(words, key=(1, 2, unit), tables=(NONE, np.zeros(9, np.int64)), pages=(0, 64))


def test_a_path_of_another_machine_is_refused():
    with pytest.raises(ValueError, match="'vax' isn't available"):
        copy(program(), path="vax")


numbers = st.one_of(st.integers(-1, 200), st.sampled_from([2**31, 2**32, 2**62, -(2**63), 2**63 - 1]))


@given(
    words=st.lists(numbers, max_size=40),
    tables=st.tuples(st.lists(numbers, max_size=4), st.lists(numbers, max_size=4)),
    pages=st.tuples(numbers, numbers),
    path=st.sampled_from(kernel.paths()),
    key=st.sampled_from([PLAIN, (1, 2, 8), (1, 2, 1), (1, 2, 5)]),
    stream=st.booleans(),
)
def test_no_numbers_break_the_kernel(words, tables, pages, path, key, stream):
    """It runs inside its buffers or raises; the guards round the destination stay as they were."""
    try:
        copy(
            array("q", words),
            tables=tuple(np.array(t, np.int64) for t in tables),
            pages=pages,
            path=path,
            key=key,
            stream=stream,
        )
    except ValueError:
        return


loops = st.tuples(st.integers(1, 9), *[st.integers(0, 40)] * 3, st.integers(0, 1), st.integers(0, 1))


@given(
    shape=st.lists(loops, max_size=4),
    run=st.integers(1, 70),
    starts=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    tables=st.tuples(*[st.lists(st.integers(-1, 4), min_size=1, max_size=12)] * 2),
    path=st.sampled_from(kernel.paths()),
    stream=st.booleans(),
)
def test_no_plausible_program_leaves_its_buffers(shape, run, starts, tables, path, stream):
    try:
        copy(
            program(*shape, run=run, source=starts[0], destination=starts[1]),
            tables=tuple(np.array(t, np.int64) for t in tables),
            pages=(30, 20),
            path=path,
            stream=stream,
        )
    except ValueError:
        return


@given(
    shape=st.lists(loops, max_size=4),
    run=st.integers(1, 70),
    starts=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    tables=st.tuples(*[st.lists(st.integers(-1, 4), min_size=1, max_size=12)] * 2),
    span=st.tuples(st.integers(-1, 300), st.integers(-1, 600)),
    path=st.sampled_from(kernel.paths()),
    packing=st.booleans(),
)
def test_no_part_of_a_stream_leaves_its_buffers(shape, run, starts, tables, span, path, packing):
    """A span beyond the stream, a table or a piece that is too small: refused before it moves."""
    memory = np.full(256 + 128, 7, np.uint8)
    words = program(*shape, run=run, source=starts[0], destination=starts[1])
    maps = [np.array(t, np.int64) for t in tables]
    with contextlib.suppress(ValueError):
        kernel.part(
            path, words, np.zeros(256, np.uint8), memory[64:-64], *maps, 30, 20, *span, packing, not packing
        )

    assert (memory[:64] == 7).all()
    assert (memory[-64:] == 7).all()


@pytest.mark.parametrize("span", [(0, 257), (5, 4), (-1, 4), (256, 300)])
def test_a_span_outside_the_stream_is_refused(span):
    words = program((8, 32, 32, 0, 0, 0))
    out = np.full(512, 7, np.uint8)

    with pytest.raises(ValueError, match="range"):
        kernel.part("", words, np.zeros(256, np.uint8), out, NONE, NONE, 0, 0, *span, True, False)
    assert (out == 7).all()


def test_every_path_of_this_machine_is_an_engine():
    assert [f"c-{path}" for path in kernel.paths()][::-1] == engines.available()[:-1]
