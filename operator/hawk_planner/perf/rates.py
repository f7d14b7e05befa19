"""The rates that a replica reaches: its devices' peaks, and the shares of them that engines get. Pure.

The shares are assumptions with a name, so that a decision prints them and a measurement corrects them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import InterconnectKind, Precision
from hawk_planner.perf.collectives import Interconnect, seconds_per_byte

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from hawk_api.v1alpha1.acceleratorclass import AcceleratorClassSpec

__all__ = ["ASSUMED", "Efficiency", "Rates", "interconnect_of", "peak_at", "rates_of"]

_SIXTEEN_BITS = (Precision.BFLOAT16, Precision.FLOAT16)


@dataclass(frozen=True)
class Efficiency:
    """The shares of the peaks that are reached."""

    prefill_mfu: float = 0.60
    """Share of peak FLOP/s; 60 to 75% is commonly published for long prompts."""
    decode_mbu: float = 0.70
    """Share of peak memory bandwidth."""
    usable_memory: float = 0.90
    """Share of memory that weights and KV may fill; the rest holds activations and the runtime."""
    step_seconds: float = 0.001
    """Scheduling and launching one step."""
    tensor: float = 0.95
    """The share of the rates left at each doubling of a replica's devices, if its interconnect is unknown."""
    wire: float = 0.80
    """Share of an interconnect's rate that an all-reduce reaches."""
    exchange_seconds: float = 10e-6
    """Of one all-reduce besides its bytes."""
    most_sequences: int = 256
    """Sequences that an engine decodes at once where its template doesn't say: vLLM's own default."""


ASSUMED = Efficiency()
"""The defaults, for all that nobody gives or measures."""


@dataclass(frozen=True)
class Rates:
    """The rates that one replica reaches, all its devices together."""

    flops: float
    """FLOP/s of linear layers, at the precision of the weights."""
    attention_flops: float
    """FLOP/s of attention: keys and values are multiplied in 16 bits, whatever the weights are."""
    bytes_per_second: float
    overhead_s: float
    """Of each step."""
    wire_s: float = 0.0
    """Of a byte of activations that the devices exchange."""
    exchange_s: float = 0.0
    """Of an exchange besides its bytes."""


def rates_of(
    flops: float,
    bandwidth: float,
    *,
    attention_flops: float | None = None,
    devices: int = 1,
    interconnect: Interconnect | None = None,
    efficiency: Efficiency = ASSUMED,
) -> Rates:
    """The rates reached by `devices` devices whose peaks together are `flops` and `bandwidth` (bytes/s)."""
    shared = devices > 1 and interconnect is not None
    sharing = 1.0 if shared else efficiency.tensor ** math.log2(max(1, devices))
    return Rates(
        flops=flops * efficiency.prefill_mfu * sharing,
        attention_flops=(attention_flops or flops) * efficiency.prefill_mfu * sharing,
        bytes_per_second=bandwidth * efficiency.decode_mbu * sharing,
        overhead_s=efficiency.step_seconds,
        wire_s=seconds_per_byte(interconnect, devices, efficiency.wire) if interconnect else 0.0,
        exchange_s=efficiency.exchange_seconds if shared else 0.0,
    )


def peak_at(flops: Mapping[Precision, Decimal] | None, precision: Precision | None = None) -> float | None:
    """Peak FLOP/s at `precision`, else at 16 bits: narrower weights are widened first. None if unknown."""
    for wanted in (precision, *_SIXTEEN_BITS):
        if wanted is not None and flops and wanted in flops:
            return float(flops[wanted])
    return None


def interconnect_of(spec: AcceleratorClassSpec | None) -> Interconnect | None:
    """The interconnect of a class; None where it isn't known."""
    found = spec.interconnect if spec else None
    return (
        None
        if found is None
        else Interconnect(float(found.bandwidth), found.devices, hosted=found.kind is InterconnectKind.PCIE)
    )
