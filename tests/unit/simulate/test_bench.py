"""The comparison in docs/scaling.md: kept runs are the runs, and the page tells what the results say."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hawk_api.v1alpha1.enums import QueueOrder
from hawk_planner.simulate import cache
from hawk_planner.simulate.cache import Store
from hawk_planner.simulate.course import BinnedLoad, Course
from hawk_planner.simulate.engine import ClusterSettings
from hawk_planner.simulate.generate import CHAT, RAG, Stream, steady
from hawk_planner.simulate.plot import costs, over_time
from hawk_planner.simulate.policies import Hawk, fixed
from hawk_planner.simulate.run import Arena
from hawk_planner.simulate.traces import Trace, TraceRequest
from tests.bench.policies import page
from tests.bench.policies.measure import measure
from tests.bench.policies.results import LENDS, Result, Row, load, save
from tests.unit.sizing.pools import pool


def test_a_value_is_found_by_whoever_looks_for_its_key(tmp_path):
    Store(tmp_path).put("key", {"a": [1.5, math.inf]})
    again = Store(tmp_path)

    assert again.get("key") == {"a": [1.5, math.inf]}
    assert again.get("other") is None
    assert again.found == 1


def test_what_was_half_written_is_as_if_it_were_not_there(tmp_path):
    store = Store(tmp_path)
    store.put("key", 1)
    [path] = tmp_path.rglob("*.json")
    path.write_text('{"a": ')

    assert store.get("key") is None


def test_the_cache_is_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.setenv("HAWK_CACHE", str(tmp_path / "mine"))
    Store().put("key", 1)
    assert [p.parts[-3] for p in (tmp_path / "mine").rglob("*.json")] == ["simulated"]

    monkeypatch.delenv("HAWK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.root() == tmp_path / "hawkpool"


def test_code_is_told_apart_by_what_it_says(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    home = tmp_path / "some_package"
    home.mkdir()
    for name in ("__init__", "part"):
        (home / f"{name}.py").write_text("")
    first = cache.code.__wrapped__("some_package")
    (home / "part.py").write_text("x = 1")

    assert cache.code.__wrapped__("some_package") != first
    assert cache.code.__wrapped__("some_package") == cache.code.__wrapped__("some_package")


def arena(store=None, tell=None, **more) -> Arena:
    trace = Stream(steady(RAG, 3.0), 7).trace("t", 120.0)
    chosen = ClusterSettings(initial={"prefill": 1, "decode": 2}, **more)
    return Arena(trace, pool(), chosen, 30.0, store, tell)


def test_a_kept_run_is_the_run_and_is_not_run_again(tmp_path):
    told: list[str] = []
    store = Store(tmp_path)
    fresh = arena().judge(Hawk(pool()))
    first = arena(store, lambda name, _: told.append(name)).judge(Hawk(pool()))
    second = arena(store, lambda name, _: told.append(name)).judge(Hawk(pool(), "again"))

    assert first == fresh
    assert second == replace(first, policy="again")
    assert told == ["hawk"]


def test_what_changes_a_run_is_another_run(tmp_path):
    store = Store(tmp_path)
    one, two = {"prefill": 1, "decode": 2}, {"prefill": 2, "decode": 2}
    base = arena(store)
    shorter = replace(base, trace=Trace("t", base.trace.requests[:-1]))
    runs = [
        base.judge(fixed(one, "f")),
        base.tune(fixed(one, "f")),
        base.judge(fixed(two, "f")),
        base.judge(Hawk(pool())),
        base.judge(Hawk(pool(down_window=60.0))),
        replace(base, problem=pool(itl=None)).judge(fixed(one, "f")),
        arena(store, link_bytes_per_second=1e9).judge(fixed(one, "f")),
        shorter.judge(fixed(one, "f")),
    ]

    assert store.found == 0
    assert len(runs) == len(list(tmp_path.rglob("*.json")))


def row(policy: str, share: float, usd: float) -> Row:
    return Row(policy, share, share, 1.0, usd, usd / 2, 1, 0.2, {})


def result(**more) -> Result:
    rows = row("hawk", 0.995, 3.0), row("keda", 0.991, 4.0), row("hpa", 0.9, 1.0), row("oracle", 0.99, 2.0)
    made = Result(
        traffic="t",
        order=QueueOrder.SLACK,
        requests=100,
        seconds=3600.0,
        scored_s=3000.0,
        attainable=1.0,
        load=BinnedLoad(60.0, (1.0, 2.0), (10.0, 20.0), (3.0, 4.0)),
        rows=rows,
        courses=(Course("hawk", ((600.0, 1, 2), (900.0, 2, 2), (3585.0, 2, 2))),),
        curves={"hawk": ((3.0, 0.995),), "oracle": ((2.0, 0.99), (1.0, 0.8), (2.5, 0.9949))},
    )
    return replace(made, **more)


def test_a_result_is_read_as_it_was_written(tmp_path):
    one, other = result(), result(order=QueueOrder.ARRIVAL, courses=(), curves={})
    for made in (one, other):
        save(tmp_path, made)

    assert load(tmp_path) == [other, one]


def test_the_page_compares_with_the_cheapest_peer_that_meets_and_with_the_clairvoyant_at_the_same_share():
    lines = page.tables([result()]).splitlines()
    [goals] = [line for line in lines if line.startswith("| [t]")]
    [ours] = [line for line in lines if line.startswith("| hawk")]
    [hpa] = [line for line in lines if line.startswith("| hpa")]

    assert [cell.strip() for cell in goals.split("|")[9:13]] == ["keda", "4.00", "2.0", "-25%"]
    assert "| 3.00 | 1.50 | 1.20 |" in ours
    assert "| **99.50%** |" in ours
    assert "| 90.00% |" in hpa
    assert "| 1.00 | 0.50 | 0.50 |" in hpa


def test_a_stale_picture_is_named_and_mended(tmp_path):
    save(tmp_path / page.RESULTS, result())
    (tmp_path / page.PAGE).write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.write(tmp_path)
    assert page.stale(tmp_path) == []
    text = (tmp_path / page.PAGE).read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text

    picture = tmp_path / page.RESULTS / "t-slack-cost.svg"
    picture.write_text(picture.read_text().replace("US dollars", "euros"))
    assert page.stale(tmp_path) == [picture]


def test_a_picture_is_the_same_every_time():
    made = result()
    first, second = (over_time("t", made.load, made.courses) for _ in range(2))

    assert first == second
    assert b"hawk, decode" in first
    assert costs("t", made.curves, "png") == costs("t", made.curves, "png")


def test_a_load_is_the_mean_of_each_minute():
    trace = Trace("t", (TraceRequest(0.0, 100, 10), TraceRequest(59.0, 200, 20), TraceRequest(61.0, 600, 60)))

    assert BinnedLoad.of(trace) == BinnedLoad(60.0, (0.0333, 0.0167), (5.0, 10.0), (0.5, 1.0))


@pytest.mark.slow
def test_a_comparison_in_pieces_is_the_comparison(tmp_path):
    """Every run is found again; the clairvoyant costs no more than anybody who meets the objectives."""
    trace = Stream(steady(CHAT, 8.0), 3).trace("chat:3", 600.0)
    names = "hawk", "hpa", "fixed:1:2", "static-best", "oracle"
    first = measure(trace, QueueOrder.SLACK, store=Store(tmp_path), policies=names)
    told: list[str] = []
    store = Store(tmp_path)
    again = measure(
        trace, QueueOrder.SLACK, store=store, policies=names, tell=lambda name, _: told.append(name)
    )

    assert again == first
    assert not told
    assert [r.policy for r in first.rows if r.policy != LENDS] == list(names)
    known = first.row("oracle")
    assert known is not None
    assert known.of_attainable >= 0.99
    assert all(known.usd <= r.usd for r in first.rows if r.of_attainable >= 0.99 and r.policy != LENDS)
    assert first.courses[0].policy == "hawk"
