"""The rates that a replica reaches: its devices' peaks, and the shares of them that engines get. Pure.

The shares are assumptions with a name, so that a decision prints them and a measurement corrects them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_api.v1alpha1.enums import Precision

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

__all__ = ["ASSUMED", "Efficiency", "Rates", "peak_at", "rates_of"]

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
    """The share of the rates that is left at each doubling of a replica's devices."""
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


def rates_of(
    flops: float,
    bandwidth: float,
    *,
    attention_flops: float | None = None,
    devices: int = 1,
    efficiency: Efficiency = ASSUMED,
) -> Rates:
    """The rates reached by `devices` devices whose peaks together are `flops` and `bandwidth` (bytes/s)."""
    sharing = efficiency.tensor ** math.log2(max(1, devices))
    return Rates(
        flops=flops * efficiency.prefill_mfu * sharing,
        attention_flops=(attention_flops or flops) * efficiency.prefill_mfu * sharing,
        bytes_per_second=bandwidth * efficiency.decode_mbu * sharing,
        overhead_s=efficiency.step_seconds,
    )


def peak_at(flops: Mapping[Precision, Decimal] | None, precision: Precision | None = None) -> float | None:
    """Peak FLOP/s at `precision`, else at 16 bits: narrower weights are widened first. None if unknown."""
    for wanted in (precision, *_SIXTEEN_BITS):
        if wanted is not None and flops and wanted in flops:
            return float(flops[wanted])
    return None
