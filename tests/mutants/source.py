"""The mutants of a source file: mutmut's operators at every place that decides what the code does.

mutmut itself leaves out decorated functions (each property, everything cached), defaults and constants; here
they are included. Left out are places that change no behaviour: annotations, decorators, docstrings, imports,
what only a type checker reads, what is raised or asserted (the wording of a message, zip's `strict`), and
None in the place of False.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_string

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SKIPPED = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom, cst.Raise, cst.Assert)
TYPING = {"cast", "TypeVar", "NewType"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes:
        path: the file.
        lines: first and last line of the statement that changes; of a compound one, of its header.
        function: the outermost function around it, as its code object is named; None where the change takes
            effect when the module is imported (constants, defaults).
        before: the statement's text, or of a compound one its header's.
    """

    path: Path
    lines: tuple[int, int]
    function: str | None
    before: str
    _module: cst.Module
    _old: cst.CSTNode
    _new: cst.CSTNode

    @cached_property
    def source(self) -> str:
        """The whole file with the change in it."""
        return self._module.visit(_Replace(self._old, self._new)).code

    @property
    def after(self) -> str:
        """The text that stands where `before` stood."""
        first, last = self.lines
        longer = self.source.count("\n") - self._module.code.count("\n")
        return _text(self.source.splitlines()[first - 1 : last + longer])


def mutants(path: Path) -> list[Mutant]:
    """Every mutant of a file, in the order of its text."""
    wrapper = MetadataWrapper(cst.parse_module(path.read_text()))
    finder = _Finder(path, wrapper.module)
    wrapper.visit(finder)
    return finder.found


def _text(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)


class _Replace(cst.CSTTransformer):
    def __init__(self, old: cst.CSTNode, new: cst.CSTNode) -> None:
        super().__init__()
        self._old, self._new = old, new

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node is not self._old

    def on_leave(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        return self._new if original is self._old else updated


class _Finder(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, path: Path, module: cst.Module) -> None:
        super().__init__()
        self.found: list[Mutant] = []
        self._path, self._module = path, module
        self._lines = module.code.splitlines()
        self._statement: list[tuple[int, int]] = [(1, 1)]
        self._names: list[str] = []
        self._function: str | None = None

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, SKIPPED) or _unused(node):
            return False
        if isinstance(node, cst.BaseStatement):
            self._statement.append(self._header(node))
        self.found.extend(self._mutants(node))
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self._enter(node)
            return False
        return True

    def on_leave(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.BaseStatement) and not _unused(node):
            self._statement.pop()

    def _enter(self, node: cst.FunctionDef | cst.ClassDef) -> None:
        """Visit what a definition evaluates itself (bases, defaults) and then its body, under its name."""
        if isinstance(node, cst.FunctionDef):
            node.params.visit(self)
        self._names.append(node.name.value)
        outermost = isinstance(node, cst.FunctionDef) and self._function is None
        if outermost:
            self._function = ".".join(self._names)
        node.body.visit(self)
        if outermost:
            self._function = None
        self._names.pop()

    def _mutants(self, node: cst.CSTNode) -> Iterator[Mutant]:
        lines = self._statement[-1]
        before = _text(self._lines[lines[0] - 1 : lines[1]])
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                # One change of a string's text says as much as three.
                for new in islice(operator(node), 1 if operator is operator_string else None):
                    if _says_the_same(node, new):
                        continue
                    yield Mutant(self._path, lines, self._function, before, self._module, node, new)

    def _header(self, node: cst.BaseStatement) -> tuple[int, int]:
        span = self.get_metadata(PositionProvider, node)
        if isinstance(node, cst.SimpleStatementLine):
            return span.start.line, span.end.line
        if isinstance(node, cst.Match):
            return span.start.line, self.get_metadata(PositionProvider, node.subject).end.line
        body = self.get_metadata(PositionProvider, node.body)
        return span.start.line, max(span.start.line, body.start.line - 1)


def _says_the_same(old: cst.CSTNode, new: cst.CSTNode) -> bool:
    """True if an argument that only asserts has changed, or False has become None."""
    match old, new:
        case cst.Call(args=before), cst.Call(args=after):
            changed = [arg for arg in before if all(arg is not kept for kept in after)]
            replaced = len(before) == len(after)
            return any(_asserts(arg) or (replaced and _is_false(arg.value)) for arg in changed)
        case ((cst.Assign(value=value) | cst.AnnAssign(value=value)), _):
            return _is_false(value)
    return False


def _asserts(arg: cst.Arg) -> bool:
    return arg.keyword is not None and arg.keyword.value == "strict"


def _is_false(value: cst.BaseExpression | None) -> bool:
    return isinstance(value, cst.Name) and value.value == "False"


def _unused(node: cst.CSTNode) -> bool:
    """True if only a type checker, or a person, reads it."""
    match node:
        case cst.SimpleString(text):
            return " " in text
        case cst.If(test=cst.Name("TYPE_CHECKING")):
            return True
        case cst.Call(func=cst.Name(name)):
            return name in TYPING
        case cst.Assign(targets=[cst.AssignTarget(cst.Name("__all__"))]):
            return True
        case cst.AnnAssign(value=None):
            return True
    return False
