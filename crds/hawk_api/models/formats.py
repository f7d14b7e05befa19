"""Number formats of weights: how many bytes one takes, scales and zero points included."""

from __future__ import annotations

from dataclasses import dataclass

from hawk_api.v1alpha1.enums import Precision


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """A number format as a checkpoint stores it."""

    precision: Precision
    bytes: float
    """Bytes of one weight, with its share of the scales and zero points of its group."""


BFLOAT16 = WeightFormat(Precision.BFLOAT16, 2.0)
FLOAT8_BLOCKS = WeightFormat(Precision.FLOAT8, 1 + 4 / 128**2)
"""Blocks of 128x128 with a scale of four bytes, as DeepSeek publishes."""
MXFP4 = WeightFormat(Precision.FLOAT4, 1 / 2 + 1 / 32)
"""Groups of 32 with a scale of one byte (OCP Microscaling Formats 1.0)."""


def plain(precision: Precision) -> WeightFormat:
    """Return the format of weights in `precision` as it is commonly stored."""
    return WeightFormat(precision, precision.bytes)


@dataclass(frozen=True, slots=True)
class LayerFormats:
    """The formats of one layer's weights; its norms and router have the model's."""

    attention: WeightFormat = BFLOAT16
    ffn: WeightFormat = BFLOAT16
    """Of a dense network, and of experts that every token goes through."""
    experts: WeightFormat = BFLOAT16
    """Of routed experts."""


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Bytes of a model's weights by their part in it."""

    experts: float
    """Routed experts, all of them."""
    ffn: float
    """Dense feed-forward networks, and the experts that every token goes through."""
    attention: float
    """Attention blocks and what stands in their place, such as state-space mixers."""
    embedding: float
    head: float
    """The output head; 0 where the embedding serves as one."""
    rest: float
    """Routers, norms, positions."""

    @property
    def total(self) -> float:
        """All of them."""
        return self.experts + self.ffn + self.attention + self.embedding + self.head + self.rest
