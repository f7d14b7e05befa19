"""Chunks of layers: the plan, what has arrived, and how much of it was hidden behind compute. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from hawk_agent.errors import BadRequestError

MAX_LAYERS = 4096


@dataclass(frozen=True, slots=True)
class Chunk:
    """Layers first .. first+count-1, sent together."""

    index: int
    first: int
    count: int


def plan_chunks(layers: int, chunk_layers: int) -> tuple[Chunk, ...]:
    """Layers in chunks; the last may be short. `chunk_layers` 0 means all in one."""
    if not 0 < layers <= MAX_LAYERS:
        raise BadRequestError(f"layers {layers} is outside 1 to {MAX_LAYERS}")
    if not 0 <= chunk_layers <= layers:
        raise BadRequestError(
            f"chunkLayers {chunk_layers} is outside 0 (all) to {layers}, the number of layers"
        )
    size = chunk_layers or layers
    starts = range(0, layers, size)
    return tuple(Chunk(i, first, min(size, layers - first)) for i, first in enumerate(starts))


def events_for(chunks: tuple[Chunk, ...], events: int) -> tuple[int, ...]:
    """For each chunk, how many of the given events it waits for, in order: one a layer or one a chunk."""
    layers = sum(chunk.count for chunk in chunks)
    if events == layers:
        return tuple(chunk.count for chunk in chunks)
    if events == len(chunks):
        return (1,) * len(chunks)
    raise BadRequestError(
        f"{events} layer events given; give {layers} (one a layer) or {len(chunks)} (one a chunk)"
    )


@dataclass(slots=True)
class ChunkArrival:
    """One chunk that has arrived. Seconds are from the moment that its layers were complete."""

    chunk: Chunk
    nbytes: int
    at: float
    seconds: float
    digest: int | None


@dataclass(slots=True)
class ChunkProgress:
    """The arrived chunks of a plan. Arrivals that come again are ignored; an index outside the plan is
    refused."""

    chunks: tuple[Chunk, ...]
    arrivals: dict[int, ChunkArrival] = field(default_factory=dict)

    def add(self, index: int, nbytes: int, at: float, seconds: float, digest: int | None) -> bool:
        """Note an arrival; False if it was known."""
        if not 0 <= index < len(self.chunks):
            raise BadRequestError(f"chunk {index} is outside the plan of {len(self.chunks)}")
        if index in self.arrivals:
            return False
        self.arrivals[index] = ChunkArrival(self.chunks[index], nbytes, at, seconds, digest)
        return True

    @property
    def complete(self) -> bool:
        """True if every chunk is there."""
        return len(self.arrivals) == len(self.chunks)

    @property
    def layers(self) -> int:
        """How many layers are there without a gap from the first."""
        count = 0
        for chunk in self.chunks:
            if chunk.index not in self.arrivals:
                break
            count += chunk.count
        return count

    @property
    def nbytes(self) -> int:
        """Bytes arrived."""
        return sum(arrival.nbytes for arrival in self.arrivals.values())

    @property
    def digest(self) -> int | None:
        """The sum of the chunks' digests modulo 2**64, or None when a chunk went unchecked."""
        total = 0
        for arrival in self.arrivals.values():
            if arrival.digest is None:
                return None
            total += arrival.digest
        return total % 2**64 if self.arrivals else None


@dataclass(frozen=True, slots=True)
class Overlap:
    """How well a transfer hid behind compute."""

    hidden_share: float
    exposed_seconds: float


def measure_overlap(progress: ChunkProgress, last_layer_at: float) -> Overlap:
    """Share of bytes there when the last layer was complete, and the time from then to the last byte."""
    total = progress.nbytes
    if total == 0:
        return Overlap(hidden_share=1.0, exposed_seconds=0.0)
    hidden = sum(a.nbytes for a in progress.arrivals.values() if a.at <= last_layer_at)
    end = max(a.at for a in progress.arrivals.values())
    return Overlap(hidden / total, max(0.0, end - last_layer_at))
