"""The bytes that every benchmark moves: the KV of some layers, row-major or in pages, into tiles and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hawk_agent.layouts import Layout, LayoutError, Nest, compile_nest
from hawk_agent.layouts.elements import itemsize

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADS, FEATURES, ELEMENT = 8, 128, 2
MOST_MEBIBYTES = 4096


@dataclass(frozen=True)
class CopyWorkload:
    """A pair of layouts of one size, with block tables in a random order."""

    nest: Nest
    source_blocks: npt.NDArray[np.int64] | None
    destination_blocks: npt.NDArray[np.int64] | None

    @property
    def nbytes(self) -> int:
        """Bytes that move."""
        return self.nest.payload_nbytes

    def run(self, source: object, destination: object, key: int | None = None) -> int | None:
        """Translate once."""
        return self.nest.run(
            source,
            destination,
            source_blocks=self.source_blocks,
            destination_blocks=self.destination_blocks,
            key=key,
        )

    def digests(self, source: object, destination: object, key: int) -> tuple[int, int]:
        """Both sides' digests: equal if what was moved is right."""
        return (
            self.nest.digest_source(source, key, blocks=self.source_blocks),
            self.nest.digest_destination(destination, key, blocks=self.destination_blocks),
        )


def workload(
    source: str, target: str, mebibytes: int, dtype: str = "float16", tiles: Mapping[str, int] | None = None
) -> CopyWorkload:
    """Both presets over as many tokens as make the size.

    Args:
        source: a preset's name.
        target: another's.
        mebibytes: what moves.
        dtype: element type.
        tiles: sizes of the target's tiles, where they aren't the preset's.

    Raises:
        LayoutError: the size isn't positive, or beyond what a benchmark should take.
    """
    if not 1 <= mebibytes <= MOST_MEBIBYTES:
        raise LayoutError(f"mib: {mebibytes}; give a size from 1 to {MOST_MEBIBYTES} MiB")
    token = HEADS * FEATURES * itemsize(dtype)
    sizes = {"h": HEADS, "s": (mebibytes << 20) // token, "d": FEATURES}
    layouts = [Layout.preset(source, sizes, dtype), Layout.preset(target, {**sizes, **(tiles or {})}, dtype)]
    rng = np.random.default_rng(7)
    tables = [rng.permutation(layout.table.size) if layout.table else None for layout in layouts]
    return CopyWorkload(compile_nest(*layouts), *tables)
