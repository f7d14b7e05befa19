"""Frames and descriptors: any cut of the bytes gives the same messages, and nothing leaks."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.errors import FrameError
from hawk_agent.protocol import framing


@given(messages=st.lists(st.binary(max_size=300), max_size=6), cuts=st.lists(st.integers(1, 50), min_size=1))
def test_messages_survive_any_cut(messages: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(framing.encode_frame(message) for message in messages)
    decoder = framing.Decoder()
    seen: list[bytes] = []
    at = turn = 0
    while at < len(stream):
        step = cuts[turn % len(cuts)]
        seen += decoder.feed(stream[at : at + step])
        at, turn = at + step, turn + 1

    assert seen == messages
    assert not decoder.pending


@given(junk=st.binary(max_size=2000))
def test_junk_is_an_error_or_waits_within_the_limit(junk: bytes) -> None:
    decoder = framing.Decoder(limit=64)
    with contextlib.suppress(FrameError):
        assert all(len(message) <= 64 for message in decoder.feed(junk))


def test_a_message_above_the_limit_is_refused_by_its_writer_too() -> None:
    with pytest.raises(FrameError, match="above the limit"):
        framing.encode_frame(bytes(framing.MAX_FRAME + 1))


def _open() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_descriptors_come_with_their_message_and_are_closed_when_nobody_claims_them() -> None:
    left, right = socket.socketpair()
    before = _open()
    with left, right:
        events = [os.eventfd(0) for _ in range(3)]
        framing.send_frame(left, b"hello", events)
        framing.close_descriptors(events)
        data, received = framing.receive_frame(right)
        descriptors = framing.Descriptors()
        descriptors.add(received)
        (taken,) = descriptors.take(1)
        os.close(taken)
        with pytest.raises(FrameError, match="claims 3 descriptors, 2 came"):
            descriptors.take(3)
        descriptors.close()

        assert framing.Decoder().feed(data) == [b"hello"]
        assert _open() == before
