"""The condition PaysOff: true, false, and unknown with the name of what is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hawk_api.models import Geometry, load_preset
from hawk_api.reasons import Reason
from hawk_planner.payoff.assumptions import Given
from hawk_planner.payoff.verdict import PaysOff, condition, given_by
from hawk_planner.traffic.distribution import of
from hawk_planner.traffic.signals import missing, value
from hawk_planner.traffic.window import SideTraffic, Window

from .pools import CLASSES, class_with, pool

TRAFFIC = Given(requests_per_second=10, prompt_tokens=2048, output_tokens=256)
GEOMETRY = load_preset("llama-3.1-8b")


def judged(
    spec: Any = None,
    classes: Any = None,
    traffic: Any = TRAFFIC,
    link: float | None = 50e9,
    geometry: Geometry | None = GEOMETRY,
) -> PaysOff:
    return condition(spec or pool(), classes or CLASSES, traffic, link, geometry=geometry)


def with_price(gpu: str, npu: str) -> dict[str, Any]:
    return {
        "gpu": class_with("gpu", price_per_hour=gpu),
        "npu": class_with("npu", price_per_hour=npu),
    }


def test_a_split_onto_cheap_devices_pays() -> None:
    verdict = judged(pool(itl="25ms"), with_price("8", "0.5"))
    assert (verdict.status, verdict.reason) == (True, Reason.PAYS_OFF)
    assert "10 requests/s of 2048 + 256 tokens" in verdict.message


def test_a_split_onto_dear_devices_does_not_pay() -> None:
    verdict = judged(classes=with_price("1", "40"))
    assert (verdict.status, verdict.reason) == (False, Reason.DOES_NOT_PAY_OFF)
    assert "USD a million tokens" in verdict.message


def test_a_decode_device_too_slow_for_the_objective_does_not_pay() -> None:
    slow = CLASSES | {"npu": class_with("npu", bandwidth="200e9")}
    verdict = judged(classes=slow)
    assert verdict.status is False
    assert "ITL: one sequence alone takes" in verdict.message


@pytest.mark.parametrize("name", ["flops", "memory", "bandwidth"])
def test_an_unknown_rate_is_named_and_nothing_is_assumed_for_it(name: str) -> None:
    verdict = judged(classes=CLASSES | {"npu": class_with("npu", **{name: None})})
    assert (verdict.status, verdict.reason) == (None, Reason.NOT_ENOUGH_KNOWN)
    assert f"npu.{name}" in verdict.message


@pytest.mark.parametrize("name", ["power", "price"])
def test_an_unknown_price_is_named(name: str) -> None:
    verdict = judged(classes=CLASSES | {"npu": class_with("npu", **{name: None})})
    assert (verdict.status, verdict.reason) == (None, Reason.NOT_ENOUGH_KNOWN)
    assert "price: that of npu isn't known" in verdict.message


def test_an_unmeasured_link_is_not_assumed() -> None:
    """Unknown where a link could decide; false where none could."""
    unknown = judged(pool(itl="25ms"), with_price("8", "0.5"), link=None)
    hopeless = judged(classes=with_price("1", "40"), link=None)
    assert (unknown.status, unknown.reason) == (None, Reason.NOT_ENOUGH_KNOWN)
    assert "link: its rate was never measured" in unknown.message
    assert hopeless.status is False
    assert "no link would change that" in hopeless.message


def test_an_unknown_class_is_named() -> None:
    verdict = judged(pool(decode="moon"))
    assert (verdict.status, verdict.reason) == (None, Reason.NOT_ENOUGH_KNOWN)
    assert "moon is not a known AcceleratorClass" in verdict.message


def test_a_pool_of_one_role_splits_nothing() -> None:
    verdict = judged(pool(roles=("Both", "Both")))
    assert (verdict.status, verdict.reason) == (None, Reason.NOT_NEEDED)


def test_an_unknown_model_and_no_traffic_are_named() -> None:
    assert "model: its geometry" in judged(geometry=None).message
    assert "set spec.traffic" in judged(traffic=None).message


def test_a_model_that_does_not_fit_never_pays() -> None:
    verdict = judged(pool("llama-3.3-70b"), geometry=load_preset("llama-3.3-70b"))
    assert verdict.status is False
    assert "don't fit 1 x gpu" in verdict.message


def window(rate: float = 10.0, **changes: Any) -> Window:
    side = {"arrivals": value(rate), "prompt": value(of({1024: 1, 3072: 1})), "output": value(of({256: 1}))}
    return Window(
        time=0.0,
        seconds=60.0,
        prefill=SideTraffic(**{**side, **changes}),
        decode=SideTraffic(**{**side, **changes}),
        burstiness=value(1.5),
    )


def test_a_window_of_traffic_is_read_by_its_means() -> None:
    given = given_by(window(), 25e9)
    assert (given.requests_per_second, given.prompt_tokens, given.output_tokens) == (10, 2048, 256)
    assert (given.dispersion, given.link_bytes_per_second) == (1.5, 25e9)
    assert "2048 + 256 tokens" in judged(traffic=window()).message


def test_a_lost_or_idle_window_is_unknown() -> None:
    lost = judged(traffic=window(prompt=missing("no series")))
    idle = judged(traffic=window(rate=0.0))
    assert (lost.status, idle.status) == (None, None)
    assert "prompt tokens" in lost.message
    assert "no requests arrive" in idle.message


def test_measured_transfers_are_the_link() -> None:
    """The agents' rate over the pool's rails decides as a given rate of one rail does, and is named."""
    spec = pool(itl="25ms", transfer={"rails": 2})
    classes = with_price("8", "0.5")
    seen = replace(window(), link=value(100e9))
    measured = judged(spec, classes, traffic=seen, link=None)
    assert measured == judged(spec, classes, traffic=window(), link=50e9)
    assert "over 2 x 400 Gb/s measured" in measured.message
    assert judged(spec, classes, traffic=window(), link=None).status is None
