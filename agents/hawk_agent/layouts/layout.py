"""A layout: where each element of a KV cache stands.

An axis x is written in digits, like a number: x = (x2·|x1| + x1)·|x0| + x0. A layout gives every
digit a stride, so the place of an element is the offset plus the sum of digit times stride; a digit
in brackets goes through a block table first. That is all a layout is: row-major order, pages,
tiles and their mixtures differ only in the digits' order.

Sizes and strides count elements here; `nest` turns them into bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from hawk_agent.layouts import notation as _notation
from hawk_agent.layouts.elements import itemsize
from hawk_agent.layouts.errors import LayoutError
from hawk_agent.layouts.notation import AXES, MEANING, Notation, Term

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_BYTES = 1 << 60


@dataclass(frozen=True, slots=True)
class Digit:
    """One level of one axis: how many values it takes, and the elements between two of them."""

    axis: str
    level: int
    size: int
    stride: int
    indexed: bool


@dataclass(frozen=True, slots=True)
class AxisExtent:
    """One logical axis: its size, and the window [start, stop) of it that a transfer touches."""

    size: int
    start: int
    stop: int

    @property
    def count(self) -> int:
        """How many indices the window holds."""
        return self.stop - self.start


@dataclass(frozen=True)
class Layout:
    """An order of memory for a KV cache, with its sizes and element type.

    Attributes:
        notation: the digits as written, outermost first.
        digits: the same with sizes and strides in elements.
        extents: size and window of each axis of `AXES`, in that order; an absent axis has size 1.
        dtype: the element type, a key of `elements.BYTES`.
        offset: where element zero stands, in elements.
    """

    notation: Notation
    digits: tuple[Digit, ...]
    extents: tuple[AxisExtent, ...]
    dtype: str
    offset: int

    @classmethod
    def parse(
        cls,
        text: str,
        sizes: Mapping[str, int],
        dtype: str = "float16",
        *,
        strides: Mapping[str, int] | None = None,
        offset: int | None = None,
    ) -> Layout:
        """Read a notation with its sizes.

        Args:
            text: the notation, such as ``[s1] h s0 d``.
            sizes: elements of each axis (``s``) and of each level but the coarsest (``s0``); the
                coarsest follows, or is the number of pages in the pool where a block table
                indexes it. An axis of size 1 may be left out.
            dtype: element type.
            strides: elements between two values of a digit, where they aren't packed. Digits
                outside one that has a stride are packed around it.
            offset: elements before element zero; replaces the notation's.

        Raises:
            LayoutError: unknown or missing sizes, tiles without their size, strides that contradict
                the written order or overlap, or more bytes than an address can count.
        """
        parsed = _with_strides(_notation.parse_notation(text), strides or {})
        if offset is not None:
            parsed = replace(parsed, offset=_count("offset", offset, least=0))
        width = itemsize(dtype)
        totals, levels = _sizes(parsed, sizes)
        digits = _place(parsed, levels)
        layout = cls(
            parsed, digits, tuple(AxisExtent(totals[a], 0, totals[a]) for a in AXES), dtype, parsed.offset
        )
        if layout.elements * width > _MAX_BYTES:
            raise LayoutError(
                f"sizes: {dict(sizes)} make more than {_MAX_BYTES} bytes; check them for a slip"
            )
        return layout

    @classmethod
    def preset(cls, name: str, sizes: Mapping[str, int], dtype: str = "float16") -> Layout:
        """A layout by its common name; `sizes` may override the preset's tile and page sizes."""
        from hawk_agent.layouts.presets import preset_layout  # noqa: PLC0415 - presets describe layouts, so they import us

        preset = preset_layout(name)
        return cls.parse(preset.notation, {**preset.sizes, **sizes}, dtype)

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return itemsize(self.dtype)

    @cached_property
    def elements(self) -> int:
        """Elements from the buffer's start to the end of the last one, padding and pool included."""
        return self.offset + 1 + sum((digit.size - 1) * digit.stride for digit in self.digits)

    @cached_property
    def nbytes(self) -> int:
        """Bytes a buffer needs to hold this layout."""
        return self.elements * self.itemsize

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits that two sides compare.

        They cover the rule (order, tiles, explicit strides, element type) and the model's geometry
        (layers, key or value, heads, features). Batch, tokens and the number of pages in a pool
        differ from request to request and node to node, so they are left out.
        """
        fixed = [f"{a}={self.extent(a).size}" for a in "lchd"]
        tiles = [f"{d.axis}{d.level}={d.size}" for d in self.digits if not self._is_top(d)]
        text = "|".join(["hawk-layout-1", self.dtype, str(self.notation), *fixed, *sorted(tiles)])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def _is_top(self, digit: Digit) -> bool:
        return not any(d.axis == digit.axis and d.level > digit.level for d in self.digits)

    def extent(self, axis: str) -> AxisExtent:
        """Size and window of a logical axis."""
        return self.extents[AXES.index(axis)]

    @cached_property
    def table(self) -> Digit | None:
        """The digit that a block table indexes."""
        return next((digit for digit in self.digits if digit.indexed), None)

    @cached_property
    def entries(self) -> tuple[int, int]:
        """The block-table entries [start, stop) that the window touches; (0, 0) without a table."""
        if self.table is None or self.extent(self.table.axis).count == 0:
            return 0, 0
        extent = self.extent(self.table.axis)
        every = prod(digit.size for digit in self.levels(self.table.axis)[:-1])
        return extent.start // every, -(-extent.stop // every)

    def levels(self, axis: str) -> tuple[Digit, ...]:
        """The digits of an axis, finest first."""
        return self._levels.get(axis, ())

    @cached_property
    def _levels(self) -> dict[str, tuple[Digit, ...]]:
        axes = {digit.axis for digit in self.digits}
        ordered = sorted(self.digits, key=lambda digit: digit.level)
        return {axis: tuple(digit for digit in ordered if digit.axis == axis) for axis in axes}

    def padded_stop(self, axis: str) -> int:
        """Where the window of an axis ends when the padding that goes with it is included.

        Only the last tile or page of an axis is padded, and only by the transfer whose window ends
        where the axis ends: an earlier one would overwrite what follows it.
        """
        extent = self.extent(axis)
        if extent.stop != extent.size or extent.count == 0:
            return extent.stop
        inner = prod(digit.size for digit in self.levels(axis)[:-1])
        return -(-extent.size // inner) * inner

    def narrow(self, axis: str, start: int, stop: int) -> Layout:
        """The same memory with the window [start, stop) of an axis, counted from the present window.

        An empty window is allowed: nothing moves.

        Raises:
            LayoutError: the window reaches beyond the axis.
        """
        have = self.extent(axis)
        if not 0 <= start <= stop <= have.count:
            raise LayoutError(
                f"{axis}: the window {start}:{stop} leaves the {have.count} {MEANING[axis]} indices "
                f"of {str(self.notation)!r}; choose one inside 0:{have.count}"
            )
        window = AxisExtent(have.size, have.start + start, have.start + stop)
        extents = tuple(window if a == axis else e for a, e in zip(AXES, self.extents, strict=True))
        return replace(self, extents=extents)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes from which `parse`, with the notation and the element type, makes this layout again."""
        axes = {a: self.extent(a).size for a in AXES if self.levels(a)}
        fixed = zip(self.notation.terms, self.digits, strict=True)
        return axes | {
            t.name: d.size for t, d in fixed if t.level is not None and (d.indexed or not self._is_top(d))
        }

    def resize(self, **sizes: int) -> Layout:
        """The same rule for other sizes, such as ``resize(s=1000)`` for a request in a pool of pages.

        The number of pages stays unless it is given; windows are reset.
        """
        return Layout.parse(str(self.notation), {**self.sizes, **sizes}, self.dtype)

    def __str__(self) -> str:
        sizes = ",".join(f"{a}={self.extent(a).size}" for a in AXES if self.levels(a))
        tiles = ",".join(f"{d.axis}{d.level}={d.size}" for d in self.digits if not self._is_top(d))
        return f"{self.notation} ({sizes}{',' if tiles else ''}{tiles} {self.dtype})"


def _with_strides(parsed: Notation, strides: Mapping[str, int]) -> Notation:
    names = {term.name for term in parsed.terms}
    for name in strides:
        if name not in names:
            raise LayoutError(
                f"strides: {name!r} isn't a digit of {str(parsed)!r}; use {', '.join(sorted(names))}"
            )
    terms = tuple(
        replace(t, stride=_count(f"strides.{t.name}", strides[t.name], least=1)) if t.name in strides else t
        for t in parsed.terms
    )
    return replace(parsed, terms=terms)


def _count(field: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise LayoutError(f"{field}: {value!r} isn't a whole number; give an integer of at least {least}")
    number = int(value.__index__())
    if number < least:
        raise LayoutError(f"{field}: {number} is too small; give an integer of at least {least}")
    return number


def _sizes(parsed: Notation, sizes: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes of the axes, and of every digit by name."""
    names = {term.name for term in parsed.terms}
    for key, value in sizes.items():
        known = key in names or key in AXES
        if not known:
            raise LayoutError(
                f"sizes.{key}: {str(parsed)!r} has no such axis or level; it has {', '.join(sorted(names))}"
            )
        if _count(f"sizes.{key}", value, least=1) > _MAX_BYTES:
            raise LayoutError(f"sizes.{key}: {value} is more than {_MAX_BYTES}; check it for a slip")
    totals: dict[str, int] = {}
    levels: dict[str, int] = {}
    for axis in AXES:
        terms = sorted((t for t in parsed.terms if t.axis == axis), key=lambda t: t.level or 0)
        totals[axis] = _axis_sizes(axis, terms, sizes, levels, parsed)
    return totals, levels


def _axis_sizes(
    axis: str, terms: list[Term], sizes: Mapping[str, int], levels: dict[str, int], parsed: Notation
) -> int:
    """Fill in the levels of one axis; return the axis' own size."""
    if not terms:
        if sizes.get(axis, 1) != 1:
            raise LayoutError(
                f"sizes.{axis}: {sizes[axis]}, but {str(parsed)!r} doesn't place the {MEANING[axis]} axis; "
                f"write {axis!r} where it varies in memory"
            )
        return 1
    *fine, top = terms
    for term in fine:
        if term.name not in sizes:
            raise LayoutError(f"sizes.{term.name}: missing; {str(parsed)!r} needs the size of this level")
        levels[term.name] = int(sizes[term.name])
    inner = prod(levels[term.name] for term in fine)
    given = sizes.get(top.name) if top.level is not None else None
    if axis in sizes:
        total = int(sizes[axis])
    else:
        total = inner * int(given) if given is not None else inner if fine else 1
    need = -(-total // inner)
    if given is not None and given < need:
        raise LayoutError(
            f"sizes.{top.name}: {given} times {inner} holds {given * inner} of the {total} {MEANING[axis]} "
            f"indices; give at least {need}"
        )
    levels[top.name] = int(given) if given is not None else need
    return total


def _place(parsed: Notation, levels: Mapping[str, int]) -> tuple[Digit, ...]:
    """Give each digit its stride, from the innermost outwards, and refuse overlap."""
    digits: list[Digit] = []
    extent = 1  # elements that the digits placed so far reach over
    packed = 1  # the next digit's stride if none is written
    inside: Term | None = None
    for term in reversed(parsed.terms):
        size = levels[term.name]
        stride = term.stride if term.stride is not None else packed
        if size > 1 and stride < extent:
            raise LayoutError(
                f"strides.{term.name}: {stride} elements, but {inside} stands inside it in {str(parsed)!r} "
                f"and reaches over {extent}; the order written contradicts the strides: "
                "write the axes in the order of their strides"
            )
        digits.append(Digit(term.axis, term.level or 0, size, stride, term.indexed))
        packed = stride * size
        if size > 1:
            extent += (size - 1) * stride
            inside = term
    return tuple(reversed(digits))
