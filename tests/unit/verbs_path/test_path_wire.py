"""A peer's queue pairs and keys are checked before anything is made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.errors import TransportError
from hawk_agent.protocol import peer_pb2
from hawk_agent.transports.verbs import wire
from hawk_agent.transports.verbs.queue_pair import EndpointInfo
from hawk_agent.transports.verbs.registration import RemoteRange

endpoints = st.builds(
    EndpointInfo,
    st.integers(1, 2**24 - 1),
    st.integers(0, 2**24 - 1),
    st.binary(min_size=16, max_size=16),
    st.sampled_from([0, 1024, 4096]),
    st.integers(0, 2**16 - 1),
    st.integers(1, 16),
)


@given(endpoints, st.lists(st.tuples(st.integers(1, 2**40), st.integers(0, 2**32 - 1)), max_size=5))
def test_ends_and_keys_arrive_as_they_were_sent(end: EndpointInfo, sizes: list[tuple[int, int]]) -> None:
    opened, at = [], 0
    for nbytes, key in sizes:
        opened.append(RemoteRange(at, nbytes, 2**47 + at, key))
        at += nbytes
    told = peer_pb2.Rail.FromString(wire.to_rail(end, reversed(opened)).SerializeToString())

    assert wire.endpoint(told) == end
    assert wire.remote_ranges(told) == tuple(opened)


@pytest.mark.parametrize(
    ("number", "psn", "gid"),
    [(0, 0, bytes(16)), (1 << 24, 0, bytes(16)), (1, 1 << 24, bytes(16)), (1, 0, bytes(4)), (1, 0, b"")],
)
def test_what_can_be_no_queue_pair_is_refused(number: int, psn: int, gid: bytes) -> None:
    rail = peer_pb2.Rail(queue_pair=peer_pb2.QueuePair(number=number, psn=psn, gid=gid))

    with pytest.raises(TransportError, match=f"number {number}, first packet {psn} and a GID of {len(gid)}"):
        wire.endpoint(rail)


def test_keys_that_open_a_byte_twice_are_refused_and_not_shown() -> None:
    rail = wire.to_rail(
        EndpointInfo(1, 0, bytes(16), 1024),
        [RemoteRange(0, 100, 0, 0xDEADBEEF), RemoteRange(99, 1, 0, 0xDEADBEEF)],
    )

    with pytest.raises(TransportError, match="from 0 and from 99 twice") as caught:
        wire.remote_ranges(rail)
    assert str(0xDEADBEEF) not in str(caught.value)
