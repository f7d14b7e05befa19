"""What a posting moves is what the nest says, within every limit of the device, whatever the layouts."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hawk_agent.layouts import compile_nest
from tests.unit.layouts.oracle import translate
from tests.unit.layouts.strategies import DTYPES, layout, pairs

from .ends import Pair, transfer
from .fake import Fake

GUARD = 64


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    sides=pairs(),
    dtype=st.sampled_from(sorted(DTYPES)),
    seed=st.integers(0, 2**32),
    direction=st.sampled_from(["write", "read"]),
    max_sge=st.integers(1, 32),
    depth=st.integers(1, 20),
    message=st.sampled_from([1, 3, 32, 100, 4096, 8 << 20]),
    parts=st.sampled_from([1, 2, 7, 60]),
)
def test_any_layout_becomes_any_other_within_every_limit(
    fake: Fake, sides, dtype, seed, direction, max_sge, depth, message, parts
):
    fake.reset()
    fake.knobs.max_message, fake.knobs.max_sge = message, max_sge
    source, destination = sides
    kind = DTYPES[dtype]
    rng = np.random.default_rng(seed)
    data = rng.integers(1, np.iinfo(kind).max, max(1, source.elements()), dtype=kind)
    memory = rng.integers(1, np.iinfo(kind).max, destination.elements() + 2 * GUARD, dtype=kind)
    nest = compile_nest(layout(source, dtype), layout(destination, dtype))
    expected = memory.copy()
    inside = expected[GUARD : GUARD + destination.elements()]
    inside[:] = translate(source, destination, data, inside)
    target = memory[GUARD : GUARD + max(1, destination.elements())]
    fake.knobs.max_mr = max(1, min(data.nbytes, target.nbytes) // parts)
    ends = Pair.make(fake.infos(), depth=depth, max_sge=max_sge)
    blocks = (source.table, destination.table)
    posting = transfer(ends, nest, data, target, blocks=blocks, direction=direction)
    nest.zero_padding(memory[GUARD : GUARD + destination.elements()], destination_blocks=destination.table)

    assert np.array_equal(memory, expected)
    assert posting.nbytes == nest.payload_nbytes
    books = ends.a.queue.raw
    assert (books.posted, books.retired, books.failed) == (posting.requests, posting.requests, 0)
    assert fake.seen.executed == posting.requests
    assert fake.seen.most_outstanding <= depth
    assert fake.seen.most_pieces <= max_sge
    assert fake.seen.most_bytes <= message
    ends.close()
