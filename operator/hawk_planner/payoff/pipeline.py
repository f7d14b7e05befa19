"""Chunks of layers on rails: the transfer of one chunk overlaps the computing of the next.

A chunk may leave when its layers are computed and the chunk before it has left the rails.
What ends after the last layer is exposed; what has arrived by then is resident.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import checks

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TimedChunk", "Timeline", "chunk_timeline"]

ROUNDING = 1e-12
"""Relative slack, so that a chunk that arrives exactly when computing ends counts as there."""


@dataclass(frozen=True)
class TimedChunk:
    """One run of layers: when it is computed and when it crosses (seconds from the start of prefill)."""

    first_layer: int
    layers: int
    nbytes: float
    compute_start: float
    compute_end: float
    transfer_start: float
    transfer_end: float


@dataclass(frozen=True)
class Timeline:
    """All chunks of one prefill and what is left when it ends."""

    chunks: tuple[TimedChunk, ...]
    compute_seconds: float
    transfer_seconds: float
    """Time that the link is busy with this request."""
    exposed_seconds: float
    """From the end of computing to the last byte."""
    nbytes: float
    """State of all layers."""

    @property
    def resident_share(self) -> float:
        """Bytes of whole chunks there when prefill ends, over all bytes."""
        end = self.compute_seconds * (1 + ROUNDING)
        return sum(chunk.nbytes for chunk in self.chunks if chunk.transfer_end <= end) / self.nbytes

    @property
    def sent_share(self) -> float:
        """Bytes there when prefill ends, parts of chunks included, over all bytes."""
        return sum(_part(chunk, self.compute_seconds) for chunk in self.chunks) / self.nbytes

    @property
    def hidden(self) -> float:
        """Share of the transfer time that computing covers."""
        return 1 - min(1.0, self.exposed_seconds / self.transfer_seconds)


def chunk_timeline(
    layer_bytes: Sequence[float],
    *,
    chunk_layers: int,
    compute_seconds_per_chunk: float,
    rail_bytes_per_second: float,
    rails: int = 1,
    overhead_seconds_per_chunk: float = 0.0,
) -> Timeline:
    """Return the timeline of a prefill that sends `chunk_layers` layers at a time over `rails`.

    `layer_bytes` holds one layer's state each; the last chunk may be shorter, its computing in proportion.
    A chunk is cut over all rails and is there when all its parts are.
    `overhead_seconds_per_chunk` is posting and detection, on the link's time.
    """
    layers = len(layer_bytes)
    checks.whole("layers", layers)
    checks.whole("chunk layers", chunk_layers)
    checks.positive("compute time per chunk", compute_seconds_per_chunk)
    checks.whole("rails", rails)
    checks.at_least("chunk overhead", overhead_seconds_per_chunk)
    rate = checks.positive("link bandwidth", rail_bytes_per_second) * rails
    if chunk_layers > layers:
        raise checks.InputError(
            "chunk layers",
            f"{chunk_layers} is above the model's {layers} layers",
            f"give at most {layers}",
        )
    chunks: list[TimedChunk] = []
    computed = sent = 0.0
    for first in range(0, layers, chunk_layers):
        count = min(chunk_layers, layers - first)
        nbytes = float(sum(layer_bytes[first : first + count]))
        ready = computed + compute_seconds_per_chunk * count / chunk_layers
        start = max(ready, sent)
        sent = start + nbytes / rate + overhead_seconds_per_chunk
        chunks.append(TimedChunk(first, count, nbytes, computed, ready, start, sent))
        computed = ready
    total = checks.positive("state bytes", sum(chunk.nbytes for chunk in chunks))
    return Timeline(
        chunks=tuple(chunks),
        compute_seconds=computed,
        transfer_seconds=total / rate + overhead_seconds_per_chunk * len(chunks),
        exposed_seconds=sent - computed,
        nbytes=total,
    )


def _part(chunk: TimedChunk, now: float) -> float:
    """Return the bytes of `chunk` that have crossed by `now`."""
    span = chunk.transfer_end - chunk.transfer_start
    if span <= 0:  # shorter than the clock of the whole timeline can tell
        return chunk.nbytes if now >= chunk.transfer_end else 0.0
    return chunk.nbytes * min(1.0, max(0.0, (now - chunk.transfer_start) / span))
