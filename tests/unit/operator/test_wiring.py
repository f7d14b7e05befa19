"""Peers: pairs with two ends, bounded, steady, and proved by both sides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api.reasons import Reason
from hawk_operator.cache.projections import PoolEntry
from hawk_operator.reconcile.wiring import terms_of, wiring_sides
from hawk_operator.runtime.workqueue import pool_key
from hawk_operator.wiring import liveness
from hawk_operator.wiring.links import judge_links
from hawk_operator.wiring.peers import (
    Sides,
    Wiring,
    agent_of,
    is_outdated,
    rewired_agents,
    spec_of,
    wire_agents,
)
from hawk_operator.wiring.place import sides_of
from hawk_operator.workloads.pods import read_pod

from .build import agent, pool

NODES = [f"n{index}" for index in range(10)]
SIDES = st.builds(
    lambda left, right: Sides(frozenset(left), frozenset(right)),
    st.sets(st.sampled_from(NODES)),
    st.sets(st.sampled_from(NODES)),
)
AGENTS = {name: agent(name) for name in NODES}


@given(st.lists(SIDES, max_size=4), st.integers(1, 5))
def test_links_have_two_ends_and_bounds_hold(pools, limit):
    found = wire_agents(pools, AGENTS, limit)
    wanted = {pair for side in pools for pair in side.pairs()}

    for name, peers in found.peers.items():
        assert len(peers) <= limit
        assert list(peers) == sorted(set(peers))
        for other in peers:
            assert name in found.peers[other]
            assert (min(name, other), max(name, other)) in wanted
    chosen = {(a, b) for a, peers in found.peers.items() for b in peers if a <= b}
    assert chosen | set(found.refused) == wanted
    assert wire_agents(reversed(pools), dict(reversed(AGENTS.items())), limit) == found


def test_near_agents_come_first():
    agents = {
        "a": agent("a", zone="z1", host="h1"),
        "far": agent("far", zone="z2"),
        "near": agent("near", zone="z1"),
        "same": agent("same", zone="z2", host="h1"),
    }
    side = Sides(frozenset({"a"}), frozenset({"far", "near", "same"}))

    assert wire_agents([side], agents, 1).peers["a"] == ("same",)
    assert wire_agents([side], agents, 2).peers["a"] == ("near", "same")


def test_one_address_belongs_to_one_agent():
    agents = {name: agent(name, address="10.0.0.1:7443") for name in ("a", "b")} | {"c": agent("c")}
    side = Sides(frozenset({"c"}), frozenset({"a", "b"}))
    both = wire_agents([side], agents)
    assert both.peers == {}
    assert {reason for reason, _ in both.refused.values()} == {Reason.PEER_REFUSED}

    agents["b"] = replace(agents["b"], live=False)
    assert wire_agents([side], agents).peers == {"a": ("c",), "c": ("a",)}


def test_two_protocols_are_not_linked_and_both_are_named():
    agents = {"a": agent("a", protocol=1), "b": agent("b", protocol=2)}
    found = wire_agents([Sides(frozenset("a"), frozenset("b"))], agents)

    reason, message = found.refused["a", "b"]
    assert reason is Reason.AGENT_INCOMPATIBLE
    assert "1" in message
    assert "2" in message


def test_an_agent_that_dies_keeps_its_place_and_one_that_returns_has_a_new_epoch():
    agents = {name: agent(name) for name in "ab"}
    side = Sides(frozenset("a"), frozenset("b"))
    before = spec_of(agents["a"], wire_agents([side], agents).peers["a"], agents)
    agents["b"] = replace(agents["b"], live=False)
    assert spec_of(agents["a"], wire_agents([side], agents).peers["a"], agents) == before

    agents["b"] = agent("b", epoch="b-2")
    after = spec_of(agents["a"], wire_agents([side], agents).peers["a"], agents)
    assert after.to_dict()["peers"] == [{"node": "b", "address": "b:7443", "epoch": "b-2"}]
    written = replace(agents["a"], peers=(("b", "b:7443", "b-1"),), expected="a-1")
    assert is_outdated(written, after)
    assert not is_outdated(replace(written, peers=(("b", "b:7443", "b-2"),)), after)
    assert not is_outdated(agent("idle"), spec_of(agent("idle"), (), {}))


def alone(name: str):
    """An agent that is linked to itself."""
    peers = ((name, f"{name}:7443", f"{name}-1"),)
    return {name: agent(name, peers=peers, verified=frozenset({name}))}


def linked(left: str, right: str, **more):
    """Two agents whose specs and proofs agree."""
    agents = {}
    for one, other in ((left, right), (right, left)):
        agents[one] = agent(
            one,
            peers=((other, f"{other}:7443", f"{other}-1"),),
            verified=frozenset({other}),
            **more.get(one, {}),
        )
    return agents


BOTH = Sides(frozenset("a"), frozenset("b"))


def test_a_link_is_proved_when_both_ends_say_so_of_the_present_incarnations():
    agents = linked("a", "b")
    assert judge_links(BOTH, agents, Wiring()).proved is True

    one_sided = {**agents, "b": replace(agents["b"], verified=frozenset())}
    assert judge_links(BOTH, one_sided, Wiring()).proved is None
    restarted = {**agents, "b": replace(agents["b"], epoch="b-2")}
    assert judge_links(BOTH, restarted, Wiring()).proved is None
    dead = {**agents, "b": replace(agents["b"], live=False)}
    found = judge_links(BOTH, dead, Wiring())
    assert (found.proved, found.reason) == (False, Reason.AGENT_LOST)
    assert "b" in found.message


@pytest.mark.parametrize(
    ("side", "agents", "proved", "reason"),
    [
        (Sides(), {}, None, Reason.NOT_OBSERVED),
        (Sides(frozenset("a"), frozenset()), {"a": agent("a")}, None, Reason.NOT_OBSERVED),
        (BOTH, {"a": agent("a")}, False, Reason.NO_AGENT),
        (BOTH, {"a": agent("a"), "b": agent("b", address="")}, False, Reason.NO_AGENT),
        (Sides(frozenset("a"), frozenset("a")), {"a": agent("a")}, None, Reason.WAITING),
        (Sides(frozenset("a"), frozenset("a")), alone("a"), True, Reason.AS_EXPECTED),
        (
            Sides(frozenset("a"), frozenset("a")),
            {"a": agent("a", problems=(("a", "CanaryFailed", "bad bytes"),))},
            False,
            Reason.LINKS_DOWN,
        ),
        (BOTH, {"a": agent("a"), "b": agent("b")}, None, Reason.WAITING),
        (
            BOTH,
            {"a": agent("a", problems=(("b", "CanaryFailed", "bad bytes"),)), "b": agent("b")},
            False,
            Reason.LINKS_DOWN,
        ),
    ],
)
def test_what_is_said_of_links(side, agents, proved, reason):
    found = judge_links(side, agents, Wiring())

    assert (found.proved, found.reason) == (proved, reason)


def test_another_pools_trouble_is_not_this_pools():
    agents = linked("a", "b")
    agents["a"] = replace(agents["a"], problems=(("z", "PeerUnreachable", ""),))

    assert judge_links(BOTH, agents, Wiring()).proved is True


def test_workers_are_found_by_pods_and_by_memory():
    made = pool()
    agents = [agent("n5", regions=(("ns/llama", "d", "w"), ("ns/other", "p", "w")))]
    found = sides_of(made.spec, "ns/llama", {"p": frozenset({"n1"})}, agents)

    assert found == Sides(frozenset({"n1"}), frozenset({"n5"}))


def test_sides_of_the_cluster_skip_what_goes_and_what_is_unreadable():
    def body(name: str, **metadata):
        made = pool().to_dict()
        return {**made, "metadata": {"name": name, "namespace": "ns", **metadata}}

    def worker(name: str, group: str, node: str):
        marks = {"hawkpool.dev/pool": name, "hawkpool.dev/group": group}
        return read_pod(
            {
                "metadata": {"name": f"{name}-{group}-{node}", "namespace": "ns", "labels": marks},
                "spec": {"nodeName": node},
                "status": {"phase": "Running"},
            }
        )

    pools = [body("a"), body("b", deletionTimestamp="now"), {**body("c"), "spec": {"groups": "?"}}]
    pods = [worker("a", "p", "n1"), worker("a", "d", "n2"), worker("b", "p", "n3"), worker("c", "d", "n4")]

    found = wiring_sides(map(PoolEntry, pools), pods, {})

    assert found == {pool_key("ns", "a"): Sides(frozenset({"n1"}), frozenset({"n2"}))}


def test_agents_are_told_what_the_pools_on_their_nodes_ask_for():
    def body(name: str, **transfer):
        made = pool(transfer=transfer).to_dict()
        return PoolEntry({**made, "metadata": {"name": name, "namespace": "ns"}})

    pools = [body("a", grace="1s", verify="Always"), body("b")]
    by_pool = {
        pool_key("ns", "a"): Sides(frozenset({"n1"}), frozenset({"n2"})),
        pool_key("ns", "b"): Sides(frozenset({"n2"}), frozenset({"n2"})),
    }
    draining = {pool_key("ns", "a"): frozenset({("n2", "d"), ("n2", "c")})}
    told = terms_of(pools, by_pool, draining)

    assert {node: [entry.pool for entry in terms] for node, terms in told.items()} == {
        "n1": ["ns/a"],
        "n2": ["ns/a", "ns/b"],
    }
    [first] = told["n1"]
    assert (first.grace, first.verify, first.draining) == (1.0, "Always", ())
    assert told["n2"][0].draining == ("c", "d")

    spec = spec_of(agent("n2"), (), {}, told["n2"])
    body_of = {"metadata": {"name": "n2"}, "spec": spec.to_dict(), "status": {"epoch": "n2-1"}}
    assert is_outdated(agent("n2"), spec)
    assert not is_outdated(agent_of(body_of, ()), spec), "what was written is what is read"


@given(st.lists(SIDES, max_size=3), st.lists(SIDES, max_size=3), st.integers(1, 4))
def test_only_agents_whose_peers_or_refusals_changed_have_moved(before, after, limit):
    old, new = wire_agents(before, AGENTS, limit), wire_agents(after, AGENTS, limit)
    touched = rewired_agents(old, new)

    assert rewired_agents(new, new) == frozenset()
    for name in NODES:
        same = old.peers.get(name) == new.peers.get(name)
        refused = [{pair: why for pair, why in w.refused.items() if name in pair} for w in (old, new)]
        if name not in touched:
            assert same
            assert refused[0] == refused[1]
        elif same:
            assert refused[0] != refused[1]


def test_agents_are_read_as_far_as_they_say_something():
    assert agent_of({"metadata": {"name": "n"}}, frozenset()).reachable is False
    full = agent_of(
        {
            "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z"}},
            "spec": {"expectedEpoch": "e", "peers": [{"node": "m", "address": "m:1", "epoch": "x"}]},
            "status": {
                "epoch": "e",
                "address": "n:1",
                "protocol": 1,
                "verifiedPeers": ["m"],
                "links": {"problems": [{"peer": "q", "reason": "LinksDown", "message": "x"}]},
                "future": "field",
            },
        },
        frozenset({"n"}),
    )
    assert (full.live, full.zone, full.verified) == (True, "z", frozenset({"m"}))
    assert full.problems == (("q", "LinksDown", "x"),)


def lease(name: str, renewed: str, holder: str = "agent", duration: int = 15):
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": duration}
    return {"metadata": {"name": name}, "spec": spec}


def test_an_agent_lives_while_its_lease_is_seen_to_change():
    now = 1_800_000_000.0
    skewed = "2020-01-01T00:00:{:02d}Z"  # years behind our clock
    beats = liveness.observe_beats({}, [lease("n", skewed.format(0))], 0, now)
    assert liveness.living_agents(beats) == frozenset(), "seen for the first time: judged by its own time"

    beats = liveness.observe_beats(beats, [lease("n", skewed.format(5))], 5, now)
    assert liveness.living_agents(beats) == {"n"}
    beats = liveness.observe_beats(beats, [lease("n", skewed.format(5))], 14, now)
    assert liveness.living_agents(beats) == {"n"}
    beats = liveness.observe_beats(beats, [lease("n", skewed.format(5))], 1.1, now)
    assert liveness.living_agents(beats) == frozenset()
    assert liveness.observe_beats(beats, [], 1, now) == {}


def test_an_agent_that_renews_lives_however_rarely_it_is_looked_at():
    beats = liveness.observe_beats({}, [lease("n", "2027-01-15T08:00:00Z")], 0, 1_800_000_000.0)
    for minute in range(1, 5):
        renewed = f"2027-01-15T08:{minute:02d}:00Z"
        beats = liveness.observe_beats(beats, [lease("n", renewed)], 60, 1_800_000_000.0)
        assert liveness.living_agents(beats) == {"n"}


def test_a_lease_from_the_future_or_without_holder_is_no_life_insurance():
    now = 1_800_000_000.0
    leases = [lease("n", "2099-01-01T00:00:00Z"), lease("m", "2027-01-15T07:59:59Z", "")]
    beats = liveness.observe_beats({}, leases, 0, now)

    assert liveness.living_agents(beats) == {"n"}
    assert liveness.living_agents(liveness.observe_beats(beats, leases, 16, now + 16)) == frozenset()
