"""Random layouts, pairs of them, and their data."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from hawk_agent.layouts import Layout

from .oracle import AXES, Side

DTYPES = {
    "float32": np.uint32,
    "float16": np.uint16,
    "bfloat16": np.uint16,
    "int8": np.uint8,
    "float8": np.uint8,
}


@st.composite
def sides(draw, totals: dict[str, int], chains: dict[str, list[int]], indexable: bool = True) -> Side:
    """A side over axes of the given sizes; its levels carry where the shared chains allow."""
    words: list[str] = []
    sizes = dict(totals)
    for axis in AXES:
        if totals[axis] == 1 and draw(st.booleans()):
            del sizes[axis]
            continue
        carries = sorted(draw(st.sets(st.sampled_from(chains[axis])))) if chains[axis] else []
        names = [f"{axis}{k}" for k in range(len(carries) + 1)] if carries else [axis]
        for name, (below, every) in zip(names, zip([1, *carries], carries, strict=False), strict=False):
            sizes[name] = every // below
        words += names
    words = draw(st.permutations(words)) or ["d"]
    side = Side(list(words), sizes)
    if indexable and draw(st.booleans()):
        side = draw(paged(side))
    if draw(st.booleans()):
        side = draw(strided(side))
    return side


@st.composite
def paged(draw, side: Side) -> Side:
    """Put the coarsest token level in brackets, with a pool of a few pages more."""
    names = side.names("s")
    if not names:
        return side
    top, need = names[-1], side.level_size(names[-1])
    spare = draw(st.integers(0, 3)) if len(names) > 1 else 0
    sizes = dict(side.sizes)
    if len(names) > 1:
        sizes[top] = need + spare
    table = draw(st.permutations(range(need + spare)))[:need]
    return replace(
        side, words=[f"[{w}]" if w == top else w for w in side.words], sizes=sizes, table=list(table)
    )


@st.composite
def strided(draw, side: Side) -> Side:
    """Leave gaps round one level, and before the first element."""
    name = draw(st.sampled_from(side.words)).strip("[]")
    packed = side.steps()[name]
    return replace(side, strides={name: packed + draw(st.integers(0, 3))}, offset=draw(st.integers(0, 3)))


@st.composite
def pairs(draw) -> tuple[Side, Side]:
    """Two sides over the same logical axes, with windows of one length that may begin anywhere."""
    totals = {
        "l": draw(st.integers(1, 2)),
        "c": draw(st.integers(1, 2)),
        "b": draw(st.integers(1, 2)),
        "h": draw(st.integers(1, 3)),
        "s": draw(st.integers(1, 21)),
        "d": draw(st.integers(1, 12)),
    }
    chains = {axis: draw(chain) if axis in "hsd" else [] for axis in AXES}
    source, destination = draw(sides(totals, chains)), draw(sides(totals, chains))
    for axis in AXES:
        if draw(st.integers(0, 3)) == 0:
            count = draw(st.integers(0 if axis == "s" else 1, totals[axis]))
            for side in (source, destination):
                first = draw(st.integers(0, totals[axis] - count))
                side.windows[axis] = (first, first + count)
    return source, destination


chain = st.sampled_from([[], [2], [4], [16], [2, 4], [3], [3, 6], [2, 6, 12], [4, 8], [8]])


def layout(side: Side, dtype: str) -> Layout:
    """The product's layout of a side."""
    made = Layout.parse(side.text, side.sizes, dtype, strides=side.strides, offset=side.offset)
    for axis, (start, stop) in side.windows.items():
        made = made.narrow(axis, start, stop)
    return made
