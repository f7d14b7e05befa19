"""What a posting moves is what the nest says, within every limit of the device, whatever the layouts."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hawk_agent.layouts import compile_nest
from hawk_agent.memory import registration
from hawk_agent.transports.verbs.completion import finish
from hawk_agent.transports.verbs.posting import Local, Posting, Remote
from tests.unit.layouts.oracle import translate
from tests.unit.layouts.strategies import DTYPES, layout, pairs

from .fake import Fake, pair

GUARD = 64
ACCESS = {
    "write": (registration.GATHERED, registration.DESTINATION),
    "read": (registration.STAGING, registration.PULLED),
}


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    sides=pairs(),
    dtype=st.sampled_from(sorted(DTYPES)),
    seed=st.integers(0, 2**32),
    direction=st.sampled_from(["write", "read"]),
    max_sge=st.integers(1, 32),
    depth=st.integers(1, 20),
    message=st.sampled_from([1, 3, 32, 100, 4096, 8 << 20]),
    max_mr=st.sampled_from([7, 64, 1000, 1 << 30]),
)
def test_any_layout_becomes_any_other_within_every_limit(
    fake: Fake, sides, dtype, seed, direction, max_sge, depth, message, max_mr
):
    fake.reset()
    fake.knobs.max_message, fake.knobs.max_mr, fake.knobs.max_sge = message, max_mr, max_sge
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
    ends = pair(fake, depth=depth, max_sge=max_sge)
    ours, theirs = (data, target) if direction == "write" else (target, data)
    near = ends.a.register(ours, ACCESS[direction][0])
    far = ends.b.register(theirs, ACCESS[direction][1])
    blocks = (source.table, destination.table) if direction == "write" else (destination.table, source.table)
    local = Local(near.nbytes, near.local_keys, blocks[0])
    remote = Remote(far.nbytes, far.remote_keys, blocks[1])
    posting = Posting(ends.a.queue, nest, local, remote, direction=direction)
    finish(posting, seconds=30)
    nest.zero_padding(memory[GUARD : GUARD + destination.elements()], destination_blocks=destination.table)

    assert np.array_equal(memory, expected)
    assert posting.nbytes == nest.payload_nbytes
    books = ends.a.queue.raw
    assert (books.posted, books.retired, books.failed) == (posting.requests, posting.requests, 0)
    assert fake.seen.executed == posting.requests
    assert fake.seen.most_outstanding <= depth
    assert fake.seen.most_pieces <= max_sge
    assert fake.seen.most_bytes <= message
    near.close()
    far.close()
    ends.close()
