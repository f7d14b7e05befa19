"""Reordering for the caches visits exactly what the plan visited."""

from collections import Counter
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.layouts import schedule
from hawk_agent.layouts.loops import Loop, Program, part, shorten

steps = st.sampled_from([0, 2, 4, 8, 32, 64, 100, 256])
loops = st.builds(Loop, st.integers(1, 40), steps, steps, steps, st.sampled_from([0, 0, 0, 1]), st.just(0))
programs = st.builds(
    Program,
    *[st.integers(0, 9)] * 5,
    st.lists(loops, max_size=4).map(tuple),
    st.sampled_from([2, 8, 10, 32, 64]),
).filter(lambda program: program.runs < 1000)


def visits(program: Program) -> Counter[tuple[int, ...]]:
    """Every run of a program: where it reads, writes, counts, and which table entries it takes."""
    start = (program.source, program.destination, program.logical)
    start += (program.source_entry, program.destination_entry)
    found: Counter[tuple[int, ...]] = Counter()
    for turn in product(*(range(loop.count) for loop in program.loops)):
        at = [sum(i * loop.steps[k] for i, loop in zip(turn, program.loops, strict=True)) for k in range(5)]
        found[*(a + b for a, b in zip(start, at, strict=True)), program.run] += 1
    return found


def total(pieces) -> Counter[tuple[int, ...]]:
    return sum((visits(piece) for piece in pieces), Counter())


@given(program=programs, block=st.sampled_from([64, 256, 1024, 8192]), pages=st.sampled_from([0, 4096]))
def test_a_schedule_moves_the_same_runs(program, block, pages):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "BLOCK", block)

        assert total(schedule.reorder_programs([program], (pages, 0))) == visits(program)


@given(program=programs, data=st.data())
def test_parts_of_a_program_make_the_whole(program, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, program.runs), max_size=4)))
    bounds = [0, *cuts, program.runs]
    pieces = [piece for a, b in pairwise(bounds) for piece in part(program, a, b - a)]

    assert total(pieces) == visits(program)


@given(program=programs.filter(lambda program: program.runs < 60), most=st.integers(1, 40))
def test_shortened_runs_make_the_whole(program, most):
    def elements(pieces):
        return Counter(
            tuple(at + i for at in visit[:3]) + visit[3:5]
            for piece in pieces
            for visit, times in visits(piece).items()
            for i in range(visit[5])
            for _ in range(times)
        )

    assert elements(shorten(program, most)) == elements([program])


def test_a_column_of_tiles_is_walked_in_blocks_so_that_no_line_is_read_twice():
    """Columns first would read 64-byte lines for 32 bytes and come back for the rest much later."""
    column = Program(0, 0, 0, 0, 0, (Loop(8, 32, 1 << 20, 32), Loop(32768, 256, 32, 256)), 32)

    (walk,) = schedule.reorder_programs([column], (0, 0))

    assert [(loop.count, loop.source) for loop in walk.loops] == [(1024, 8192), (8, 32), (32, 256)]
