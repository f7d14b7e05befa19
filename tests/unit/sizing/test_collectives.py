"""The cost of sharing a model's layers among devices: all-reduces over their interconnect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hawk_api import catalogue
from hawk_api.models import load_preset
from hawk_api.v1alpha1 import AcceleratorClassSpec, HawkPool
from hawk_planner.payoff.split import split
from hawk_planner.perf.collectives import BETWEEN_DOMAINS, HOST, Interconnect, seconds_per_byte
from hawk_planner.perf.rates import interconnect_of, rates_of
from hawk_planner.perf.steps import prompt_seconds
from hawk_planner.perf.work import ModelWork
from hawk_planner.sizing import Problem, Worker
from tests.unit.payoff.pools import CLASSES, pool, scenario

QWEN = ModelWork.of(load_preset("qwen3-32b"), "float16")
NVLINK, PCIE = Interconnect(450e9, 8), Interconnect(32e9, 2, hosted=True)


def test_a_ring_of_four_over_pcie_needs_its_bytes_alone_157_ms() -> None:
    """64 layers, two all-reduces of 2,000 x 5,120 elements of 16 bits each, 1.5 times over 25 GB/s."""
    prompt = QWEN.prompt(2000)
    assert prompt.exchange_bytes == 64 * 2 * 2000 * 5120 * 2
    assert prompt.exchange_bytes * seconds_per_byte(Interconnect(25e9, 4), 4, 1.0) == pytest.approx(
        0.157, abs=5e-4
    )


def test_four_l40s_prefill_about_as_slowly_as_they_were_timed() -> None:
    """AIConfigurator says 983 to 1,232 ms of 2,000 tokens; without an interconnect it was 166."""
    l40s = {"flops": 4 * 362e12, "bandwidth": 4 * 864e9, "memory": 4 * 48e9, "devices": 4}
    seconds = Worker(**l40s, interconnect=PCIE).prefill_seconds(QWEN, 2000)
    assert 0.9 < seconds < 1.4
    assert Worker(**l40s).prefill_seconds(QWEN, 2000) < 0.2
    assert Worker(**l40s, interconnect=NVLINK).prefill_seconds(QWEN, 2000) < 0.2


@pytest.mark.parametrize("devices", [2, 3, 4, 8, 16, 72])
def test_more_devices_never_have_a_faster_link_each(devices: int) -> None:
    for one in (NVLINK, PCIE):
        assert seconds_per_byte(one, devices, 0.8) > 0
        assert one.rate(devices) <= one.rate(devices - 1) <= one.bytes_per_second


def test_beyond_a_domain_the_traffic_leaves_the_node_or_passes_the_host() -> None:
    assert NVLINK.rate(8) == 450e9
    assert NVLINK.rate(9) == BETWEEN_DOMAINS
    assert PCIE.rate(2) == 32e9
    assert PCIE.rate(4) == HOST / 4


def test_one_device_exchanges_nothing_whatever_its_interconnect() -> None:
    alone, with_link = rates_of(1e15, 1e12), rates_of(1e15, 1e12, interconnect=NVLINK)
    assert alone == with_link
    assert prompt_seconds(QWEN.prompt(100), alone) == prompt_seconds(QWEN.prompt(100), with_link)


def test_a_link_as_fast_as_one_likes_leaves_the_full_rates() -> None:
    endless = rates_of(8e15, 8e12, devices=8, interconnect=Interconnect(1e30, 8))
    assert endless.flops == 8 * rates_of(1e15, 1e12).flops
    assert endless.wire_s == pytest.approx(0)


def test_the_halves_of_a_step_exchange_what_the_whole_does() -> None:
    whole, parts = QWEN.decode(1000), (QWEN.attention_part(1000), QWEN.ffn_part())
    assert sum(part.exchange_bytes for part in parts) == whole.exchange_bytes
    assert sum(part.exchanges for part in parts) == whole.exchanges == 128


def test_sizing_and_plan_read_the_same_interconnect() -> None:
    body = CLASSES["gpu"].to_dict() | {"interconnect": {"kind": "PCIe", "bandwidth": "32G", "devices": 2}}
    classes = CLASSES | {"gpu": AcceleratorClassSpec.model_validate(body)}
    spec = pool(devices=(4, 1))
    whole = HawkPool.model_validate(
        {
            "apiVersion": "hawkpool.dev/v1alpha1",
            "kind": "HawkPool",
            "metadata": {"name": "p"},
            "spec": spec.to_dict(),
        }
    )
    group = Problem.of(whole, classes, load_preset("llama-3.1-8b")).groups[0]
    assert group.worker.interconnect == PCIE
    found = split(scenario(spec, classes)).parts["prefill_seconds"]
    sized = group.worker.prefill_seconds(ModelWork.of(load_preset("llama-3.1-8b"), "float16"), 2048)
    assert found == pytest.approx(sized, rel=1e-9)
    slow = replace(group.worker, interconnect=None)
    assert found > slow.prefill_seconds(ModelWork.of(load_preset("llama-3.1-8b"), "float16"), 2048)


def test_the_shipped_classes_without_an_interconnect_are_those_of_which_none_is_certain() -> None:
    lacking = {name for name, one in catalogue.shipped().items() if interconnect_of(one) is None}
    assert lacking == {
        "a800-80g",
        "cerebras-cs3",
        "cpu",
        "d-matrix-corsair",
        "decode-npu",
        "furiosa-rngd",
        "groq-3-lpu",
        "rebellions-atom-max",
        "sambanova-sn40l",
        "sambanova-sn50",
        "tenstorrent-n300",
        "tenstorrent-p150",
        "trainium2",
    }
