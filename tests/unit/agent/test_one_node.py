"""Both sides of a pool on one node: their one agent hands over to itself, and proves that it can."""

from __future__ import annotations

import pytest

from hawk_agent.errors import PeerError
from hawk_agent.service.links import LinkState

from .house import (
    GEOMETRY,
    ROWS,
    TILE,
    TILES,
    House,
    off,
    open_cache,
    transfer_all,
)


async def test_kv_goes_from_one_engine_to_another_of_the_same_agent(house: House) -> None:
    agent = await house.agent("one", transports=("tcp", "shm"))
    await house.wire(("one", "one"))
    source = await off(open_cache, await house.engine("one"), "kv", ROWS, GEOMETRY, "prefill")
    destination = await off(open_cache, await house.engine("one"), "kv", TILES, GEOMETRY | TILE, "decode")
    source.fill(1)
    destination.clear()
    sent, _ = await transfer_all(source, destination)
    for cache in (source, destination):
        cache.close()

    assert sent.transport == "shm"
    [link] = agent.links.facts()
    assert (link.node, link.state) == ("one", LinkState.VERIFIED)


async def test_an_agent_that_is_not_its_own_peer_hands_over_nothing(house: House) -> None:
    await house.agent("one")
    source = await off(open_cache, await house.engine("one"), "kv", ROWS, GEOMETRY, "prefill")
    destination = await off(open_cache, await house.engine("one"), "kv", TILES, GEOMETRY | TILE, "decode")
    lease = await off(destination.engine.reserve, "kv", "r1")
    with pytest.raises(PeerError, match="node one isn't wired to this agent"):
        await off(source.engine.push, lease.ticket, "kv", 2, all_complete=True)
    for cache in (source, destination):
        cache.close()
