"""Pools' requests to an agent, and its reports of memory that is being emptied."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from hawk_agent.protocol import common_pb2, engine_pb2
from hawk_agent.service.pools import IDLE_SECONDS, NOTHING, ReservationDefaults, Usage, parse_pools
from hawk_agent.streaming.lease import LeaseTerms
from hawk_agent.transfer.outcome import TransferOutcome

from .house import GEOMETRY, ROWS, eventually, house, off

SECONDS = st.floats(0.001, 100)


def test_the_spec_is_read_as_far_as_it_says_something():
    found = parse_pools(
        {
            "pools": [
                {
                    "pool": "ns/a",
                    "grace": "500ms",
                    "maxGrace": "10s",
                    "verify": "Sampled",
                    "onFailure": "Recompute",
                    "draining": ["decode"],
                },
                {"pool": "ns/b"},
            ]
        }
    )

    assert found == {
        "ns/a": ReservationDefaults(0.5, 10.0, common_pb2.VERIFY_SAMPLED, "Recompute", frozenset({"decode"})),
        "ns/b": NOTHING,
    }
    assert parse_pools({}) == {}


@given(st.none() | SECONDS, st.none() | SECONDS, st.just(0.0) | SECONDS)
def test_a_reservation_comes_before_the_pool_and_the_pool_before_the_agent(grace, most, asked):
    default = LeaseTerms(grace=0.2, max_grace=30.0)
    made = ReservationDefaults(grace, most).over(default, asked, 0.0)

    assert made.grace == (asked or grace or default.grace)
    assert made.max_grace == max(most or default.max_grace, made.grace)
    assert (made.grant, made.stall) == (default.grant, default.stall)


def region(name: str, group: str, users: int = 0) -> SimpleNamespace:
    return SimpleNamespace(identity=name, pool="ns/a", group=group, users=users)


def test_only_memory_that_is_asked_about_is_reported_and_transfer_after_transfer_is_one_report():
    pools = {"ns/a": ReservationDefaults(draining=frozenset({"d"}))}
    regions = [region("1", "p", users=1), region("2", "d", users=1)]
    usage = Usage()

    assert not usage.look(regions, {}, 0.0)
    assert usage.look(regions, pools, 1.0)
    assert usage.busy == {"2": True}
    changes = 0
    for step in range(20):
        regions[1].users = step % 2
        changes += usage.look(regions, pools, 1.0 + step * IDLE_SECONDS / 4)
    assert changes == 0
    regions[1].users = 0
    assert usage.look(regions, pools, 100.0)
    assert usage.busy == {"2": False}
    assert usage.look(regions, {}, 101.0)
    assert usage.busy == {}


def test_what_is_asked_about_for_the_first_time_is_not_idle_before_it_was_watched():
    usage = Usage()
    pools = {"ns/a": ReservationDefaults(draining=frozenset({"d"}))}

    usage.look([region("2", "d")], pools, 5.0)
    assert usage.busy == {"2": True}
    usage.look([region("2", "d")], pools, 5.0 + IDLE_SECONDS)
    assert usage.busy == {"2": False}


async def test_a_reservation_takes_the_pool_s_terms_and_keeps_drained_memory_busy(tmp_path):
    async with house(tmp_path) as built:
        agent = await built.agent("npu")
        decode = await built.cache(await built.engine("npu"), "kv", ROWS, GEOMETRY, "decode")
        changes = []
        agent.on_change = lambda: changes.append(dict(agent.usage.busy))
        agent.pools.terms = parse_pools(
            {"pools": [{"pool": "default/llama", "grace": "700ms", "verify": "Off", "onFailure": "Fail"}]}
        )
        lease = await off(decode.engine.reserve, "kv", "r1")
        ticket = engine_pb2.Ticket.FromString(lease.ticket)
        assert (ticket.grace_ms, ticket.verify) == (700, common_pb2.VERIFY_OFF)
        assert lease.on_failure == "Fail"
        own = engine_pb2.Ticket.FromString(
            (await off(decode.engine.reserve, "kv", "r2", empty=True, grace=0.1, verify="Always")).ticket
        )
        assert (own.grace_ms, own.verify) == (100, common_pb2.VERIFY_ALWAYS)

        assert changes == [], "nobody asks: nothing is told"
        [region] = agent.regions
        agent.pools.terms = {"default/llama": ReservationDefaults(draining=frozenset({"decode"}))}
        await eventually(lambda: agent.usage.busy == {region.identity: True})
        await off(decode.engine.release, lease)
        await agent.receiver.end(next(agent.table.live()), TransferOutcome.ABORTED_BY_RECEIVER)
        await eventually(lambda: agent.usage.busy == {region.identity: False})
        assert changes == [{region.identity: True}, {region.identity: False}]
