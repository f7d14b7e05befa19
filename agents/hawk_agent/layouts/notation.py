"""The notation: axes in memory order, levels as digits, brackets for block tables.

::

    layout  = term { term } [ "+" integer ]          the offset of element zero, in elements
    term    = digit | "[" digit "]"                   in brackets: indexed by a block table
    digit   = axis [ level ] [ ":" integer ]          a stride in elements, if not the packed one
    axis    = "l" | "c" | "b" | "h" | "s" | "d"
    level   = "0" | "1" | ...                         0 is the finest

`b h s d` is row-major, `[s1] h s0 d` are pages of heads, `b h s1 d1 s0 d0` are tiles.
Parsing knows nothing of sizes: see `hawk_agent.layouts.layout`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from hawk_agent.layouts.errors import LayoutError

AXES = "lcbhsd"
"""The logical axes in canonical order: layer, key or value, batch, head, token, feature."""

MEANING = {"l": "layer", "c": "key or value", "b": "batch", "h": "head", "s": "token", "d": "feature"}

MAX_LEVELS = 4
_MAX_TEXT = 256
_TERM = re.compile(r"(\[)?\s*([A-Za-z])(\d{0,2})(?::(\d{1,18}))?\s*(\])?\Z")
_OFFSET = re.compile(r"\s*(\d{1,18})\s*\Z")
_BRACKETED = re.compile(r"\[[^\[\]]*\]|[^\s\[\]]+|[\[\]]")


@dataclass(frozen=True, slots=True)
class Term:
    """One digit as written: an axis, its level (None when the axis has a single level)."""

    axis: str
    level: int | None
    indexed: bool
    stride: int | None

    @property
    def name(self) -> str:
        """The key of this digit in `sizes`, such as `s0`, or `h` for an axis of one level."""
        return self.axis if self.level is None else f"{self.axis}{self.level}"

    def __str__(self) -> str:
        text = self.name if self.stride is None else f"{self.name}:{self.stride}"
        return f"[{text}]" if self.indexed else text


@dataclass(frozen=True, slots=True)
class Notation:
    """A parsed notation: digits from the outermost in memory to the innermost."""

    terms: tuple[Term, ...]
    offset: int

    def __str__(self) -> str:
        text = " ".join(map(str, self.terms))
        return f"{text} + {self.offset}" if self.offset else text


@lru_cache(maxsize=1024)
def parse_notation(text: str) -> Notation:
    """Read a notation.

    Raises:
        LayoutError: an unknown or repeated axis, levels with a gap, more than one block table,
            or a block table on a level that isn't the coarsest of its axis.
    """
    if len(text) > _MAX_TEXT:
        raise LayoutError(f"notation: {len(text)} characters; the longest accepted is {_MAX_TEXT}")
    body, plus, written = text.partition("+")
    offset = _offset(written, text) if plus else 0
    terms = tuple(_term(word, text) for word in _BRACKETED.findall(body))
    if not terms:
        raise LayoutError("notation: empty; write the axes in memory order, such as 'b h s d'")
    _check_axes(terms, text)
    return Notation(terms, offset)


def _offset(written: str, text: str) -> int:
    match = _OFFSET.match(written)
    if match is None:
        raise LayoutError(
            f"notation: can't read the offset {written.strip()!r} in {text!r}; "
            "write the elements before element zero last, such as '+ 64'"
        )
    return int(match[1])


def _term(word: str, text: str) -> Term:
    match = _TERM.match(word)
    if match is None or bool(match[1]) != bool(match[5]):
        raise LayoutError(
            f"notation: can't read {word!r} in {text!r}; write an axis and a level such as 's0', "
            "or '[s1]' for one that a block table indexes"
        )
    axis, level, stride = match[2], match[3], match[4]
    if axis not in AXES:
        known = ", ".join(f"{key} ({meaning})" for key, meaning in MEANING.items())
        raise LayoutError(f"notation: unknown axis {axis!r} in {text!r}; the axes are {known}")
    return Term(axis, int(level) if level else None, bool(match[1]), int(stride) if stride else None)


def _check_axes(terms: tuple[Term, ...], text: str) -> None:
    names = [term.name for term in terms]
    for name in names:
        if names.count(name) > 1:
            raise LayoutError(f"notation: {name!r} stands twice in {text!r}; each axis level stands once")
    for axis in AXES:
        levels = [term.level for term in terms if term.axis == axis]
        if len(levels) > 1 and None in levels:
            raise LayoutError(
                f"notation: axis {axis!r} stands with and without levels in {text!r}; number every level"
            )
        numbers = sorted(level for level in levels if level is not None)
        if numbers and (numbers != list(range(len(numbers))) or len(numbers) > MAX_LEVELS):
            raise LayoutError(
                f"notation: axis {axis!r} has levels {numbers} in {text!r}; "
                f"number them from 0 (finest) without a gap, {MAX_LEVELS} at most"
            )
    _check_tables(terms, text)


def _check_tables(terms: tuple[Term, ...], text: str) -> None:
    indexed = [term for term in terms if term.indexed]
    if len(indexed) > 1:
        raise LayoutError(
            f"notation: {len(indexed)} block tables in {text!r}; one digit may stand in brackets"
        )
    for table in indexed:
        top = max((term.level or 0) for term in terms if term.axis == table.axis)
        if (table.level or 0) != top:
            raise LayoutError(
                f"notation: {table.name!r} is in brackets in {text!r} but {table.axis}{top} is coarser; "
                "a block table indexes the coarsest level of its axis"
            )
