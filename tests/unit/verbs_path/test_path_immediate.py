"""Immediates: no two that differ look alike, and a late one matches nothing that runs."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.errors import LimitReachedError, TransportError
from hawk_agent.transports.verbs.immediate import CHUNKS, GENERATIONS, SHARES, SLOTS, Immediate, Slots

immediates = st.builds(
    Immediate,
    st.integers(0, SLOTS - 1),
    st.integers(0, GENERATIONS - 1),
    st.integers(0, CHUNKS - 1),
    st.integers(0, SHARES - 1),
)


@given(immediates)
def test_an_immediate_survives_its_32_bits(immediate: Immediate) -> None:
    assert Immediate.unpack(immediate.pack()) == immediate


@given(st.integers(0, 2**32 - 1))
def test_every_32_bits_are_one_immediate(value: int) -> None:
    assert Immediate.unpack(value).pack() == value


def test_the_order_on_the_wire_is_slot_first() -> None:
    immediate = Immediate(slot=0xA1, generation=0xB2, chunk=0xC3D, share=0xE)

    assert struct.pack(">I", immediate.pack()) == bytes.fromhex("a1b2c3de")


@pytest.mark.parametrize(
    ("immediate", "field"),
    [
        (Immediate(256, 0, 0, 0), "slot 256"),
        (Immediate(0, -1, 0, 0), "generation -1"),
        (Immediate(0, 0, 4096, 0), "chunk 4096"),
        (Immediate(0, 0, 0, 16), "share 16"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(immediate: Immediate, field: str) -> None:
    with pytest.raises(TransportError, match=field):
        immediate.pack()


@given(st.lists(st.booleans(), max_size=200))
def test_no_two_transfers_under_way_share_a_slot_and_a_late_one_matches_none(takes: list[bool]) -> None:
    slots = Slots(4)
    running: set[tuple[int, int]] = set()
    ended: set[tuple[int, int]] = set()
    for take in takes:
        if take and len(running) < 4:
            fresh = slots.take()
            assert fresh[0] not in {slot for slot, _ in running}
            assert fresh not in ended
            running.add(fresh)
        elif running:
            over = running.pop()
            ended.add(over)
            slots.give(over[0])


def test_too_many_transfers_are_refused_with_the_bound() -> None:
    slots = Slots(2)
    slots.take()
    slots.take()

    with pytest.raises(LimitReachedError, match="2 transfers"):
        slots.take()
