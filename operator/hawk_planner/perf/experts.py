"""Routed experts: the part of their weights that a step reads. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hawk_api.models import Geometry
    from hawk_api.v1alpha1 import Precision

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


def expert_groups(geometry: Geometry, precision: Precision | None = None) -> tuple[ExpertGroup, ...]:
    """The model's routed experts in `precision`, or as they were published.

    Shared ones, which every token goes through, are none of them.
    """
    routed: defaultdict[tuple[int, int], float] = defaultdict(float)
    for layer, formats in geometry.stored_layers:
        ffn = layer.ffn
        if ffn.experts:
            size = precision.bytes if precision else formats.experts.bytes
            routed[ffn.experts, ffn.per_token] += ffn.routed * size
    return tuple(ExpertGroup(nbytes, *chosen) for chosen, nbytes in routed.items())
