"""Published figures of the two founding papers beside what their own inputs give.

Where the inputs give another value, or none, the figure stays "published": it is printed, never derived.
No constant here is tuned to reach a published result.
Inputs: a 70.6 B parameter model with 80 layers, 8 KV heads of 128 in FP16, a context of 32,768 tokens;
H100 SXM5 (989 TFLOP/s, 3.35 TB/s, 700 W, 32,000 USD) and a decode NPU (180 TFLOP/s, 1.8 TB/s, 185 W,
6,500 USD), network ports at 25 W and 1,200 USD.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from . import economics, handoff, pipeline, roofline

__all__ = ["Agreement", "Comparison", "comparisons"]

TOLERANCE = 0.02
"""Relative difference up to which a published figure counts as derived from its inputs."""

PARAMETERS = 70.6e9
CONTEXT = 32768
KV_BYTES = 2 * 80 * 8 * 128 * 2 * CONTEXT
LINK_400G = 50e9
GPU = roofline.Machine(989e12, 3.35e12)
GPU_WATTS, GPU_USD = 700.0, 32000.0
NPU = roofline.Machine(180e12, 1.80e12)
NPU_WATTS, NPU_USD = 185.0, 6500.0
NIC_USD = 1200.0
NAIVE_LINK = 62e9 / 8
"""Bytes a second."""
GPU_RATE, SPLIT_RATE, NAIVE_RATE = 412.0, 548.0, 188.0

GPU_JOULES = economics.joules_per_token(8 * GPU_WATTS, GPU_RATE)

HAWK = "HAWK"
PAYOFF = "When does heterogeneous inference pay off?"


class Agreement(StrEnum):
    """How a published figure and ours relate."""

    AGREES = "agrees"
    DIFFERS = "differs"
    PUBLISHED_ONLY = "published only"


@dataclass(frozen=True)
class Comparison:
    """One figure; a range is (low, high)."""

    paper: str
    figure: str
    unit: str
    published: tuple[float, float]
    derived: tuple[float, float] | None
    how: str
    """How ours is computed, or why it can't be."""

    @property
    def standing(self) -> Agreement:
        """Agrees when the two ranges overlap within the tolerance."""
        if self.derived is None:
            return Agreement.PUBLISHED_ONLY
        low, high = self.published
        slack = TOLERANCE * max(abs(low), abs(high))
        meets = self.derived[0] <= high + slack and self.derived[1] >= low - slack
        return Agreement.AGREES if meets else Agreement.DIFFERS


def _row(
    figure: str,
    unit: str,
    published: float | tuple[float, float],
    derived: float | tuple[float, float] | None,
    how: str,
) -> Comparison:
    def pair(value: float | tuple[float, float]) -> tuple[float, float]:
        return value if isinstance(value, tuple) else (value, value)

    return Comparison(HAWK, figure, unit, pair(published), None if derived is None else pair(derived), how)


def prefill_flops(parameters: float = PARAMETERS, tokens: float = CONTEXT) -> float:
    """Return the FLOPs of a dense prefill without attention: two a parameter and token."""
    return 2 * parameters * tokens


def prefill_seconds(devices: int, mfu: float) -> float:
    """Return the prefill time on `devices` H100 at `mfu`."""
    return prefill_flops() / (devices * GPU.flops * mfu)


def prefill_range_ms(devices: int) -> tuple[float, float]:
    """Return the prefill time in ms at 75 and at 60% MFU."""
    return prefill_seconds(devices, 0.75) * 1e3, prefill_seconds(devices, 0.6) * 1e3


def in_flight() -> float:
    """Return the requests that 548 tokens/s at 14.5 ms a token keep in flight."""
    return SPLIT_RATE * 14.5e-3


def step_bytes() -> float:
    """Return what one decode step of those requests reads: weights once, each one's KV."""
    return 2 * PARAMETERS + in_flight() * KV_BYTES


def _times() -> list[Comparison]:
    exposed = pipeline.chunk_timeline(
        [KV_BYTES / 80] * 80,
        chunk_layers=16,
        compute_seconds_per_chunk=18.2e-3,
        rail_bytes_per_second=LINK_400G,
    )
    compute = "2 x 70.6e9 x 32,768 FLOPs without attention, at 60 to 75% of 989 TFLOP/s"
    return [
        _row(
            "KV cache", "GB", 10.74, KV_BYTES / 1e9, "2 x 80 layers x 8 heads x 128 x 2 bytes x 32,768 tokens"
        ),
        _row(
            "transfer of a 16-layer chunk",
            "ms",
            14.1,
            KV_BYTES / 5 / LINK_400G * 1e3,
            "2.147 GB on one 400G port; 14.1 ms need 3.05 ports",
        ),
        _row(
            "compute of a 16-layer chunk",
            "ms",
            18.2,
            prefill_flops() / 5 / (8 * GPU.flops) * 1e3,
            "a fifth of the prefill on 8 H100 at 100% of peak; 18.2 ms need 51 H100",
        ),
        _row(
            "transfer on one 400G port",
            "ms",
            214,
            KV_BYTES / LINK_400G * 1e3,
            "the KV cache at 50 GB/s",
        ),
        _row(
            "exposed transfer, 16-layer chunks",
            "ms",
            (0, 18),
            exposed.exposed_seconds * 1e3,
            "18.2 ms of compute a chunk, one port; under 18 ms from three ports up",
        ),
        _row(
            "resident when prefill ends",
            "%",
            (80, 100),
            exposed.resident_share * 100,
            "whole chunks, one port",
        ),
        _row("TTFT, 8 H100", "ms", 162.4, prefill_range_ms(8), compute),
        _row(
            "TTFT, 2 H100 + 6 NPU",
            "ms",
            175.2,
            prefill_range_ms(2),
            compute,
        ),
        _row(
            "TTFT, split without translation",
            "ms",
            384.8,
            KV_BYTES / NAIVE_LINK * 1e3,
            "moving the KV cache at the published 62 Gb/s takes longer, without prefill and copies",
        ),
        _row(
            "ITL, 2 H100 + 6 NPU",
            "ms",
            14.5,
            step_bytes() / (6 * NPU.bytes_per_second) * 1e3,
            "7.9 requests in flight: weights and KV, 226.5 GB, at 100% of 6 x 1.8 TB/s",
        ),
        _row("ITL, 8 H100", "ms", 14.2, None, "the batch is not published"),
        _row(
            "tokens a second, 8 H100",
            "1/s",
            GPU_RATE,
            None,
            "the batch and arrivals are not published",
        ),
        _row("tokens a second, split without translation", "1/s", NAIVE_RATE, None, "measured"),
        _row(
            "tokens a second, 2 H100 + 6 NPU",
            "1/s",
            SPLIT_RATE,
            None,
            "the output length is not published",
        ),
        _row("added ITL", "%", 2.1, (14.5 / 14.2 - 1) * 100, "of the published times"),
        _row(
            "added TTFT, without translation", "%", 136, (384.8 / 162.4 - 1) * 100, "of the published times"
        ),
        _row("added TTFT", "%", 7.88, (175.2 / 162.4 - 1) * 100, "of the published times"),
        _row("added tokens a second", "%", 33, (SPLIT_RATE / GPU_RATE - 1) * 100, "of the published rates"),
        _row("translation on the NPU", "ms", (120, 240), None, "measured on the NPU"),
        _row("bytes read and written by it", "GB", 21.48, 2 * KV_BYTES / 1e9, "the KV cache twice"),
    ]


def _energy_and_money() -> list[Comparison]:
    split_watts = 2 * GPU_WATTS + 6 * NPU_WATTS
    split_usd, all_usd = 2 * GPU_USD + 6 * NPU_USD, 8 * GPU_USD
    ports = 8 * NIC_USD
    ratio = economics.capital_per_rate(split_usd, SPLIT_RATE) / economics.capital_per_rate(all_usd, GPU_RATE)
    with_ports = economics.capital_per_rate(split_usd + ports, SPLIT_RATE) / economics.capital_per_rate(
        all_usd + ports, GPU_RATE
    )
    gpu_price = economics.price_per_bandwidth(GPU_USD, GPU.bytes_per_second)
    npu_price = economics.price_per_bandwidth(NPU_USD, NPU.bytes_per_second)
    return [
        _row("power, 8 H100", "W", 5600, 8 * GPU_WATTS, "8 x 700 W"),
        _row("power, 2 H100 + 6 NPU", "W", 2510, split_watts, "2 x 700 + 6 x 185 W"),
        _row(
            "energy, 8 H100",
            "J/token",
            13.59,
            GPU_JOULES,
            "5,600 W / 412 tokens/s",
        ),
        _row(
            "energy, 2 H100 + 6 NPU",
            "J/token",
            10.78,
            economics.joules_per_token(split_watts, SPLIT_RATE),
            "2,510 W / 548 tokens/s; the published value is 13.59 / 1.26",
        ),
        _row(
            "saved energy, as a factor",
            "",
            1.26,
            GPU_JOULES / 10.78,
            "of the published energies, not of the published watts over tokens",
        ),
        _row(
            "relative cost of ownership",
            "",
            0.58,
            (ratio, with_ports),
            "purchase price for a token a second, without and with a network port each",
        ),
        _row("saved cost, as a factor", "", 1.72, 1 / 0.58, "of the published relative cost"),
        _row("saved cost", "%", 42, (1 - 0.58) * 100, "of the published relative cost"),
        _row("price of bandwidth, H100", "USD per TB/s", 9552, gpu_price, "32,000 USD / 3.35 TB/s"),
        _row("price of bandwidth, NPU", "USD per TB/s", 3611, npu_price, "6,500 USD / 1.80 TB/s"),
        _row("its ratio", "", 2.64, gpu_price / npu_price, "of the two"),
    ]


def _utilisation() -> list[Comparison]:
    kv_a_token = KV_BYTES / CONTEXT

    def intensity(tokens: float) -> float:
        return roofline.Work(2 * PARAMETERS * tokens, 2 * PARAMETERS + kv_a_token * tokens).intensity

    longest = roofline.Work(2 * PARAMETERS, 2 * PARAMETERS + KV_BYTES).intensity
    limit = "the roofline at the published intensity"
    return [
        _row(
            "prefill intensity at 2,048 tokens",
            "FLOPs/byte",
            (150, 320),
            intensity(2048),
            "2 FLOPs a parameter and token; weights read once, KV written once",
        ),
        _row(
            "decode intensity, batch 1",
            "FLOPs/byte",
            (1.2, 2.4),
            (longest, intensity(1)),
            "2 FLOPs a parameter; weights and KV read, any context",
        ),
        _row("prefill MFU, H100", "%", (60, 75), None, "measured"),
        _row("decode MFU, H100", "%", (2.8, 5.2), roofline.mfu_limit(2.4, GPU) * 100, limit),
        _row("decode MFU, NPU", "%", (42, 68), roofline.mfu_limit(2.4, NPU) * 100, limit),
        _row(
            "effective link of the naive path", "Gb/s", (62, 380), None, "measured; it falls from 380 to 62"
        ),
    ]


def _other_papers() -> list[Comparison]:
    state = handoff.price_handoff(handoff.Handoff(147456 * 32768, 1, 25e9))
    return [
        Comparison(
            "Mooncake",
            "transfer of Qwen3-8B's KV, 32,768 tokens",
            "ms",
            (31.65, 31.65),
            None,
            f"measured: 4.83 GB at 152.7 GB/s; one 200G port takes {state.transfer_seconds * 1e3:.0f} ms",
        ),
        Comparison(PAYOFF, "accepted of 4 drafts, refactoring", "tokens", (3.95, 3.95), None, "measured"),
        Comparison(PAYOFF, "accepted of 4 drafts, prose", "tokens", (1.24, 1.24), None, "measured"),
        Comparison(PAYOFF, "decisions for 8 drafts, refactoring", "%", (92, 92), None, "measured"),
        Comparison(
            PAYOFF,
            "move of 470 MB of state",
            "s",
            (1.3, 1.3),
            None,
            "measured; mostly polling between decode steps, bytes alone would be tens of ms",
        ),
    ]


def comparisons() -> list[Comparison]:
    """Return every published figure, with ours where the inputs give one."""
    return [*_times(), *_energy_and_money(), *_utilisation(), *_other_papers()]
