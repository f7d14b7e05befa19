"""Counts of the work requests by which a network card gathers or scatters a nest's pieces itself.

A write gathers a list of local pieces into one contiguous remote range; a read scatters one contiguous
remote range into a list of local pieces. So a translated write is one work request for each run that
is contiguous at the destination, cut where the list is full and not at the borders of tiles, and the
other way round for reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hawk_agent.layouts.errors import LayoutError

if TYPE_CHECKING:
    from hawk_agent.layouts import Nest
    from hawk_agent.layouts.loops import Program


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Bounds of a device, as its driver reports them.

    Attributes:
        max_sge: pieces in the list of one work request.
        max_message_bytes: bytes of one work request.
        key_stride_bytes: largest piece and gap together in a strided key (a 16-bit field in hardware).
        key_entries: most pieces of a key. They are posted inside one work request, and of its 1,024
            bytes the driver sets 192 aside: room for 828 bytes, so for a header and 51 pieces.
        max_keys: keys that a device is asked to hold at once; it has other users.
    """

    max_sge: int = 30
    max_message_bytes: int = 1 << 30
    key_stride_bytes: int = 65_535
    key_entries: int = 51
    max_keys: int = 1 << 20

    def __post_init__(self) -> None:
        for name in ("max_sge", "max_message_bytes", "key_stride_bytes", "key_entries", "max_keys"):
            if getattr(self, name) < 1:
                raise LayoutError(f"{name}: {getattr(self, name)} is too small; give at least 1")


@dataclass(frozen=True, slots=True)
class Transfers:
    """Work requests, the pieces in their lists, and the bytes they move."""

    work_requests: int
    sges: int
    nbytes: int


def gather_writes(nest: Nest, limits: RequestLimits) -> Transfers:
    """Writes that gather at the source, one for each run of the destination."""
    return _count(nest, limits, side=1)


def scatter_reads(nest: Nest, limits: RequestLimits) -> Transfers:
    """Reads that scatter at the destination, one for each run of the source."""
    return _count(nest, limits, side=0)


def _count(nest: Nest, limits: RequestLimits, side: int) -> Transfers:
    requests = pieces = 0
    for program in nest.moves:
        stretch = contiguous(program, side)
        # A run longer than a message is several pieces, each a message of its own.
        cut = -(-program.run // limits.max_message_bytes)
        each = min(limits.max_sge, max(1, limits.max_message_bytes // program.run))
        in_stretch = stretch // program.run
        requests += program.nbytes // stretch * (-(-in_stretch // each) if cut == 1 else in_stretch * cut)
        pieces += program.runs * cut
    return Transfers(requests, pieces, nest.payload_nbytes)


def contiguous(program: Program, side: int) -> int:
    """Bytes of a run of one side (0 source, 1 destination), whatever the other side does."""
    run = program.run
    for loop in sorted(program.loops, key=lambda loop: loop.steps[side]):
        if loop.steps[side] == run and not loop.steps[side + 3]:
            run *= loop.count
    return run
