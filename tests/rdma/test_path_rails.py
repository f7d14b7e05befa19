"""Two rails: both carry, and where one fails the other takes over, whoever noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hawk_agent.layouts import Layout
from hawk_agent.transfer import chunks as chunking
from hawk_agent.transports.verbs.errors import QueuePairStateError
from hawk_agent.transports.verbs.queue_pair import QueuePair, Timeouts
from hawk_agent.transports.verbs.rails import RailsExhaustedError
from hawk_agent.transports.verbs.strategy import VerbsStrategy

from . import path

if TYPE_CHECKING:
    from hawk_agent.transports.verbs.ends import VerbsDestination, VerbsSource

    from .conftest import Port

GEOMETRY = {"l": 4, "c": 2, "h": 2, "s": 48, "d": 32}
ROWS = Layout.parse("l c h s d", GEOMETRY)
TILES = Layout.parse("l c h s1 d1 s0 d0", GEOMETRY | {"s0": 16, "d0": 16})
BRIEF = Timeouts(ack=16, retries=2)
WAYS = [VerbsStrategy.GATHER, VerbsStrategy.TILE_FIRST, VerbsStrategy.SCATTER]


def posted(pair: path.Pair, way: VerbsStrategy, port: Port) -> float:
    counts = pair.metrics[1 if way.pulled else 0].registry
    labels = {"rail": f"{port.device}:1", "state": "posted"}
    return counts.get_sample_value("hawk_agent_verbs_requests_total", labels) or 0


@pytest.mark.parametrize("way", WAYS)
async def test_both_rails_carry(rxa: Port, rxb: Port, way: VerbsStrategy) -> None:
    moved = path.translation(ROWS, TILES)
    with path.region(ROWS, seed=1) as source, path.region(TILES, spare=512) as destination:
        async with path.pair([rxa.device, rxb.device], [rxb.device, rxa.device], strategy=way) as pair:
            await pair.move(moved, source, destination, chunk_layers=2)

            assert bytes(destination.memory) == path.expected(moved, source, destination.nbytes)
            assert min(posted(pair, way, rxa), posted(pair, way, rxb)) > 0


@pytest.mark.parametrize("at", ["sender", "receiver"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_failed_rails_work_goes_over_the_other(
    rxa: Port, rxb: Port, way: VerbsStrategy, at: str
) -> None:
    moved = path.translation(ROWS, TILES)
    with path.region(ROWS, seed=1) as source, path.region(TILES, spare=512) as destination:
        async with path.pair(
            [rxa.device, rxb.device], [rxb.device, rxa.device], strategy=way, timeouts=BRIEF
        ) as pair:
            sending, receiving = await pair.open(moved, source, destination)
            plan = chunking.plan_chunks(4, 1)
            await path.both(sending, receiving, plan[0])
            end: VerbsSource | VerbsDestination = sending if at == "sender" else receiving
            end.lanes[1].queue.to_error()
            for chunk in plan[1:]:
                await path.both(sending, receiving, chunk)
            await receiving.stop()
            await sending.close()

            assert bytes(destination.memory) == path.expected(moved, source, destination.nbytes)


@pytest.mark.parametrize("way", [VerbsStrategy.GATHER, VerbsStrategy.SCATTER])
async def test_when_every_rail_has_failed_the_transfer_fails_with_the_last_reason(
    rxa: Port, rxb: Port, way: VerbsStrategy
) -> None:
    moved = path.translation(ROWS, TILES)
    with path.region(ROWS, seed=1) as source, path.region(TILES) as destination:
        async with path.pair(
            [rxa.device, rxb.device], [rxb.device, rxa.device], strategy=way, timeouts=BRIEF
        ) as pair:
            sending, receiving = await pair.open(moved, source, destination)
            for lane in receiving.lanes:
                lane.queue.to_error()
            with pytest.raises(RailsExhaustedError, match="the last one: QP"):
                await path.both(sending, receiving, chunking.plan_chunks(4, 0)[0])
            await receiving.stop()
            await sending.close()
            await pair.move(moved, source, destination)

            assert bytes(destination.memory) == path.expected(moved, source, destination.nbytes)


async def test_a_sender_with_more_rails_than_the_receiver_uses_as_many(rxa: Port, rxb: Port) -> None:
    moved = path.translation(ROWS, TILES)
    with path.region(ROWS, seed=1) as source, path.region(TILES) as destination:
        async with path.pair([rxa.device, rxb.device], [rxb.device]) as pair:
            sending, _ = await pair.move(moved, source, destination)

            assert len(sending.lanes) == 1
            assert bytes(destination.memory) == path.expected(moved, source, destination.nbytes)


@pytest.mark.parametrize("way", [VerbsStrategy.GATHER, VerbsStrategy.SCATTER])
@pytest.mark.parametrize("at", ["sender", "receiver"])
async def test_a_rail_that_cannot_connect_is_left_out(
    rxa: Port, rxb: Port, way: VerbsStrategy, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = QueuePair.connect

    def connect(queue: QueuePair, *arguments: Any, **named: Any) -> None:
        if queue.device is refusing:
            raise QueuePairStateError(f"{queue}: RTR refused")
        real(queue, *arguments, **named)

    monkeypatch.setattr(QueuePair, "connect", connect)
    moved = path.translation(ROWS, TILES)
    with path.region(ROWS, seed=1) as source, path.region(TILES, spare=512) as destination:
        async with path.pair(
            [rxa.device, rxb.device], [rxb.device, rxa.device], strategy=way, timeouts=BRIEF
        ) as pair:
            refusing = (pair.sender if at == "sender" else pair.receiver).ports[1].device
            await pair.move(moved, source, destination, chunk_layers=1)

            assert bytes(destination.memory) == path.expected(moved, source, destination.nbytes)
