"""Compatibility of two layouts, as a chain of pure checks.

A translation moves whole elements to another place. It can change order, tiles and pages; it can't
change a value, invent a head or drop a layer. The same chain serves the compiler, the handshake
between agents and the conditions of a pool.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from hawk_agent.layouts.errors import LayoutError
from hawk_agent.layouts.layout import Layout
from hawk_agent.layouts.notation import AXES, MEANING
from hawk_agent.layouts.refine import cuts


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One reason why a pair can't be translated: the field, both values, and what to do."""

    field: str
    source: str
    destination: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"{self.field}: the source has {self.source}, the destination {self.destination}; {self.remedy}"
        )


def mismatches(source: Layout, destination: Layout) -> list[Mismatch]:
    """Every reason why `source` can't be translated to `destination`; empty if it can."""
    return [found for check in _CHECKS for found in check(source, destination)]


def require_compatible(source: Layout, destination: Layout, *, padding: bool = True) -> None:
    """Raise one `LayoutError` that names every mismatch of the pair, and padding where it isn't allowed."""
    found = mismatches(source, destination)
    if not padding:
        found += _padding(source, destination)
    if found:
        raise LayoutError(" | ".join(map(str, found)))


def _dtype(source: Layout, destination: Layout) -> Iterator[Mismatch]:
    if source.dtype != destination.dtype:
        yield Mismatch(
            "dtype",
            source.dtype,
            destination.dtype,
            "bytes are moved, not converted: use one element type",
        )


def _windows(source: Layout, destination: Layout) -> Iterator[Mismatch]:
    for axis, left, right in zip(AXES, source.extents, destination.extents, strict=True):
        if left.count != right.count:
            yield Mismatch(
                f"{axis} ({MEANING[axis]})",
                f"{left.count} of {left.size}",
                f"{right.count} of {right.size}",
                "give both sides windows of one length",
            )


def _groups(source: Layout, destination: Layout) -> Iterator[Mismatch]:
    for axis in AXES:
        left, right = level_sizes(source, axis), level_sizes(destination, axis)
        try:
            cuts(axis, left, right)
        except LayoutError:
            yield Mismatch(
                f"{axis} ({MEANING[axis]})",
                f"groups of {_products(left)}",
                f"groups of {_products(right)}",
                "choose block and tile sizes of which one is a multiple of the other",
            )


def _padding(source: Layout, destination: Layout) -> Iterator[Mismatch]:
    for axis, left, right in zip(AXES, source.extents, destination.extents, strict=True):
        padded = destination.padded_stop(axis) - right.start
        if padded != right.count:
            yield Mismatch(
                f"{axis} ({MEANING[axis]})",
                f"{left.count}",
                f"room for {padded} in groups of {_products(level_sizes(destination, axis))}",
                "allow padding, or choose sizes that divide it",
            )


_CHECKS: tuple[Callable[[Layout, Layout], Iterator[Mismatch]], ...] = (_dtype, _windows, _groups)


def level_sizes(layout: Layout, axis: str) -> list[int]:
    """Sizes of an axis' levels but the coarsest, finest first."""
    return [digit.size for digit in layout.levels(axis)[:-1]]


def _products(sizes: list[int]) -> str:
    return " and ".join(str(prod(sizes[: i + 1])) for i in range(len(sizes))) or "1"
