"""Who is linked with whom, read from HawkNodes and written to them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api.reasons import Reason
from hawk_api.v1alpha1.hawknode import MAX_PEERS, MAX_POOLS, PoolTerms
from hawk_operator.wiring import liveness
from hawk_operator.wiring.peers import NodeSpec, Sides, agent_of, is_outdated, spec_of, wire_agents
from hawk_operator.wiring.place import sides_of

from .build import agent, group_spec, pool

EDGE = Sides(frozenset("a"), frozenset("b"))


def between(*names):
    """A side of "a" and all the others."""
    return Sides(frozenset("a"), frozenset(names))


def test_everything_that_a_node_says_is_read():
    body = {
        "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z"}},
        "spec": {
            "expectedEpoch": "e",
            "peers": [{"node": "m", "address": "m:1", "epoch": "x"}],
            "pools": [{"pool": "ns/a", "grace": "1s"}],
        },
        "status": {
            "epoch": "e2",
            "address": "n:1",
            "protocol": 4,
            "hostId": "h",
            "regions": [
                {
                    "pool": "ns/a",
                    "group": "g",
                    "worker": "0",
                    "layout": "s d",
                    "epoch": "e2",
                    "bytes": 1,
                    "busy": True,
                },
                {"pool": "ns/b", "group": "h", "worker": "1", "layout": "s d", "epoch": "e2", "bytes": 1},
            ],
        },
    }
    found = agent_of(body, ["n"])

    assert (found.name, found.address, found.epoch, found.protocol) == ("n", "n:1", "e2", 4)
    assert (found.host, found.zone, found.live, found.expected) == ("h", "z", True, "e")
    assert found.regions == (("ns/a", "g", "0"), ("ns/b", "h", "1"))
    assert found.busy == (("ns/a", "g", "0", True),)
    assert found.peers == (("m", "m:1", "x"),)
    assert [(entry.pool, entry.grace) for entry in found.terms] == [("ns/a", 1.0)]


def test_a_node_that_says_nothing_is_nobody():
    found = agent_of({"metadata": {"name": "n"}}, ())

    assert found == agent("n", address="", epoch="", protocol=None, live=False)


def test_a_node_that_is_being_deleted_does_not_live():
    metadata = {"name": "n", "deletionTimestamp": "2027-01-15T08:00:00Z"}

    assert agent_of({"metadata": {"name": "n"}}, {"n"}).live
    assert not agent_of({"metadata": {"name": "n"}}, {"m"}).live
    assert not agent_of({"metadata": metadata}, {"n"}).live


@pytest.mark.parametrize("missing", [{"address": ""}, {"epoch": ""}])
def test_nobody_is_linked_with_an_agent_that_is_not_there_yet(missing):
    agents = {"a": agent("a"), "b": agent("b", **missing)}

    for side in (EDGE, Sides(EDGE.decode, EDGE.prefill), between("c")):
        found = wire_agents([side], agents)
        assert (found.peers, found.refused) == ({}, {})


@pytest.mark.parametrize(("left", "right"), [(None, 2), (2, None), (None, None), (3, 3)])
def test_protocols_clash_only_where_both_are_known(left, right):
    agents = {"a": agent("a", protocol=left), "b": agent("b", protocol=right)}

    assert wire_agents([EDGE], agents).peers == {"a": ("b",), "b": ("a",)}


def test_protocols_that_clash_are_named_with_their_agents():
    agents = {"a": agent("a", protocol=1), "b": agent("b", protocol=2)}

    assert wire_agents([EDGE], agents).refused == {
        ("a", "b"): (Reason.AGENT_INCOMPATIBLE, "a speaks protocol 1, b speaks 2")
    }


@pytest.mark.parametrize("alive", [{"b"}, {"b", "c"}, {"b", "c", "d"}, set()])
def test_of_several_at_one_address_the_one_that_alone_lives_is_right(alive):
    twins = {name: agent(name, address="x:1", live=name in alive) for name in "bcd"}
    found = wire_agents([between(*twins)], {"a": agent("a"), **twins})
    right = alive if len(alive) == 1 else set()

    assert set(found.peers.get("a", ())) == right
    assert set(found.refused) == {("a", name) for name in twins if name not in right}
    for (_, name), (reason, message) in found.refused.items():
        other = "c" if name == "b" else "b"
        assert reason is Reason.PEER_REFUSED
        assert message == f"{name} and {other} both say that they are at x:1"


def test_both_ends_of_a_refused_pair_may_be_the_twin():
    agents = {"a": agent("a", address="x:1"), "b": agent("b"), "c": agent("c", address="x:1")}

    assert set(wire_agents([EDGE], agents).refused) == {("a", "b")}


def test_agents_with_an_address_each_are_no_twins():
    agents = {name: agent(name) for name in "ab"} | {name: agent(name, address="") for name in "cd"}
    found = wire_agents([between("b", "c", "d")], agents)

    assert found.peers == {"a": ("b",), "b": ("a",)}
    assert found.refused == {}


@pytest.mark.parametrize(
    ("near", "far"),
    [
        ({"host": "h1"}, {"host": "h2"}),
        ({"host": "h1"}, {"zone": "z1"}),
        ({"host": "h1", "zone": "z2"}, {"zone": "z1"}),
        ({"zone": "z1"}, {"zone": "z2"}),
        ({"zone": "z1"}, {}),
        ({"zone": "z1"}, {"host": "", "zone": "z2"}),
    ],
)
def test_places_go_to_the_same_host_then_to_the_same_zone(near, far):
    agents = {"a": agent("a", host="h1", zone="z1")}
    agents |= {f"far{index}": agent(f"far{index}", **far) for index in range(4)}
    agents |= {f"near{index}": agent(f"near{index}", **near) for index in range(4)}
    others = [name for name in agents if name != "a"]
    found = wire_agents([between(*others)], agents, 4)

    assert found.peers["a"] == ("near0", "near1", "near2", "near3")


def test_a_node_on_both_sides_is_its_own_peer_before_all_others():
    agents = {name: agent(name) for name in ("a", "b", "c")}
    found = wire_agents([between("a", "b", "c")], agents, 1)

    assert found.peers == {"a": ("a",)}
    assert set(found.refused) == {("a", "b"), ("a", "c")}


def test_what_nobody_knows_is_not_the_same_place():
    names = [f"n{index}" for index in range(8)]
    placeless = {"a": agent("a")} | {name: agent(name) for name in names}
    placed = placeless | {name: agent(name, host=name, zone=name) for name in names[:4]}

    assert (
        wire_agents([between(*names)], placeless, 4).peers["a"]
        == wire_agents([between(*names)], placed, 4).peers["a"]
    )


def test_who_has_no_place_left_is_named():
    agents = {name: agent(name) for name in ("a", "b", "c", "d")}
    found = wire_agents([between("b", "c", "d")], agents, 2)
    [(pair, why)] = found.refused.items()

    assert pair[0] == "a"
    assert why == (Reason.TOO_MANY_PEERS, "a has 2 peers already, the most there may be")
    reverse = wire_agents([Sides(frozenset("d"), frozenset("abc"))], agents, 2)
    assert {message.split()[0] for _, message in reverse.refused.values()} == {"d"}


def test_an_agent_has_no_more_peers_than_its_spec_holds():
    names = [f"n{index}" for index in range(MAX_PEERS + 1)]
    agents = {"a": agent("a")} | {name: agent(name) for name in names}

    assert len(wire_agents([between(*names[:-1])], agents).peers["a"]) == MAX_PEERS
    assert len(wire_agents([between(*names)], agents).peers["a"]) == MAX_PEERS


def test_one_node_more_moves_few_of_the_others():
    left, right = [f"p{index:02}" for index in range(40)], [f"d{index:02}" for index in range(40)]
    agents = {name: agent(name) for name in (*left, *right, "a", "z")}
    before = wire_agents([Sides(frozenset(left), frozenset(right))], agents, 4)
    for new in ("a", "z"):
        after = wire_agents([Sides(frozenset([*left, new]), frozenset(right))], agents, 4)
        moved = [name for name in left if after.peers[name] != before.peers[name]]

        assert len(after.peers[new]) == 4
        assert len(moved) < 20


TERMS = [PoolTerms(pool=f"ns/p{index:02}") for index in range(MAX_POOLS + 2)]


def test_a_spec_is_what_an_agent_is_told_and_pools_are_in_order():
    agents = {"a": agent("a"), "b": agent("b")}
    spec = spec_of(agents["a"], ("b",), agents, reversed(TERMS))

    assert (spec.epoch, spec.peers) == ("a-1", (("b", "b:7443", "b-1"),))
    assert list(spec.terms) == TERMS[:MAX_POOLS]
    assert NodeSpec("e", spec.peers, spec.terms[:1]).to_dict() == {
        "expectedEpoch": "e",
        "peers": [{"node": "b", "address": "b:7443", "epoch": "b-1"}],
        "pools": [TERMS[0].to_dict()],
    }


PEERS = (("b", "b:7443", "b-1"), ("c", "c:7443", "c-1"))


def test_a_spec_that_says_the_same_is_not_written_again():
    told = agent("a", expected="a-1", peers=PEERS, terms=tuple(TERMS[:2]))
    wanted = NodeSpec("a-1", PEERS, tuple(TERMS[:2]))

    assert not is_outdated(told, wanted)
    assert not is_outdated(replace(told, peers=PEERS[::-1], terms=told.terms[::-1]), wanted)


@pytest.mark.parametrize("change", [{"expected": "a-0"}, {"peers": PEERS[:1]}, {"terms": ()}])
def test_a_spec_that_says_something_else_is_written(change):
    told = agent("a", expected="a-1", peers=PEERS, terms=tuple(TERMS[:2]))

    assert is_outdated(replace(told, **change), NodeSpec("a-1", PEERS, tuple(TERMS[:2])))


@pytest.mark.parametrize("had", [{"peers": PEERS}, {"terms": tuple(TERMS[:1])}, {}])
def test_what_an_agent_needs_no_longer_is_taken_back_and_nothing_is_no_news(had):
    assert is_outdated(agent("a", **had), NodeSpec("a-1")) == bool(had)


@pytest.mark.parametrize("wanted", [{"peers": PEERS}, {"terms": tuple(TERMS[:1])}])
def test_the_first_word_to_an_agent_is_written(wanted):
    assert is_outdated(agent("a"), NodeSpec("a-1", **wanted))


def test_workers_that_do_both_are_on_both_sides_and_strangers_on_none():
    made = pool(group_spec("p", "Prefill"), group_spec("m", "Both"), group_spec("d", "Decode"))
    nodes = {"p": frozenset({"n1"}), "m": frozenset({"n2"}), "d": frozenset({"n3"}), "x": frozenset({"n9"})}
    agents = [
        agent("n4", regions=(("ns/llama", "m", "w"),)),
        agent("n5", regions=(("ns/llama", "gone", "w"), ("other/llama", "p", "w"))),
        agent("n6", regions=(("ns/llama", "gone", "w"), ("ns/llama", "p", "w"))),
    ]
    found = sides_of(made.spec, "ns/llama", nodes, agents)

    assert found == Sides(frozenset({"n1", "n2", "n4", "n6"}), frozenset({"n2", "n3", "n4"}))
    assert sides_of(made.spec, "ns/llama", {}, ()) == Sides()


def lease(**spec):
    return {"metadata": {"name": "n"}, "spec": spec}


HELD = {"holderIdentity": "agent", "renewTime": "2027-01-15T08:00:00Z", "leaseDurationSeconds": 15}
RENEWED = 1_800_000_000.0


@pytest.mark.parametrize(
    "missing", [{"spec": None}, {}, *({"spec": HELD | {key: None}} for key in list(HELD)[::2])]
)
def test_a_lease_without_a_holder_or_a_duration_keeps_nobody_alive(missing):
    beats = liveness.observe_beats({}, [{"metadata": {"name": "n"}, **missing}], 0, RENEWED)

    assert beats["n"].duration == 0.0
    assert (
        liveness.living_agents(
            liveness.observe_beats(beats, [{"metadata": {"name": "n"}, **missing}], 1, RENEWED)
        )
        == set()
    )


@given(st.floats(-30, 30))
def test_a_lease_seen_for_the_first_time_is_judged_by_its_own_time(passed):
    beats = liveness.observe_beats({}, [lease(**HELD)], 99, RENEWED + passed)

    assert beats["n"].age == max(0.0, RENEWED + passed - RENEWED)
    assert ("n" in liveness.living_agents(beats)) == (passed <= 15)


def test_a_lease_lives_for_exactly_its_duration():
    beats = liveness.observe_beats({}, [lease(**HELD)], 0, RENEWED)
    beats = liveness.observe_beats(beats, [lease(**HELD)], 15, RENEWED)
    assert liveness.living_agents(beats) == {"n"}
    beats = liveness.observe_beats(beats, [lease(**HELD)], 0.001, RENEWED)
    assert liveness.living_agents(beats) == frozenset()


@pytest.mark.parametrize("change", [{"holderIdentity": "another"}, {"renewTime": "2027-01-15T08:00:01Z"}])
def test_another_holder_or_another_time_is_a_sign_of_life(change):
    beats = liveness.observe_beats({}, [lease(**HELD)], 0, RENEWED + 100)
    assert liveness.living_agents(beats) == frozenset()

    beats = liveness.observe_beats(beats, [lease(**HELD | change)], 100, RENEWED + 200)
    assert (liveness.living_agents(beats), beats["n"].age) == ({"n"}, 0.0)
