"""Digests of chunks: what they cover, how they travel, and the message when two differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hawk_agent.protocol import common_pb2

if TYPE_CHECKING:
    from hawk_agent.transfer.chunks import Chunk

SAMPLE = 256
"""A sampled digest looks at one stripe of 4 KiB in so many: one or two per cent of the copy's time.

A chunk that didn't come, a wrong block table or swapped heads spoil hundreds of stripes and are found nearly
always (256 spoilt ones with odds of 63%, 1,024 with 98%); a single flipped bit once in 256 transfers, which
is what `Always` is for. The key picks the stripes, anew each transfer.
"""


def sample_of(verify: common_pb2.Verify.ValueType) -> int:
    """The digest's `sample` for a way to verify; 0 means none."""
    return {common_pb2.VERIFY_OFF: 0, common_pb2.VERIFY_SAMPLED: SAMPLE}.get(verify, 1)


def digest_bytes(digest: int) -> bytes:
    """A digest as it travels: 8 bytes, big-endian."""
    return digest.to_bytes(8, "big")


def mismatch(chunk: Chunk, source: bytes, destination: int) -> str:
    """The report of a digest that differs."""
    layers = f"{chunk.first} to {chunk.first + chunk.count - 1}"
    return (
        f"chunk {chunk.index} (layers {layers}): the source has digest {source.hex() or 'none'}, "
        f"the destination {digest_bytes(destination).hex()}; the bytes are not used"
    )
