"""Pairs of devices and systems that the pay-off paper names, with the shipped classes that describe them.

A device without a class has no published figures that could be cited: what isn't known is left unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .candidate import ServingMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.v1alpha1 import AcceleratorClassSpec

__all__ = ["PAIRS", "DevicePair", "Named", "unknown_figures"]


@dataclass(frozen=True)
class Named:
    """A device as it is named, and its shipped class; None where there is none."""

    name: str
    accelerator_class: str | None = None


@dataclass(frozen=True)
class DevicePair:
    """Devices that share requests, in the order of their work, and the system that pairs them."""

    split: ServingMode
    first: Named
    second: Named
    system: str = ""


H100, H200 = Named("NVIDIA H100", "h100-sxm5"), Named("NVIDIA H200", "h200-sxm")
A100 = Named("NVIDIA A100", "a100-sxm4-80g")
RUBIN, LPX = Named("NVIDIA Rubin", "rubin"), Named("Groq LPX", "groq-3-lpu")
GB200 = Named("NVIDIA GB200 NVL72", "gb200-nvl72")
GPU = Named("a GPU")

PAIRS: tuple[DevicePair, ...] = (
    DevicePair(ServingMode.SPLIT, H100, Named("Rebellions ATOM-Max", "rebellions-atom-max"), "HAWK"),
    DevicePair(ServingMode.SPLIT, H100, Named("Tenstorrent p150", "tenstorrent-p150"), "HAWK"),
    DevicePair(
        ServingMode.SPLIT, Named("AWS Trainium2", "trainium2"), Named("Cerebras CS-3", "cerebras-cs3")
    ),
    DevicePair(ServingMode.SPLIT, RUBIN, LPX),
    DevicePair(
        ServingMode.SPLIT, Named("NVIDIA B200", "b200-sxm"), Named("SambaNova SN40L", "sambanova-sn40l")
    ),
    DevicePair(ServingMode.SPLIT, H200, Named("SambaNova SN50", "sambanova-sn50")),
    DevicePair(ServingMode.SPLIT, H100, A100, "Splitwise"),
    DevicePair(ServingMode.SPLIT, A100, A100, "DistServe"),
    DevicePair(
        ServingMode.ATTENTION_FFN,
        Named("NVIDIA H20", "h20-sxm"),
        Named("NVIDIA L40S", "l40s"),
        "MegaScale-Infer",
    ),
    DevicePair(ServingMode.ATTENTION_FFN, RUBIN, LPX),
    DevicePair(ServingMode.ATTENTION_FFN, GB200, GB200, "FastAFD"),
    DevicePair(ServingMode.TARGET_DRAFT, GPU, Named("d-Matrix Corsair", "d-matrix-corsair")),
    DevicePair(ServingMode.TARGET_DRAFT, RUBIN, LPX),
    DevicePair(
        ServingMode.TARGET_DRAFT, Named("NVIDIA A800", "a800-80g"), Named("Intel Xeon", "cpu"), "DuoDecoding"
    ),
    DevicePair(ServingMode.TARGET_DRAFT, GPU, GPU, "EAGLE"),
)
"""Every pair that is named, in the paper's order of splits."""

FIGURES = ("flops", "memory", "bandwidth", "power", "price", "price_per_hour")


def unknown_figures(named: Named, classes: Mapping[str, AcceleratorClassSpec]) -> tuple[str, ...]:
    """Return the figures of a device that a plan has to be given; a price of either kind is enough."""
    spec = classes.get(named.accelerator_class or "")
    if spec is None:
        return ("everything",)
    missing = {name for name in FIGURES if not getattr(spec, name)}
    if not {"price", "price_per_hour"} <= missing:
        missing -= {"price", "price_per_hour"}
    return tuple(name for name in FIGURES if name in missing and name != "price_per_hour")
