"""Routed experts: the part of their weights that a step reads. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hawk_api.models import Geometry

__all__ = ["ExpertGroup", "expert_groups"]


@dataclass(frozen=True, slots=True)
class ExpertGroup:
    """Layers whose experts are chosen alike."""

    nbytes: float
    """Weights of all routed experts of these layers, bytes."""
    experts: int
    per_token: int

    @property
    def missed(self) -> float:
        """The chance that one token chooses a given expert not, 0 to 1."""
        return 1 - self.per_token / self.experts

    def touched(self, tokens: float) -> float:
        """The bytes of the experts that `tokens` tokens choose on average, without preference."""
        missed: float = self.missed**tokens
        return self.nbytes * (1 - missed)


def expert_groups(geometry: Geometry, element_bytes: float) -> tuple[ExpertGroup, ...]:
    """The model's routed experts; shared ones, which every token goes through, are none of them.

    `element_bytes` is the size of one weight of a feed-forward network.
    """
    routed: Counter[tuple[int, int]] = Counter()
    for layer in geometry.layers:
        ffn = layer.ffn
        if ffn.experts:
            routed[ffn.experts, ffn.per_token] += ffn.experts * ffn.expert_parameters
    return tuple(
        ExpertGroup(count * element_bytes, experts, per_token)
        for (experts, per_token), count in routed.items()
    )
