"""The messages by which two agents exchange their queue pairs and rkeys."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hawk_agent.errors import TransportError
from hawk_agent.protocol import peer_pb2
from hawk_agent.transports.verbs.queue_pair import EndpointInfo
from hawk_agent.transports.verbs.registration import RemoteRange

if TYPE_CHECKING:
    from collections.abc import Iterable

_GID_BYTES = 16
_NUMBERS = 1 << 24
"""Queue pair and packet numbers have 24 bits."""


def to_rail(end: EndpointInfo, opened: Iterable[RemoteRange] = ()) -> peer_pb2.Rail:
    """One end's rail with what it opens; the message holds secrets."""
    return peer_pb2.Rail(
        queue_pair=peer_pb2.QueuePair(
            number=end.qpn, psn=end.psn, gid=end.gid, mtu=end.mtu, lid=end.lid, reads=end.reads
        ),
        ranges=[
            peer_pb2.RemoteRange(offset=e.offset, bytes=e.nbytes, address=e.address, rkey=e.rkey)
            for e in opened
        ],
    )


def endpoint(rail: peer_pb2.Rail) -> EndpointInfo:
    """The peer's end. TransportError when it can't be one."""
    told = rail.queue_pair
    if len(told.gid) != _GID_BYTES or not 0 < told.number < _NUMBERS or told.psn >= _NUMBERS:
        raise TransportError(
            f"the peer's queue pair has number {told.number}, first packet {told.psn} and a GID of "
            f"{len(told.gid)} bytes; run one version of the agent on both nodes"
        )
    return EndpointInfo(told.number, told.psn, told.gid, told.mtu, told.lid, told.reads or 1)


def remote_ranges(rail: peer_pb2.Rail) -> tuple[RemoteRange, ...]:
    """The ranges that the peer opened, in the order of their offsets. TransportError for ranges that
    overlap."""
    found = sorted(
        (RemoteRange(r.offset, r.bytes, r.address, r.rkey) for r in rail.ranges), key=lambda one: one.offset
    )
    for one, following in pairwise(found):
        if one.offset + one.nbytes > following.offset:
            raise TransportError(
                f"the peer's rkeys open bytes from {one.offset} and from {following.offset} twice"
            )
    return tuple(found)
