"""The receiver's table: blocks, slots and the memory's users, in whatever order leases come and go."""

from __future__ import annotations

import asyncio
import mmap
import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.errors import BlocksBusyError, LimitReachedError, RegionError, UnknownLeaseError
from hawk_agent.layouts import Layout
from hawk_agent.memory.region import CacheRegion
from hawk_agent.protocol import common_pb2 as pb
from hawk_agent.streaming import lease as leases
from hawk_agent.streaming import report as reports
from hawk_agent.streaming import table as lease_table
from hawk_agent.streaming.table import MAX_ENDED, MAX_LEASES, SLOT_BITS, HeldLease, LeaseTable
from hawk_agent.transfer.chunks import ChunkProgress, plan_chunks
from hawk_agent.transfer.outcome import TransferOutcome
from hawk_agent.transfer.translation import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGES = Layout.parse("[s1] s0 d", {"s": 64, "s0": 16, "d": 4}, "float16")
OWNERS = ("one engine", "another")


def make_region() -> CacheRegion:
    return CacheRegion(
        "kv", "team/pool", "decode", "0", PAGES, mmap.mmap(-1, 4096), os.memfd_create("kv"), "kv-1"
    )


@pytest.fixture
def region() -> Iterator[CacheRegion]:
    made = make_region()
    yield made
    made.retire()


def grant(
    table: LeaseTable, region: CacheRegion, *blocks: int, owner: object = OWNERS[0], empty: bool = False
) -> HeldLease:
    return table.grant(
        region, Selection(PAGES, blocks), leases.LeaseTerms(grant=7),
        request="a request", verify=pb.VERIFY_ALWAYS, owner=owner, empty=empty,
    )  # fmt: skip


def layered(region: CacheRegion, table: LeaseTable) -> HeldLease:
    """A lease for three layers in two chunks, of which nothing is there yet."""
    rows = Layout.parse("l s d", {"l": 3, "s": 16, "d": 4}, "float16")
    held = table.grant(
        region, Selection(rows, ()), leases.LeaseTerms(),
        request="", verify=pb.VERIFY_ALWAYS, owner=OWNERS[0], empty=True,
    )  # fmt: skip
    held.progress, held.transport, held.began_at = ChunkProgress(plan_chunks(3, 2)), "tcp", 10.0
    return held


def retire(table: LeaseTable, held: HeldLease) -> None:
    held.lease = leases.end(held.lease, TransferOutcome.EXPIRED)
    table.retire(held)


def assert_known(table: LeaseTable, ended: HeldLease) -> None:
    """An ended lease answers late questions as itself, with its token and its outcome."""
    known = table.get(ended.id)
    assert (known.id, known.token, known.owner) == (ended.id, ended.token, ended.owner)
    assert known.lease.outcome is TransferOutcome.EXPIRED


STEPS = st.one_of(
    st.tuples(st.just("grant"), st.sets(st.integers(0, 3), min_size=1), st.sampled_from(OWNERS)),
    st.tuples(st.just("retire"), st.integers(0, 9), st.none()),
)


@given(steps=st.lists(STEPS, max_size=30))
def test_blocks_have_one_holder_and_nothing_is_lost(steps: Sequence[tuple[str, object, object]]) -> None:
    region, table = make_region(), LeaseTable()
    live: list[tuple[HeldLease, set[int]]] = []
    seen: set[int] = set()
    for what, argument, owner in steps:
        if what == "retire":
            if live:
                held, _ = live.pop(argument % len(live))
                retire(table, held)
                assert_known(table, held)
        elif any(blocks & argument for _, blocks in live):
            with pytest.raises(BlocksBusyError):
                grant(table, region, *argument, owner=owner)
        else:
            held = grant(table, region, *argument, owner=owner)
            assert held.id not in seen
            seen.add(held.id)
            live.append((held, argument))
        assert list(table.live()) == sorted((held for held, _ in live), key=[*table.live()].index)
        assert len(table) == region.users == len(live)
        assert len(region.blocks) == sum(len(blocks) for _, blocks in live)
        for name in OWNERS:
            assert set(map(id, table.owned_by(name))) == {id(h) for h, _ in live if h.owner is name}
        slots = [held.slot for held, _ in live]
        assert len(set(slots)) == len(slots)
        assert all(slot < 4 for slot in slots), "no more slots than leases were ever live at once"
    region.retire()


def test_a_lease_holds_what_it_was_asked_for(region: CacheRegion) -> None:
    table = LeaseTable(clock=lambda: 100.0)
    held = grant(table, region, 1, 2)

    assert (held.region, held.selection, held.owner) == (region, Selection(PAGES, (1, 2)), OWNERS[0])
    assert (held.request, held.verify, held.empty) == ("a request", pb.VERIFY_ALWAYS, False)
    assert held.lease.state is leases.LeaseState.GRANTED
    assert held.lease.deadline == 107.0
    assert len(held.token) == 16
    assert held.began_at == 0.0
    assert held.transport == ""
    assert held.id == held.generation << SLOT_BITS | held.slot
    assert held.slot < 1 << SLOT_BITS
    assert table.get(held.id) is held


def test_tokens_are_never_alike(region: CacheRegion) -> None:
    table = LeaseTable()

    assert grant(table, region, 0).token != grant(table, region, 1).token


def test_the_clock_is_monotonic_unless_told() -> None:
    assert LeaseTable().clock is time.monotonic


def test_a_slot_is_used_again_under_another_number(region: CacheRegion) -> None:
    table = LeaseTable()
    first = grant(table, region, 0)
    retire(table, first)
    second = grant(table, region, 0)

    assert second.slot == first.slot
    assert second.generation == first.generation + 1
    assert second.id != first.id


def test_an_empty_lease_holds_no_blocks(region: CacheRegion) -> None:
    table = LeaseTable()
    grant(table, region, 0)
    held = grant(table, region, 0, empty=True)

    assert held.empty
    assert len(region.blocks) == 1
    assert region.users == 2


def test_a_region_that_is_gone_costs_no_slot(region: CacheRegion) -> None:
    table, gone = LeaseTable(), make_region()
    gone.retire()
    with pytest.raises(RegionError, match="is gone"):
        grant(table, gone, 0)

    assert len(table) == 0
    assert [grant(table, region, block).slot for block in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("used_before", [False, True])
def test_a_refusal_changes_nothing(region: CacheRegion, used_before: bool) -> None:
    table = LeaseTable()
    if used_before:
        retire(table, grant(table, region, 1))
        first = grant(table, region, 0)
        second = grant(table, region, 1)
        retire(table, second)
    else:
        first = grant(table, region, 0)
    with pytest.raises(BlocksBusyError):
        grant(table, region, 1, 0)

    assert list(table.live()) == [first]
    assert region.users == 1
    assert [grant(table, region, block).slot for block in (1, 2)] == [1, 2]


def test_a_lease_retires_once_and_only_after_access_has_ended(region: CacheRegion) -> None:
    table = LeaseTable()
    held = grant(table, region, 0)
    held.lease = leases.begin(held.lease, 0.0)
    with pytest.raises(AssertionError, match="after remote access has ended"):
        table.retire(held)
    held.lease = leases.access_ended(leases.end(held.lease, TransferOutcome.FENCED))
    table.retire(held)
    table.retire(held)

    assert region.users == 0
    assert [grant(table, region, block).slot for block in (0, 1)] == [0, 1]


def test_leases_have_a_limit_that_is_said(region: CacheRegion) -> None:
    table = LeaseTable()
    held = [grant(table, region, block) for block in range(MAX_LEASES)]
    with pytest.raises(LimitReachedError, match=f"{MAX_LEASES} leases"):
        grant(table, region, MAX_LEASES)
    retire(table, held[7])

    assert grant(table, region, MAX_LEASES).slot == held[7].slot


def test_the_last_leases_that_ended_stay_known(region: CacheRegion) -> None:
    table = LeaseTable()
    ended = []
    for _ in range(MAX_ENDED + 1):
        ended.append(grant(table, region, 0))
        retire(table, ended[-1])
    with pytest.raises(UnknownLeaseError, match=f"lease {ended[0].id} isn't known"):
        table.get(ended[0].id)

    for held in ended[1:]:
        assert_known(table, held)


async def test_who_waits_for_a_lease_sees_the_state_that_it_waits_for(region: CacheRegion) -> None:
    held = grant(LeaseTable(), region, 0)
    waiting = [asyncio.create_task(held.until(lambda: held.lease.state.ended)) for _ in range(2)]
    await asyncio.sleep(0)
    held.update(leases.begin(held.lease, 0.0))
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    held.update(leases.end(held.lease, TransferOutcome.FENCED))

    await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert held.lease.state is leases.LeaseState.FENCED
    await asyncio.wait_for(held.until(lambda: True), 60)


def test_a_lease_reports_what_has_arrived(region: CacheRegion) -> None:
    table = LeaseTable(clock=lambda: 12.5)
    held = layered(region, table)
    assert held.progress is not None
    assert (held.layers, held.present) == (3, 0)
    held.progress.add(1, 64, 11.0, 0.5, 5)
    assert held.present == 0, "the first chunk is missing"
    held.progress.add(0, 128, 12.0, 0.5, 7)
    assert held.present == 3
    held.lease = leases.end(held.lease, TransferOutcome.FENCED, "its peer was lost")
    report = held.report(13.0)

    assert (report.outcome, report.message) == (TransferOutcome.FENCED, "its peer was lost")
    assert (report.nbytes, report.seconds, report.digest, report.transport) == (192, 3.0, 12, "tcp")
    assert [arrival.chunk.index for arrival in report.chunks] == [0, 1]
    assert table.report(held) == held.report(12.5).to_wire(), "as long as it isn't retired, as of now"
    table.retire(held)
    assert table.report(table.get(held.id)) == held.report(12.5).to_wire()


def test_a_lease_that_nobody_began_reports_nothing_moved(region: CacheRegion) -> None:
    table = LeaseTable()
    held = grant(table, region, 0)
    assert held.present == 0
    retire(table, held)
    report = table.report(table.get(held.id))

    assert (report.bytes, report.seconds, report.digest, report.transport) == (0, 0.0, b"", "")
    assert report.outcome == TransferOutcome.EXPIRED.wire
    assert report.message == TransferOutcome.EXPIRED.meaning


@pytest.mark.parametrize("success", [True, False])
def test_an_ended_lease_has_all_its_layers_or_none(region: CacheRegion, success: bool) -> None:
    table = LeaseTable(clock=lambda: 0.0)
    held = layered(region, table)
    held.lease = leases.begin(held.lease, 0.0)
    if success:
        held.lease = leases.acknowledge(leases.finish(held.lease, 0.0))
    else:
        held.lease = leases.access_ended(leases.end(held.lease, TransferOutcome.PEER_LOST))
    table.retire(held)
    known = table.get(held.id)

    assert (known.generation, known.layers) == (held.generation, 3)
    assert known.present == (3 if success else 0)


def test_outcomes_outlive_the_leases_and_the_oldest_goes_first(
    region: CacheRegion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_table, "MAX_OUTCOMES", 3)
    monkeypatch.setattr(lease_table, "MAX_ENDED", 1)
    table = LeaseTable()
    ended = []
    for outcome in (
        TransferOutcome.FENCED,
        TransferOutcome.PEER_LOST,
        TransferOutcome.FENCED,
        TransferOutcome.REFUSED,
    ):
        held = grant(table, region, 0)
        held.lease = leases.end(held.lease, outcome)
        table.retire(held)
        ended.append(held.id)

    assert [table.outcome(identity) for identity in ended] == [
        TransferOutcome.EXPIRED,
        TransferOutcome.PEER_LOST,
        TransferOutcome.FENCED,
        TransferOutcome.REFUSED,
    ]


def test_a_report_that_is_gone_leaves_outcome_and_message(
    region: CacheRegion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MAX_REPORTS", 0)
    table = LeaseTable()
    held = grant(table, region, 0)
    held.lease = leases.end(held.lease, TransferOutcome.EXPIRED, "too late")
    table.retire(held)
    report = table.report(table.get(held.id))

    assert (report.outcome, report.message) == (TransferOutcome.EXPIRED.wire, "too late")
