"""An ended lease takes no late write, and a lease opens no byte that isn't its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hawk_agent.layouts import Layout
from hawk_agent.transfer import chunks as chunking
from hawk_agent.transports.verbs.errors import CompletionError, PeerUnreachableError, RemoteAccessError
from hawk_agent.transports.verbs.fence import FenceKind
from hawk_agent.transports.verbs.posting import LocalMemory, RemoteMemory
from hawk_agent.transports.verbs.queue_pair import Timeouts
from hawk_agent.transports.verbs.registration import DESTINATION, GATHERED, RemoteRange
from hawk_agent.transports.verbs.strategy import VerbsStrategy

from . import path

if TYPE_CHECKING:
    from .conftest import Port

ROWS = Layout.parse("l c h s d", {"l": 2, "c": 2, "h": 2, "s": 32, "d": 32})
BRIEF = Timeouts(ack=16, retries=2)


@pytest.mark.parametrize(
    ("fence", "error"), [(FenceKind.WINDOW, RemoteAccessError), (FenceKind.QUEUE_PAIR, PeerUnreachableError)]
)
async def test_a_late_write_is_refused_and_changes_nothing(
    rxa: Port, rxb: Port, fence: FenceKind, error: type[CompletionError]
) -> None:
    """The sender still has its key and a queue pair that works; the receiver has ended the lease."""
    moved = path.translation(ROWS, ROWS)
    with path.region(ROWS, seed=1) as source, path.region(ROWS) as destination:
        async with path.pair([rxa.device], [rxb.device], fence=fence, timeouts=BRIEF) as pair:
            sending, receiving = await pair.open(moved, source, destination)
            first, second = chunking.plan_chunks(2, 1)
            await path.both(sending, receiving, first)
            before = bytes(destination.memory)
            await receiving.lanes[0].revoke()
            with pytest.raises(Exception, match="rail") as caught:
                await sending.send(second)
            await receiving.stop()
            await sending.close()

            assert isinstance(caught.value.__cause__, error)
            assert bytes(destination.memory) == before
            failures = pair.metrics[0].registry.get_sample_value(
                "hawk_agent_rail_failures_total", {"rail": f"{rxa.device}:1", "reason": error.reason}
            )
            assert failures == 1


POOL = Layout.parse("[s1] l c h s0 d", {"l": 2, "c": 2, "h": 2, "s": 128, "d": 32, "s0": 16})
PAGES = path.translation(ROWS, POOL.resize(s=32), (), (5, 2))
PAGE = POOL.nbytes // 8


async def test_windows_are_told_for_the_leases_pages_alone(rxa: Port, rxb: Port) -> None:
    with path.region(ROWS, seed=1) as source, path.region(POOL) as destination:
        async with path.pair([rxa.device], [rxb.device], timeouts=BRIEF) as pair:
            sending, receiving = await pair.move(PAGES, source, destination)
            told = sending.remote[sending.lanes[0]].ranges

            assert receiving.lanes[0].fence is FenceKind.WINDOW
            assert [(key.offset // PAGE, key.nbytes // PAGE) for key in told] == [(2, 1), (5, 1)]
            assert bytes(destination.memory) == path.expected(PAGES, source, destination.nbytes)


async def test_a_windows_key_opens_no_page_beside_it(rxa: Port, rxb: Port) -> None:
    if path.software(rxb.device):
        pytest.skip("SoftRoCE looks at a window's registration and not at its range")
    flat = path.translation(*[Layout.parse("d", {"d": 64}, "int8")] * 2)
    with path.region(ROWS, seed=1) as source, path.region(POOL) as destination:
        async with path.pair([rxa.device], [rxb.device], timeouts=BRIEF) as pair:
            sending, receiving = await pair.open(PAGES, source, destination)
            lane = sending.lanes[0]
            (key, _) = sending.remote[lane].ranges
            beside = RemoteRange(0, 64, key.address + PAGE, key.rkey)
            local = LocalMemory(source.nbytes, lane.port.registered(source, GATHERED).local_ranges)
            with pytest.raises(RemoteAccessError):
                await lane.post(flat.nest, local, RemoteMemory(64, (beside,)))
            await receiving.stop()
            await sending.close()

            assert bytes(destination.memory) == bytes([path.SENTINEL]) * destination.nbytes


@pytest.mark.parametrize("way", [VerbsStrategy.SCATTER, VerbsStrategy.TILE_LAST])
async def test_a_source_that_was_given_back_is_not_read_any_more(
    rxa: Port, rxb: Port, way: VerbsStrategy
) -> None:
    moved = path.translation(ROWS, ROWS)
    with path.region(ROWS, seed=1) as source, path.region(ROWS) as destination:
        async with path.pair([rxa.device], [rxb.device], strategy=way, timeouts=BRIEF) as pair:
            sending, receiving = await pair.open(moved, source, destination)
            await sending.close()
            with pytest.raises(Exception, match="rail") as caught:
                await receiving.receive(chunking.plan_chunks(2, 0)[0])
            await receiving.stop()

            assert isinstance(caught.value.__cause__, PeerUnreachableError)
            assert bytes(destination.memory) == bytes([path.SENTINEL]) * destination.nbytes


async def test_a_key_without_remote_access_opens_nothing_and_a_new_registration_has_a_new_key(
    rxa: Port, rxb: Port
) -> None:
    moved = path.translation(ROWS, ROWS)
    with path.region(ROWS, seed=1) as source, path.region(ROWS) as destination:
        async with path.pair([rxa.device], [rxb.device], fence=FenceKind.QUEUE_PAIR) as pair:
            port = pair.receiver.ports[0]
            offer, sending = pair.sender.offer(moved, source)
            answer, receiving = await pair.receiver.accept(offer, moved, destination, "peer/1")
            before = {told.rkey for told in answer.verbs.rails[0].ranges}
            port.forget(source)
            gathered = port.registered(source, GATHERED).remote_ranges[0]
            for told in answer.verbs.rails[0].ranges:
                told.rkey = gathered.rkey
            await sending.connect(answer)
            with pytest.raises(Exception, match="rail") as caught:
                await sending.send(chunking.plan_chunks(2, 0)[0])
            await receiving.stop()
            await sending.close()
            port.forget(destination)
            after = {key.rkey for key in port.registered(destination, DESTINATION).remote_ranges}

            assert isinstance(caught.value.__cause__, RemoteAccessError)
            assert not before & after
