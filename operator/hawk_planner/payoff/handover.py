"""The whole handoff of one prompt's KV between pools: chunks, rails, posting, detection, contention."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from .pipeline import chunk_timeline

if TYPE_CHECKING:
    from .pipeline import Timeline
    from .scenario import Link, Scenario

__all__ = ["Handover", "contention_seconds", "hand_over"]

CHUNK_CHOICES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Handover:
    """One request's handoff on a free link."""

    nbytes: float
    transfer_seconds: float
    exposed_seconds: float
    """After prefill: the rest of the transfer, registration included."""
    chunk_layers: int
    timeline: Timeline


def hand_over(scenario: Scenario, prefill_seconds: float) -> Handover:
    """Return the handoff of one prompt, with the chunk length asked for or the one that exposes least."""
    layers = scenario.work.layer_bytes(scenario.workload.prompt_tokens)
    return _hand_over(layers, scenario.link, scenario.path_share, prefill_seconds)


@lru_cache(maxsize=512)
def _hand_over(layers: tuple[float, ...], link: Link, path_share: float, prefill_seconds: float) -> Handover:
    count = len(layers)
    lengths = [link.chunk_layers] if link.chunk_layers else [c for c in CHUNK_CHOICES if c < count] + [count]

    def timeline(length: int) -> Timeline:
        return chunk_timeline(
            layers,
            chunk_layers=length,
            compute_seconds_per_chunk=prefill_seconds * length / count,
            rail_bytes_per_second=link.bytes_per_second * path_share,
            rails=link.rails,
            overhead_seconds_per_chunk=link.overhead_seconds,
        )

    best = min(((timeline(length), length) for length in lengths), key=lambda one: one[0].exposed_seconds)
    found, length = best
    return Handover(
        nbytes=float(sum(layers)),
        transfer_seconds=found.transfer_seconds,
        exposed_seconds=found.exposed_seconds + link.registration_seconds,
        chunk_layers=length,
        timeline=found,
    )


def contention_seconds(transfer_seconds: float, utilisation: float) -> float:
    """Return the mean wait for a link that other requests use too (equal transfers, Poisson arrivals)."""
    return inf if utilisation >= 1 else transfer_seconds * utilisation / (2 * (1 - utilisation))
