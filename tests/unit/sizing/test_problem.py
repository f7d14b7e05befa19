"""A pool's spec as the decision sees it, field by field."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module

import pytest

from hawk_api.models import load_preset
from hawk_api.v1alpha1 import AcceleratorClassSpec, HawkPool
from hawk_api.v1alpha1.enums import Fallback, QueueOrder, Role, ScalingMode
from hawk_planner import sizing
from hawk_planner.perf.objectives import LatencyObjective
from hawk_planner.perf.work import ModelWork
from hawk_planner.sizing import Problem, SizedGroup, Worker
from tests.unit.sizing.pools import GPU

CONTAINERS = {"spec": {"containers": [{"name": "engine", "image": "example/engine:1"}]}}
GEOMETRY = load_preset("mistral-7b-instruct-v0.2")
CLASSES = {
    "gpu": AcceleratorClassSpec.model_validate(
        {
            "flops": {"bfloat16": "100T"},
            "bandwidth": "3T",
            "memory": "80G",
            "power": "700",
            "price": "30000",
            "pricePerHour": "2",
            "startup": "90s",
        }
    )
}


def body(scaling=None, annotations=None, **spec):
    groups = [
        {"name": "p", "role": "Prefill", "acceleratorClass": "gpu", "acceleratorsPerReplica": 2},
        {"name": "d", "role": "Decode", "acceleratorClass": "unheard-of"},
    ]
    for group in groups:
        group |= {"replicas": {"min": 2, "max": 5}, "template": CONTAINERS}
    return HawkPool.model_validate(
        {
            "apiVersion": "hawkpool.dev/v1alpha1",
            "kind": "HawkPool",
            "metadata": {"name": "a", "namespace": "ns", "annotations": annotations or {}},
            "spec": {
                "model": {"preset": "mistral-7b-instruct-v0.2"},
                "groups": groups,
                "scaling": scaling or {},
            }
            | spec,
        }
    )


def test_a_spec_that_says_everything_is_read_whole():
    pool = body(
        scaling={
            "mode": "Advise",
            "budget": {"devices": 12, "usdPerHour": "40"},
            "ratio": {"min": "1:3", "max": "2:1"},
            "startupRatio": "1:2",
            "tolerance": "0.2",
            "behavior": {
                "scaleUp": {"stabilizationWindow": "7s"},
                "scaleDown": {"stabilizationWindow": "70s"},
            },
            "interval": "20s",
            "burstReserve": "None",
            "fallback": "Startup",
        },
        annotations={"hawkpool.dev/force-ratio": "3:4", "hawkpool.dev/paused": "True"},
        objectives={
            "ttft": {"percentile": 95, "target": "2s", "stretch": "3"},
            "itl": {"percentile": 99, "target": "30ms"},
        },
    )
    found = Problem.of(pool, CLASSES, GEOMETRY, 5e9)

    assert (found.ttft, found.itl) == (LatencyObjective(0.95, 2.0, 3.0), LatencyObjective(0.99, 0.03, 0.0))
    assert (found.budget_devices, found.budget_usd_per_hour) == (12, 40.0)
    assert (found.ratio_min, found.ratio_max) == (Fraction(1, 3), Fraction(2))
    assert (found.startup_ratio, found.forced_ratio) == (Fraction(1, 2), Fraction(3, 4))
    assert (found.tolerance, found.up_window, found.down_window, found.interval) == (0.2, 7.0, 70.0, 20.0)
    assert (found.burst_reserve, found.fallback) == (False, Fallback.STARTUP)
    assert (found.mode, found.paused) == (ScalingMode.ADVISE, True)
    assert found.link_bytes_per_second == 5e9
    assert found.model == ModelWork.of(GEOMETRY, pool.spec.model.kv_dtype, pool.spec.model.weights)


def test_figures_are_of_a_replica_and_a_class_that_is_not_known_has_none():
    known, unknown = Problem.of(body(), CLASSES, None).groups

    assert (known.name, known.role, known.least, known.most, known.device_class) == (
        "p",
        Role.PREFILL,
        2,
        5,
        "gpu",
    )
    assert known.worker == Worker(
        flops=200e12, bandwidth=6e12, memory=160e9, devices=2, attention_flops=200e12
    )
    assert (known.devices, known.usd_per_hour, known.usd, known.watts) == (2, 4.0, 60_000.0, 1400.0)
    assert known.startup_s == 90.0
    assert unknown.worker == Worker(flops=None, bandwidth=None, memory=None, devices=1)
    assert (unknown.usd_per_hour, unknown.usd, unknown.watts, unknown.startup_s) == (None,) * 4
    assert unknown.device_class == "unheard-of"


def test_a_spec_that_says_nothing_has_no_limits():
    found = Problem.of(body(), {}, None)

    assert found.model is None
    assert (found.budget_devices, found.budget_usd_per_hour, found.ratio_min, found.ratio_max) == (None,) * 4
    assert (found.forced_ratio, found.paused, found.link_bytes_per_second) == (None, False, None)
    assert (found.burst_reserve, found.queue_order) == (True, QueueOrder.ARRIVAL)


@pytest.mark.parametrize("text", ["", "three to four", "0:0"])
def test_a_forced_ratio_that_can_not_be_read_forces_nothing(text):
    found = Problem.of(body(annotations={"hawkpool.dev/force-ratio": text}), {}, None)

    assert found.forced_ratio is None


def test_replicas_have_devices_and_a_price_where_all_that_count_have_one():
    groups = (
        SizedGroup("p", Role.PREFILL, 0, 9, GPU, devices=2, usd_per_hour=3.0),
        SizedGroup("d", Role.DECODE, 0, 9, GPU, devices=4),
    )
    problem = Problem(None, groups)

    assert problem.devices({"p": 3, "d": 2}) == 14
    assert problem.usd_per_hour({"p": 3}) == 9.0
    assert problem.usd_per_hour({"p": 3, "d": 1}) is None
    assert [problem.price(group) for group in groups] == [2.0, 4.0]
    assert [group.name for group in problem.side(Role.DECODE)] == ["d"]
    bought = SizedGroup("b", Role.BOTH, 0, 9, GPU, usd=26_280.0)
    assert bought.cost_per_hour == pytest.approx(1.0)
    assert Problem(None, (groups[0], bought)).price(groups[0]) == 3.0


def test_every_name_of_the_room_is_there():
    for name in sizing.__all__:
        made = getattr(sizing, name)
        assert getattr(import_module(made.__module__), name) is made
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sizing.nothing  # noqa: B018 -- asked for to be refused
