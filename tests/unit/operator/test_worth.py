"""When the verdict on a split is made again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hawk_api.v1alpha1 import HawkPool
from hawk_operator.reconcile import worth
from hawk_operator.reconcile.memory import PoolMemory
from hawk_planner.traffic import SideTraffic, Window, distribution, signals

from .build import group_spec


def case(**changes: Any) -> Any:
    groups = [group_spec("p", "Prefill"), group_spec("d", "Decode")]
    pool = HawkPool.model_validate(
        {
            "metadata": {"name": "a", "namespace": "ns", "generation": 1},
            "spec": {"model": {"preset": "mistral-7b-instruct-v0.2"}, "groups": groups},
        }
    )
    given = {"pool": pool, "geometry": None, "classes": {}, "memory": PoolMemory(), **changes}
    return SimpleNamespace(**given)


def window(rate: float, prompt: float = 1500.0) -> Window:
    lengths = [signals.value(distribution.of({mean: 1.0})) for mean in (prompt, 200.0)]
    return Window(
        0.0,
        60.0,
        SideTraffic(arrivals=signals.value(rate), prompt=lengths[0]),
        SideTraffic(arrivals=signals.value(rate), output=lengths[1]),
        burstiness=signals.value(1.0),
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def condition(spec: Any, classes: Any, traffic: Any, *, geometry: Any) -> Any:
        calls.append(traffic)
        return SimpleNamespace(status=None, reason=None, message=f"verdict {len(calls)}")

    monkeypatch.setattr("hawk_planner.payoff.verdict.condition", condition)
    return calls


def test_the_verdict_stays_while_traffic_is_near_what_it_was_made_for(asked: list[Any]) -> None:
    one = case()
    messages = [worth.judge_split(one, window(rate)).message for rate in (2.0, 2.4, 1.6, 2.6, 2.4)]

    assert messages == ["verdict 1"] * 3 + ["verdict 2"] * 2, (
        "compared with what was judged, not with the last"
    )


@pytest.mark.parametrize("other", [None, window(0.0), window(2.0, prompt=3000.0)])
def test_other_traffic_is_judged(asked: list[Any], other: Window | None) -> None:
    one = case()
    worth.judge_split(one, window(2.0))
    worth.judge_split(one, other)
    worth.judge_split(one, other)

    assert [seen is other for seen in asked] == [False, True]


def test_another_class_is_judged(asked: list[Any]) -> None:
    one = case()
    worth.judge_split(one, window(2.0))
    worth.judge_split(case(memory=one.memory, classes={"x": object()}), window(2.0))

    assert len(asked) == 2
