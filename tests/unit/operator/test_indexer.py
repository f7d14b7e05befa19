"""The last state of many objects: a model of an API server, and events from it that come in any order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hawk_operator.cache.indexer import Indexer

NAMES = "abc"
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(NAMES), st.integers(0, 2)),
        st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just(0)),
        st.tuples(st.just("list"), st.just(""), st.just(0)),
    ),
    max_size=12,
)


def body(name: str, version: int, value: int) -> dict:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "value": value}


def history(steps):
    """Return an API server's events for these steps, in order, and the objects in the end."""
    there: dict[str, dict] = {}
    words, version = [], 0
    for what, name, value in steps:
        if what == "list":
            words.append(("list", version, list(there.values())))
            continue
        version += 1
        if what == "write":
            there[name] = body(name, version, value)
            words.append(("update", version, there[name]))
        elif name in there:
            gone = body(name, version, there.pop(name)["value"])
            words.append(("delete", version, gone))
    return words, version, there


def indexer() -> Indexer[int]:
    return Indexer(lambda found: found["value"], lambda value: [value % 2])


def take(into: Indexer[int], word) -> None:
    what, version, content = word
    if what == "list":
        into.replace(version, content)
    else:
        getattr(into, what)(content)


def contents(of: Indexer[int]) -> dict[str, int]:
    return {name: value for name in NAMES if (value := of.get("", name)) is not None}


@given(STEPS, st.data())
def test_words_in_any_order_and_twice_leave_what_is_there(steps, data):
    words, version, there = history(steps)
    order = data.draw(
        st.permutations(words + data.draw(st.lists(st.sampled_from(words), max_size=3)) if words else [])
    )
    found = indexer()
    for word in order:
        take(found, word)
    take(found, ("list", version, list(there.values())))

    assert contents(found) == {name: item["value"] for name, item in there.items()}
    assert sorted(found.all()) == sorted(item["value"] for item in there.values())
    for parity in (0, 1):
        assert sorted(found.by_index(parity)) == sorted(v for v in found.all() if v % 2 == parity)


@given(STEPS, st.sets(st.integers(0, 11)))
def test_events_that_are_lost_are_mended_by_the_next_list(steps, lost):
    words, version, there = history(steps)
    found = indexer()
    for index, word in enumerate(words):
        if index not in lost:
            take(found, word)
    found.replace(version, list(there.values()))

    assert contents(found) == {name: item["value"] for name, item in there.items()}


@given(STEPS)
def test_a_watch_alone_in_order_is_enough(steps):
    words, _, there = history(steps)
    found = indexer()
    for word in words:
        if word[0] != "list":
            take(found, word)

    assert contents(found) == {name: item["value"] for name, item in there.items()}


def test_a_list_that_was_made_before_an_event_undoes_nothing():
    found = indexer()
    found.update(body("a", 1, 1))
    found.update(body("b", 5, 2))  # created after the list was made
    found.delete(body("a", 6, 1))  # and this one deleted

    assert found.replace(4, [body("a", 1, 1)]) == []
    assert contents(found) == {"b": 2}


def test_only_what_readers_see_is_a_change():
    found = indexer()
    assert found.update(body("a", 1, 1)) is not None
    assert found.update(body("a", 2, 1)) is None, "another version of the same"
    assert found.update(body("a", 1, 9)) is None, "an older word"
    change = found.update(body("a", 3, 2))
    assert change is not None
    assert (change.before, change.after) == (1, 2)
