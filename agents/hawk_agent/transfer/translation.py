"""From two declared layouts to the work of one transfer: bounds, pieces, bytes and digests of each chunk.

Layouts travel as notation, sizes, element type and windows; here they become one compiled nest whose chunks
are runs of layers. A copy goes layer by layer, so that it can stop between two pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hawk_agent.errors import BadRequestError, LayoutMismatchError
from hawk_agent.layouts import Layout, LayoutError, compile_nest
from hawk_agent.memory.blocks import WHOLE
from hawk_agent.protocol import common_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from mmap import mmap

    from numpy.typing import NDArray

    from hawk_agent.layouts import Nest
    from hawk_agent.layouts.loops import Program
    from hawk_agent.transfer.chunks import Chunk

MAX_BLOCKS = 1 << 18

if TYPE_CHECKING:
    Buffer = memoryview | bytearray | mmap


@dataclass(frozen=True)
class Selection:
    """One request's part of a region: the layout with its windows, and the block table of a paged
    layout."""

    layout: Layout
    blocks: tuple[int, ...] = ()

    @property
    def table(self) -> NDArray[np.int64] | None:
        """The block table, or None for a layout without one."""
        return np.asarray(self.blocks, dtype=np.int64) if self.layout.table else None

    @property
    def claims(self) -> tuple[int, ...]:
        """The units that a lease on it claims: its pages, its slots of the batch axis, or the whole
        region."""
        if self.layout.table:
            return self.blocks
        batch = self.layout.extent("b")
        return tuple(range(batch.start, batch.stop)) if batch.size > 1 else (WHOLE,)


@lru_cache(maxsize=256)
def _parse(notation: str, sizes: tuple[tuple[str, int], ...], dtype: str) -> Layout:
    return Layout.parse(notation, dict(sizes), dtype)


def parse_layout(notation: str, sizes: Mapping[str, int], dtype: str) -> Layout:
    """A layout as an engine declares it. LayoutMismatchError when it can't be read."""
    try:
        return _parse(notation, tuple(sorted(sizes.items())), dtype)
    except LayoutError as error:
        raise LayoutMismatchError(f"layout: {error}") from error


def layout_from_wire(message: common_pb2.Layout) -> Layout:
    """A layout with its windows as a peer or an engine sent it; the fingerprint, if given, must agree."""
    layout = parse_layout(message.notation, message.sizes, message.dtype)
    if message.fingerprint and message.fingerprint != layout.fingerprint:
        raise LayoutMismatchError(
            f"layout {message.notation!r} has fingerprint {message.fingerprint} there and "
            f"{layout.fingerprint} here; run one version of the agent on both nodes"
        )
    return narrow_layout(layout, message.windows)


def narrow_layout(layout: Layout, windows: Iterable[common_pb2.Window]) -> Layout:
    """Narrow a layout. Tokens of a paged layout are cut by size, so that the last page's padding is known."""
    seen: set[str] = set()
    try:
        for part in sorted(windows, key=lambda w: w.axis != "s"):
            if part.axis in seen or part.axis not in tuple("lcbhsd"):
                raise BadRequestError(
                    f"window of axis {part.axis!r}: give each of the axes l c b h s d at most once"
                )
            seen.add(part.axis)
            table = layout.table
            if (
                table
                and table.axis == part.axis
                and part.start == 0
                and 0 < part.stop <= layout.extent("s").size
            ):
                layout = layout.resize(**{part.axis: part.stop})
            else:
                layout = layout.narrow(part.axis, part.start, part.stop)
    except LayoutError as error:
        raise LayoutMismatchError(f"window: {error}") from error
    return layout


def layout_to_wire(layout: Layout) -> common_pb2.Layout:
    """The message of which `from_wire` makes the same layout."""
    windows = [
        common_pb2.Window(axis=axis, start=extent.start, stop=extent.stop)
        for axis, extent in zip("lcbhsd", layout.extents, strict=True)
        if extent.count != extent.size
    ]
    return common_pb2.Layout(
        notation=str(layout.notation),
        sizes=layout.sizes,
        dtype=layout.dtype,
        fingerprint=layout.fingerprint,
        windows=windows,
    )


def select_extent(layout: Layout, windows: Iterable[common_pb2.Window], blocks: Sequence[int]) -> Selection:
    """Make one request's part of a region; BadRequestError when the block table doesn't fit the layout
    and its windows."""
    narrowed = narrow_layout(layout, windows)
    table = narrowed.table
    if table is None:
        if blocks:
            raise BadRequestError(f"{len(blocks)} blocks given; {str(layout.notation)!r} has no block table")
        return Selection(narrowed)
    inner = 1
    for digit in narrowed.levels(table.axis)[:-1]:
        inner *= digit.size
    extent = narrowed.extent(table.axis)
    needed = -(-extent.stop // inner)
    if len(blocks) != needed or needed > MAX_BLOCKS:
        raise BadRequestError(
            f"{len(blocks)} blocks given; {extent.stop} of axis {table.axis} in blocks of {inner} "
            f"need {needed} (at most {MAX_BLOCKS})"
        )
    outside = [block for block in blocks if not 0 <= block < table.size]
    if outside:
        raise BadRequestError(f"block {outside[0]} is outside the region's 0 to {table.size - 1}")
    if len(set(blocks)) != len(blocks):
        raise BadRequestError("a block stands twice in the block table; each holds other tokens")
    return Selection(narrowed, tuple(blocks))


class Translation:
    """One transfer's nest with both block tables. LayoutMismatchError when no translation joins the
    layouts."""

    def __init__(self, source: Selection, destination: Selection) -> None:
        try:
            self.nest = compile_nest(source.layout, destination.layout)
        except LayoutError as error:
            raise LayoutMismatchError(str(error)) from error
        self.source = source
        self.destination = destination
        self.layers = destination.layout.extent("l").count
        self._from = source.table
        self._to = destination.table
        self._nests: dict[tuple[int, int], Nest] = {}

    def _part(self, first: int, count: int) -> Nest:
        key = (first, count)
        if key not in self._nests:
            self._nests[key] = self.nest.layers(first, count)
        return self._nests[key]

    def _of(self, chunk: Chunk) -> Nest:
        return self._part(chunk.first, chunk.count)

    @property
    def nbytes(self) -> int:
        """Bytes that move, padding not counted."""
        return self.nest.payload_nbytes

    def nbytes_of(self, chunk: Chunk) -> int:
        """Bytes of one chunk."""
        return self._of(chunk).payload_nbytes

    def copy(self, chunk: Chunk, source: Buffer, destination: Buffer, stopped: Callable[[], bool]) -> bool:
        """Translate a chunk, a layer at a time; False when stopped between two layers."""
        for layer in range(chunk.first, chunk.first + chunk.count):
            if stopped():
                return False
            self._part(layer, 1).run(
                source, destination, source_blocks=self._from, destination_blocks=self._to
            )
        return True

    def pack(self, chunk: Chunk, source: Buffer, out: Buffer, start: int, stop: int) -> None:
        """Bytes [start, stop) of a chunk, in the order of the destination, to a bounce buffer."""
        self._of(chunk).pack(source, out, start, stop, source_blocks=self._from)

    def unpacker(
        self, chunk: Chunk, destination: Buffer, *, source_order: bool = False
    ) -> Callable[[object, int, int], None]:
        """Place the range (piece, start, stop) of a chunk: as `pack` made it, or as it stood in the
        source."""
        return self._of(chunk).unpacker(destination, destination_blocks=self._to, source_order=source_order)

    def pad(self, chunk: Chunk, destination: Buffer) -> None:
        """Clear the padding of a chunk whose payload was placed by `unpack` or straight."""
        self._of(chunk).zero_padding(destination, destination_blocks=self._to)

    def contiguous(self, chunk: Chunk) -> int | None:
        """Where a chunk's bytes stand in the destination if that is one range in `pack`'s order, else
        None."""
        return None if self._to is not None else _one_range(self._of(chunk).moves, 1)

    def contiguous_source(self, chunk: Chunk) -> int | None:
        """Where a chunk's bytes stand in the source if that is one range, else None."""
        return None if self._from is not None else _one_range(self._of(chunk).source_stream, 0)

    def digest_source(self, chunk: Chunk, source: Buffer, key: int, sample: int) -> int:
        """The chunk's digest as the source has it; `sample` n looks at one stripe in n."""
        return self._of(chunk).digest_source(source, key, blocks=self._from, sample=sample)

    def digest_destination(self, chunk: Chunk, destination: Buffer, key: int, sample: int) -> int:
        """The chunk's digest, re-read from the destination."""
        return self._of(chunk).digest_destination(destination, key, blocks=self._to, sample=sample)


def _one_range(programs: Sequence[Program], side: int) -> int | None:
    """The first byte of a side (0 source, 1 destination) if one program walks it without a gap, else None."""
    if len(programs) != 1:
        return None
    (program,) = programs
    width = program.run
    for loop in reversed(program.loops):
        if loop.steps[side] != width or loop.steps[side + 3]:
            return None
        width *= loop.count
    return program.destination if side else program.source
