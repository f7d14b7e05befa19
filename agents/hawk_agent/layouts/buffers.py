"""Buffers and block tables, checked before a program may touch them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hawk_agent.layouts.errors import LayoutError
from hawk_agent.layouts.layout import Layout

Bytes = npt.NDArray[np.uint8]
Table = npt.NDArray[np.int64]
Blocks = Sequence[int] | npt.NDArray[np.integer[Any]] | None

_NO_TABLE = np.zeros(0, np.int64)


def as_bytes(name: str, buffer: object, need: int, *, writable: bool) -> Bytes:
    """A flat byte view of a buffer of at least `need` bytes.

    Raises:
        LayoutError: not a contiguous buffer, read-only where it must be written, or too small.
    """
    try:
        view = memoryview(buffer)  # type: ignore[arg-type]
    except TypeError as error:
        raise LayoutError(
            f"{name}: {type(buffer).__name__} isn't a buffer; give a memoryview, an mmap or a numpy array"
        ) from error
    if not view.c_contiguous:
        raise LayoutError(f"{name}: the buffer has gaps; give all of its memory and a layout with strides")
    if writable and view.readonly:
        raise LayoutError(f"{name}: the buffer is read-only; give a writable one")
    if view.nbytes < need:
        raise LayoutError(f"{name}: {view.nbytes} bytes, but its layout needs {need}; give a larger buffer")
    return np.frombuffer(view, np.uint8)


def refuse_overlap(source: Bytes, destination: Bytes) -> None:
    """Refuse two buffers that share memory in this process: the copy would read what it wrote."""
    if source.size and destination.size and np.may_share_memory(source, destination):
        raise LayoutError("destination: it overlaps the source in memory; translate into a buffer of its own")


def refuse_misaligned(layout: Layout, **sides: Bytes) -> None:
    """Refuse memory whose elements don't begin where their type may: whoever reads them as such would fault.

    Vectors are another matter: the kernel takes any address, and slower ways to those it must.

    Args:
        layout: of the pair, which has one element type.
        sides: the memory by its name.
    """
    width = layout.itemsize
    past = {name: int(side.__array_interface__["data"][0]) % width for name, side in sides.items()}
    if any(past.values()):
        where = " and ".join(f"{name} begins {over} bytes past one" for name, over in past.items())
        raise LayoutError(
            f"alignment: elements of {layout.dtype} stand at multiples of {width} bytes, but {where}; "
            f"give memory that begins at a multiple of {width}, such as a view of whole elements"
        )


def as_table(name: str, layout: Layout, blocks: Blocks, *, unique: bool) -> Table:
    """A private copy of a block table, checked against the pool and the window of its layout.

    A private copy, because the caller's may change (it may lie in shared memory) after the check.

    Raises:
        LayoutError: missing or superfluous, too short, an entry outside the pool, or, where
            `unique`, two entries in the window that name one page.
    """
    digit = layout.table
    if digit is None:
        if blocks is not None:
            raise LayoutError(f"{name}: given, but {str(layout.notation)!r} indexes no axis; leave it out")
        return _NO_TABLE
    if blocks is None:
        raise LayoutError(f"{name}: missing; {str(layout.notation)!r} needs a block table")
    table = _whole_numbers(name, blocks, digit.size)
    first, stop = layout.entries
    if table.size < stop:
        raise LayoutError(f"{name}: {table.size} entries, but {stop} are needed; give a block for each page")
    used = np.sort(table[first:stop])
    if used.size and (used[0] < 0 or used[-1] >= digit.size):
        raise _outside(name, int(used[0] if used[0] < 0 else used[-1]), digit.size)
    if unique and (used[1:] == used[:-1]).any():
        raise LayoutError(f"{name}: a block stands twice and would be written twice; give each page its own")
    return table


def _outside(name: str, block: int, pool: int) -> LayoutError:
    return LayoutError(f"{name}: block {block} is outside the pool of {pool} blocks; is the table stale?")


def _whole_numbers(name: str, blocks: Sequence[int] | npt.NDArray[np.integer[Any]], pool: int) -> Table:
    try:
        given = np.array(blocks)
    except (ValueError, OverflowError, TypeError) as error:
        raise LayoutError(f"{name}: not a list of block numbers ({error}); give integers") from error
    if given.dtype.kind not in "iu" or given.dtype == np.uint64:  # as numpy takes what no int64 holds
        for block in blocks:
            if isinstance(block, int | np.integer) and not 0 <= block < 1 << 63:
                raise _outside(name, int(block), pool)
    if given.size and given.dtype.kind not in "iu":
        raise LayoutError(f"{name}: not a list of block numbers but of {given.dtype}; give integers")
    return given.astype(np.int64).reshape(-1)
