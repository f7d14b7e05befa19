"""A posting moves exactly the bytes of the nest, within every limit of the device, whatever the layouts."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hawk_agent.layouts import Layout, compile_nest
from hawk_agent.plans.counts import RequestLimits, gather_writes
from hawk_agent.transports.verbs.completion import finish_posting
from hawk_agent.transports.verbs.errors import PostError
from hawk_agent.transports.verbs.posting import LocalMemory, Posting, RemoteMemory
from hawk_agent.transports.verbs.registration import LocalRange, RemoteRange
from tests.unit.layouts.oracle import translate
from tests.unit.layouts.strategies import DTYPES, layout, pairs

from .ends import Pair, drain, transfer

if TYPE_CHECKING:
    from .fake import Fake

GUARD = 64


def both(nbytes: int, key: int = 7) -> tuple[LocalMemory, RemoteMemory]:
    """Both sides' memory as one range each."""
    local, remote = LocalRange(0, nbytes, 1 << 40, key), RemoteRange(0, nbytes, 1 << 40, key)
    return LocalMemory(nbytes, (local,)), RemoteMemory(nbytes, (remote,))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=30)
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


def spread(rows: int, width: int = 8, gap: int = 4) -> tuple[Layout, Layout]:
    """Rows that stand apart at the destination: each is a request of its own."""
    sizes = {"s": rows, "d": width}
    return Layout.parse("s d", sizes, "int8"), Layout.parse("s d", sizes, "int8", strides={"s": width + gap})


def move_rows(fake: Fake, rows: int, *, depth: int = 64, **knobs: int) -> tuple[Posting, Pair]:
    """Move rows with the fake's knobs set, and compare everything; the pair is closed by the caller."""
    source, target = spread(rows)
    data = np.random.default_rng(rows).integers(1, 256, source.nbytes, dtype=np.uint8)
    landed = np.zeros(target.nbytes, np.uint8)
    expected = landed.copy()
    nest = compile_nest(source, target)
    nest.run(data, expected)
    ends = Pair.make(fake.infos(), depth=depth)
    for name, value in knobs.items():
        setattr(fake.knobs, name, value)
    posting = transfer(ends, nest, data, landed)

    assert np.array_equal(landed, expected)
    return posting, ends


def test_ten_thousand_requests_through_a_queue_of_sixteen(fake: Fake):
    posting, ends = move_rows(fake, 10_000, depth=16)

    assert posting.requests == fake.seen.executed == ends.a.queue.raw.retired == 10_000
    assert fake.seen.most_outstanding == 16
    ends.close()


@pytest.mark.parametrize("style", [0, 1, 2], ids=["errno", "minus one", "minus errno"])
@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EAGAIN])
@pytest.mark.parametrize("after", [0, 1, 5, 40, 63])
def test_a_chain_that_is_taken_in_part_goes_on_where_it_stopped(fake: Fake, style, error, after):
    knobs = {"refuse_in": after, "refuse_errno": error, "refuse_style": style}
    posting, ends = move_rows(fake, 200, **knobs)

    assert fake.knobs.refuse_in == -1, "nothing was refused"
    assert (
        posting.requests == fake.seen.executed == ends.a.queue.raw.posted == ends.a.queue.raw.retired == 200
    )
    assert ends.a.queue.raw.failed == 0
    ends.close()


@pytest.mark.parametrize("style", [0, 1, 2], ids=["errno", "minus one", "minus errno"])
def test_a_request_that_is_refused_for_good_is_an_error_and_those_before_it_end(fake: Fake, style):
    knobs = {"refuse_in": 7, "refuse_errno": errno.EINVAL, "refuse_style": style}
    source, target = spread(50)
    data, landed = np.ones(source.nbytes, np.uint8), np.zeros(target.nbytes, np.uint8)
    ends = Pair.make(fake.infos())
    for name, value in knobs.items():
        setattr(fake.knobs, name, value)
    with pytest.raises(PostError, match=r"Invalid argument.*errno 22"):
        transfer(ends, compile_nest(source, target), data, landed)
    ends.a.queue.to_error()
    drain(ends.a)

    assert fake.seen.executed == 7
    assert ends.a.queue.outstanding == 0, "those that nobody was told of are accounted for as well"
    assert ends.a.queue.raw.failed == 1, "the mark alone"
    ends.close()


@pytest.mark.parametrize("limit", [1 << 20, 1 << 30, 1 << 31])
@pytest.mark.parametrize("around", ["limit", "4 GiB"])
@pytest.mark.parametrize("by", [-1, 0, 1, 4])
def test_no_message_is_longer_than_the_device_takes(fake: Fake, limit, around, by):
    """Sizes alone: nothing of this exists in memory."""
    nbytes = (limit if around == "limit" else 1 << 32) + by
    line = Layout.parse("d", {"d": nbytes}, "int8")
    fake.knobs.max_message, fake.knobs.dry = limit, 1
    ends = Pair.make(fake.infos())
    posting = Posting(ends.a.queue, compile_nest(line, line), *both(nbytes))
    finish_posting(posting)

    assert fake.seen.most_bytes == min(limit, nbytes)
    assert (fake.seen.bytes, fake.seen.empty) == (nbytes, 0)
    assert posting.requests == fake.seen.executed == -(-nbytes // limit)
    ends.close()


def test_the_sum_of_a_list_stays_within_a_message(fake: Fake):
    """Runs that each fit, and together don't."""
    sizes = {"s": 64, "d": 300}
    rows = Layout.parse("s d", sizes, "int8", strides={"s": 512})
    packed = Layout.parse("s d", sizes, "int8")
    fake.knobs.max_message = 1000
    ends = Pair.make(fake.infos())
    data, landed = np.arange(rows.nbytes, dtype=np.uint64).astype(np.uint8), np.zeros(packed.nbytes, np.uint8)
    expected = landed.copy()
    compile_nest(rows, packed).run(data, expected)
    posting = transfer(ends, compile_nest(rows, packed), data, landed)

    assert np.array_equal(landed, expected)
    assert fake.seen.most_bytes == 900
    assert posting.requests == 22
    ends.close()


def test_what_a_posting_holds_does_not_depend_on_the_length(fake: Fake):
    ends = Pair.make(fake.infos())
    held = set()
    for tokens in (1 << 10, 1 << 15, 1 << 20):
        sizes = {"h": 8, "s": tokens, "d": 128}
        nest = compile_nest(Layout.preset("row-major", sizes), Layout.preset("tiles-16x16", sizes))
        held.add(Posting(ends.a.queue, nest, *both(nest.source.nbytes)).held)

    assert len(held) == 1
    assert held.pop() < 1 << 16
    ends.close()


def test_requests_are_cut_where_the_list_is_full_and_not_at_tiles(fake: Fake):
    sizes = {"h": 2, "s": 160, "d": 128}
    nest = compile_nest(Layout.preset("row-major", sizes), Layout.preset("tiles-16x16", sizes))
    data, landed = np.zeros(nest.source.nbytes, np.uint8), np.zeros(nest.destination.nbytes, np.uint8)
    for max_sge in (1, 7, 30, 32):
        fake.reset()
        ends = Pair.make(fake.infos(), max_sge=max_sge)
        posting = transfer(ends, nest, data, landed)
        predicted = gather_writes(nest, RequestLimits(max_sge=max_sge))

        assert posting.requests == -(-posting.pieces // max_sge)
        assert 0.9 * predicted.work_requests <= posting.requests <= predicted.work_requests
        assert fake.seen.most_pieces == max_sge
        ends.close()


def test_memory_that_no_key_opens_is_an_error_before_it_is_touched(fake: Fake):
    source, target = spread(64)
    ends = Pair.make(fake.infos())
    data, landed = np.ones(source.nbytes, np.uint8), np.zeros(target.nbytes, np.uint8)
    with ends.a.register(data) as here, ends.b.register(landed) as there:
        (whole,) = there.remote_ranges
        half = RemoteRange(0, target.nbytes // 2, whole.address, whole.rkey)
        local, remote = LocalMemory(here.nbytes, here.local_ranges), RemoteMemory(there.nbytes, (half,))
        posting = Posting(ends.a.queue, compile_nest(source, target), local, remote)
        with pytest.raises(PostError, match="no key opens"):
            finish_posting(posting)
        drain(ends.a)

    assert landed[: target.nbytes // 2].any()
    assert not landed[target.nbytes // 2 :].any()
    ends.close()


def test_a_nest_larger_than_its_memory_is_refused_when_it_is_made(fake: Fake):
    source, target = spread(64)
    ends = Pair.make(fake.infos())
    with pytest.raises(PostError, match="more than its buffer holds"):
        Posting(ends.a.queue, compile_nest(source, target), *both(100))
    ends.close()


def test_keys_are_never_shown():
    local, remote = both(4096, key=74565)

    assert "74565" not in f"{local!r} {local.ranges[0]} {remote!r} {remote.ranges[0]}"
