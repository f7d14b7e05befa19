"""The exchanges of devices that share a model's layers (tensor parallelism). Pure.

Each layer adds up the partial results of all devices twice, after its attention and after its feed-forward
network. A ring of n devices moves 2 (n - 1) / n of the activations over each device's link, and nothing of
the step overlaps with it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BETWEEN_DOMAINS", "EACH_LAYER", "HOST", "Interconnect", "seconds_per_byte"]

EACH_LAYER = 2
"""All-reduces of one layer."""
BETWEEN_DOMAINS = 50e9
"""Bytes a second of a device to those outside its domain: a 400G port each."""
HOST = 18e9
"""Bytes a second that all PCIe cards of a node share where their traffic passes through the host.

AIConfigurator's tables of four and eight L40S fit it: 3.7 and 1.9 GB/s a card.
"""


@dataclass(frozen=True)
class Interconnect:
    """How devices of one replica reach each other."""

    bytes_per_second: float
    """Of one device, in one direction."""
    devices: int
    """Devices in a domain."""
    hosted: bool = False
    """True of PCIe cards: beyond a domain their traffic passes through the host."""

    def rate(self, devices: int) -> float:
        """Bytes a second of the slowest link among so many devices."""
        if devices <= self.devices:
            return self.bytes_per_second
        return min(self.bytes_per_second, HOST / devices if self.hosted else BETWEEN_DOMAINS)


def seconds_per_byte(interconnect: Interconnect, devices: int, reached: float) -> float:
    """Seconds of an all-reduce a byte of activations; `reached` is the share of the rate that it gets."""
    if devices < 2:
        return 0.0
    return 2.0 * (devices - 1) / devices / (interconnect.rate(devices) * reached)
