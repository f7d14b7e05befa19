"""An ended lease takes no late write, and a lease opens no byte that isn't its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hawk_agent.layouts import Layout
from hawk_agent.memory.registration import GATHERED, Extent
from hawk_agent.streaming import chunks as chunking
from hawk_agent.transports.verbs.errors import CompletionError, PeerUnreachableError, RemoteAccessError
from hawk_agent.transports.verbs.fence import Kind
from hawk_agent.transports.verbs.posting import Local, Remote
from hawk_agent.transports.verbs.queue_pair import Timeouts
from hawk_agent.transports.verbs.strategy import Way

from . import path

if TYPE_CHECKING:
    from .conftest import Port

ROWS = Layout.parse("l c h s d", {"l": 2, "c": 2, "h": 2, "s": 32, "d": 32})
BRIEF = Timeouts(ack=16, retries=2)
IMMEDIATE = 0


@pytest.mark.parametrize(
    ("fence", "error"), [(Kind.WINDOW, RemoteAccessError), (Kind.QUEUE_PAIR, PeerUnreachableError)]
)
async def test_a_late_write_is_refused_and_changes_nothing(
    rxa: Port, rxb: Port, fence: Kind, error: type[CompletionError]
) -> None:
    """The sender still has its key and a queue pair that works; the receiver has ended the lease."""
    moved = path.translation(ROWS, ROWS)
    with path.region(ROWS, seed=1) as source, path.region(ROWS) as destination:
        async with path.pair([rxa.device], [rxb.device], fence=fence, timeouts=BRIEF) as pair:
            sending, receiving = await pair.open(moved, source, destination)
            first, second = chunking.plan(2, 1)
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


async def test_windows_open_the_leases_pages_alone(rxa: Port, rxb: Port) -> None:
    pool = Layout.parse("[s1] l c h s0 d", {"l": 2, "c": 2, "h": 2, "s": 128, "d": 32, "s0": 16})
    request = pool.resize(s=32)
    moved = path.translation(ROWS, request, (), (5, 2))
    page = pool.nbytes // 8
    with path.region(ROWS, seed=1) as source, path.region(pool) as destination:
        async with path.pair([rxa.device], [rxb.device], timeouts=BRIEF) as pair:
            sending, receiving = await pair.open(moved, source, destination)
            lane = sending.lanes[0]
            (whole,) = chunking.plan(2, 0)
            await path.both(sending, receiving, whole)
            assert lane.port.device.limits.max_mw > 0
            assert receiving.lanes[0].fence is Kind.WINDOW
            told = sending.remote[lane].keys
            assert [(key.offset // page, key.nbytes // page) for key in told] == [(2, 1), (5, 1)]
            after = bytes(destination.memory)
            # The same key, one page further than it opens.
            stolen = Extent(0, pool.nbytes, told[0].address - told[0].offset, told[0].key)
            flat = path.translation(*[Layout.parse("d", {"d": 64}, "int8")] * 2)
            keys = lane.port.registered(source, GATHERED).local_keys
            with pytest.raises(RemoteAccessError):
                await lane.post(
                    flat.nest,
                    Local(source.nbytes, keys),
                    Remote(64, (Extent(0, 64, stolen.address + 3 * page, stolen.key),)),
                    immediate=IMMEDIATE,
                )
            await receiving.stop()
            await sending.close()

            assert bytes(destination.memory) == after == path.expected(moved, source, destination.nbytes)


@pytest.mark.parametrize("way", [Way.SCATTER, Way.TILE_LAST])
async def test_a_source_that_was_given_back_is_not_read_any_more(rxa: Port, rxb: Port, way: Way) -> None:
    moved = path.translation(ROWS, ROWS)
    with path.region(ROWS, seed=1) as source, path.region(ROWS) as destination:
        async with path.pair([rxa.device], [rxb.device], strategy=way, timeouts=BRIEF) as pair:
            sending, receiving = await pair.open(moved, source, destination)
            await sending.close()
            with pytest.raises(Exception, match="rail") as caught:
                await receiving.receive(chunking.plan(2, 0)[0])
            await receiving.stop()

            assert isinstance(caught.value.__cause__, PeerUnreachableError)
            assert bytes(destination.memory) == bytes([path.SENTINEL]) * destination.nbytes


async def test_each_registration_opens_as_little_as_its_use_needs_and_has_keys_of_its_own(
    rxa: Port, rxb: Port
) -> None:
    moved = path.translation(ROWS, ROWS)
    with path.region(ROWS, seed=1) as source, path.region(ROWS) as destination:
        async with path.pair([rxa.device], [rxb.device], fence=Kind.QUEUE_PAIR) as pair:
            await pair.move(moved, source, destination)
            here, there = pair.sender.ports[0], pair.receiver.ports[0]
            gathered = here.registered(source, GATHERED)
            offer, sending = pair.sender.offer(moved, source)
            answer, receiving = await pair.receiver.accept(offer, moved, destination, "peer/1")
            # The key of a source in place of the destination's: it opens nothing to a peer.
            for told in answer.verbs.rails[0].ranges:
                told.rkey = there.registered(source, GATHERED).remote_keys[0].key
            await sending.connect(answer)
            with pytest.raises(Exception, match="rail") as caught:
                await sending.send(chunking.plan(2, 0)[0])
            await receiving.stop()
            await sending.close()

            assert isinstance(caught.value.__cause__, RemoteAccessError)
            assert gathered.remote_keys[0].key != there.registered(source, GATHERED).remote_keys[0].key
