"""The algebra's laws: coalescing and refining change how a translation is written, never what it moves."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.layouts import compile_nest
from hawk_agent.layouts.loops import Loop, Program, coalesce
from hawk_agent.layouts.refine import cuts, refine

from .oracle import AXES
from .strategies import chain, layout, sides

steps = st.sampled_from([0, 2, 4, 8, 16, 32, 64, 96])
loops = st.builds(Loop, st.integers(1, 5), steps, steps, steps, st.integers(0, 1), st.integers(0, 1))
programs = st.builds(
    Program,
    *[st.integers(0, 9)] * 5,
    st.lists(loops, max_size=4).map(tuple),
    st.sampled_from([1, 2, 4, 8]),
)


def moved(program: Program, *, logical: bool) -> list[tuple[int, ...]]:
    """Every byte that a program moves, in its order: places, table entries and, on request, logical ones."""
    at = [
        (
            program.source,
            program.destination,
            program.logical,
            program.source_entry,
            program.destination_entry,
        )
    ]
    for loop in program.loops:
        at = [
            tuple(place + turn * step for place, step in zip(start, loop.steps, strict=True))
            for start in at
            for turn in range(loop.count)
        ]
    kept = range(5) if logical else (0, 1, 3, 4)
    bytes_ = [(*(place + k for place in start[:3]), *start[3:]) for start in at for k in range(program.run)]
    return [tuple(byte[k] for k in kept) for byte in bytes_]


@given(program=programs, logical=st.booleans())
def test_coalescing_moves_the_same_bytes_in_the_same_order(program, logical):
    short = coalesce(program, logical=logical)

    assert moved(short, logical=logical) == moved(program, logical=logical)
    assert len(short.loops) <= len(program.loops)
    assert coalesce(short, logical=logical) == short


@given(
    chains=st.tuples(chain, chain),
    starts=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    count=st.integers(0, 60),
)
def test_refining_visits_each_index_once_and_never_steps_over_a_carry(chains, starts, count):
    left, right = ([b // a for a, b in pairwise([1, *carries])] for carries in chains)
    shared = sorted({*chains[0], *chains[1]})
    if any(coarse % fine for fine, coarse in pairwise(shared)):
        return
    pieces = refine(cuts("s", left, right), *starts, count)
    seen = []
    for piece in pieces:
        indices = [piece.first]
        for number, step in piece.loops:
            for side, carries in enumerate(chains):
                for every in (every for every in carries if step < every):
                    first, last = starts[side] + piece.first, starts[side] + piece.first + (number - 1) * step
                    assert first // every == last // every
            indices = [index + turn * step for index in indices for turn in range(number)]
        seen += indices

    assert sorted(seen) == list(range(count))


@st.composite
def triples(draw):
    """Three layouts of one cache, whatever their tiles, pages and gaps."""
    totals = {"l": 1, "c": draw(st.integers(1, 2)), "b": 1, "h": draw(st.integers(1, 3))}
    totals |= {"s": draw(st.integers(1, 21)), "d": draw(st.integers(1, 12))}
    chains = {axis: draw(chain) if axis in "hsd" else [] for axis in AXES}
    return [draw(sides(totals, chains)) for _ in range(3)]


@given(three=triples(), seed=st.integers(0, 2**32))
def test_translations_compose_and_have_inverses(three, seed):
    """By way of any third layout the same bytes arrive as directly, and the way back restores the source."""
    first, middle, last = (layout(side, "float16") for side in three)
    tables = [side.table for side in three]
    data = np.random.default_rng(seed).integers(0, 256, first.nbytes, dtype=np.uint8)

    def go(source, destination, before, tables):
        out = np.zeros(destination.nbytes, np.uint8)
        nest = compile_nest(source, destination)
        nest.run(before, out, source_blocks=tables[0], destination_blocks=tables[1])
        return out

    stop = go(first, middle, data, tables[:2])
    direct = go(first, last, data, tables[::2])
    around = go(middle, last, stop, tables[1:])
    back = go(middle, first, stop, tables[1::-1])
    same = go(first, first, data, (tables[0], tables[0]))

    assert np.array_equal(direct, around)
    assert np.array_equal(back, same)
