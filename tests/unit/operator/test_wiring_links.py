"""The status of a pool's links: how many are wanted, how many are proved, and why not the rest."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hawk_api.reasons import Reason
from hawk_operator.wiring.links import judge_links, listed
from hawk_operator.wiring.peers import Sides, Wiring

from .build import agent

PREFILL, DECODE = ("p1", "p2", "p3"), ("d1", "d2")
SIDES = Sides(frozenset(PREFILL), frozenset(DECODE))
PAIRS = sorted(SIDES.pairs())


def cluster(proved=(), **more):
    """Agents that have proved these pairs; `more` changes agents by name."""
    agents = {}
    for name in (*PREFILL, *DECODE):
        others = [other for pair in proved if name in pair for other in pair if other != name]
        agents[name] = agent(
            name,
            verified=frozenset(others),
            peers=tuple((other, f"{other}:7443", f"{other}-1") for other in others),
        )
    return agents | {name: replace(agents[name], **change) for name, change in more.items()}


@given(st.sets(st.sampled_from(PAIRS)), st.sets(st.sampled_from((*PREFILL, *DECODE))))
def test_links_are_counted_and_a_dead_agents_are_not_proved(proved, dead):
    found = judge_links(SIDES, cluster(proved, **{name: {"live": False} for name in dead}), Wiring())
    alive = [pair for pair in proved if not dead.intersection(pair)]

    assert (found.wanted, found.verified) == (len(PAIRS), len(alive))
    if dead:
        assert (found.proved, found.reason) == (False, Reason.AGENT_LOST)
        assert listed(dead) in found.message
    elif proved == set(PAIRS):
        assert (found.proved, found.reason) == (True, Reason.AS_EXPECTED)
        assert found.message == "6 of 6 links are verified"
    else:
        assert (found.proved, found.reason) == (None, Reason.WAITING)
        assert found.message.startswith(f"{len(alive)} of 6 links are verified; ")


@pytest.mark.parametrize(
    "change", [{"verified": frozenset()}, {"peers": ()}, {"epoch": "2"}, {"address": "q:1"}]
)
def test_a_proof_counts_when_both_ends_have_it_of_who_is_there_now(change):
    for name in ("p1", "d1"):
        found = judge_links(SIDES, cluster(PAIRS, **{name: change}), Wiring())

        assert (found.proved, found.verified) == (None, 6 - sum(name in pair for pair in PAIRS))


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_side_without_workers_or_without_agents_is_named(role):
    agents = cluster()
    empty = judge_links(replace(SIDES, **{role: frozenset()}), agents, Wiring())
    names = getattr(SIDES, role)
    gone = judge_links(SIDES, {name: agents[name] for name in agents if name not in names}, Wiring())

    assert (empty.wanted, empty.verified, empty.proved) == (0, 0, None)
    assert f"no {role} worker" in empty.message
    assert (gone.wanted, gone.verified, gone.proved, gone.reason) == (0, 0, False, Reason.NO_AGENT)
    assert f" {role} workers" in gone.message
    assert listed(names) in gone.message


@pytest.mark.parametrize("silent", [{"address": ""}, {"epoch": ""}])
def test_a_node_whose_agent_has_not_said_where_and_who_it_is_has_no_links(silent):
    found = judge_links(SIDES, cluster(PAIRS, p1=silent), Wiring())

    assert (found.wanted, found.verified, found.proved) == (4, 4, True)


def test_workers_on_one_node_need_their_agents_link_to_itself():
    here = frozenset({"p1"})
    itself = {"verified": here, "peers": (("p1", "p1:7443", "p1-1"),)}
    unproved = judge_links(Sides(here, here), cluster(), Wiring())
    proved = judge_links(Sides(here, here), cluster(p1=itself), Wiring())

    assert (unproved.wanted, unproved.verified, unproved.proved) == (1, 0, None)
    assert (proved.wanted, proved.verified, proved.proved) == (1, 1, True)


def test_a_refused_link_is_told_and_comes_before_one_that_is_left_out():
    refused = {
        ("d1", "p1"): (Reason.TOO_MANY_PEERS, "p1 is full"),
        ("d1", "p2"): (Reason.AGENT_INCOMPATIBLE, "d1 is old"),
        ("d2", "p2"): (Reason.PEER_REFUSED, "another"),
        ("x", "y"): (Reason.PEER_REFUSED, "no pair of this pool"),
    }
    found = judge_links(SIDES, cluster(PAIRS[:1]), Wiring(refused=refused))

    assert (found.wanted, found.verified, found.proved) == (6, 1, False)
    assert found.reason is Reason.AGENT_INCOMPATIBLE
    assert found.message == "1 of 6 links are verified; d1 is old"


@pytest.mark.parametrize("also_waiting", [False, True])
def test_links_that_are_left_out_by_design_are_no_fault(also_waiting):
    left_out = PAIRS[:2]
    proved = PAIRS[3:] if also_waiting else PAIRS[2:]
    refused = {pair: (Reason.TOO_MANY_PEERS, f"{pair[0]} is full") for pair in left_out}
    found = judge_links(SIDES, cluster(proved), Wiring(refused=refused))

    assert (found.wanted, found.verified) == (6, len(proved))
    if also_waiting:
        assert (found.proved, found.reason) == (None, Reason.WAITING)
    else:
        assert (found.proved, found.reason) == (True, Reason.TOO_MANY_PEERS)
        assert found.message == "4 of 6 links are verified; 2 are left out: d1 is full"


def test_problems_of_links_that_are_not_proved_are_listed_the_first_three_of_them():
    def trouble(*peers):
        return {"problems": tuple((peer, "CanaryFailed", f"bytes of {peer}") for peer in peers)}

    few = judge_links(
        SIDES, cluster(PAIRS[1:], d1=trouble("p1", "p2", "p3", "d2"), p1=trouble("z")), Wiring()
    )
    assert (few.wanted, few.verified, few.proved, few.reason) == (6, 5, False, Reason.LINKS_DOWN)
    assert few.message == "5 of 6 links are verified; d1 to p1: CanaryFailed bytes of p1"

    three = judge_links(SIDES, cluster((), d1=trouble(*PREFILL)), Wiring())
    assert three.message.count("CanaryFailed") == 3
    assert "more" not in three.message

    ends = {name: trouble(*DECODE) for name in PREFILL[:2]}
    many = judge_links(SIDES, cluster((), d1=trouble("p1"), **ends), Wiring())
    assert many.message.count("CanaryFailed") == 3
    assert many.message.startswith(
        "0 of 6 links are verified; d1 to p1: CanaryFailed bytes of p1; p1 to d1: "
    )
    assert many.message.endswith("; and 2 more")


def test_a_problem_without_words_is_its_reason():
    found = judge_links(
        SIDES, cluster(PAIRS[1:], d1={"problems": (("p1", "PeerUnreachable", ""),)}), Wiring()
    )

    assert found.message.endswith("; d1 to p1: PeerUnreachable")


@given(st.sets(st.text("abc", min_size=1), max_size=6), st.integers(1, 4))
def test_a_list_shows_the_first_names_and_counts_the_rest(names, shown):
    text = listed(names, shown)
    first, _, more = text.partition(" and ")

    assert [name for name in first.split(", ") if name] == sorted(names)[:shown]
    assert more == (f"{len(names) - shown} more" if len(names) > shown else "")
    assert listed(chain(names)) == listed(names, 3)
