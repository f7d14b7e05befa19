"""Output of commands: tables for people, JSON for scripts, errors in one form."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import sys
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import RenderableType
    from rich.table import Table


class Output(StrEnum):
    """Forms of output."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="A table for people, or JSON for scripts.")
]
"""The option that every command takes: `output: OutputOption = Output.TABLE`."""


def emit_output(obj: Any, output: Output, table: Callable[[], RenderableType]) -> None:
    """Print `obj` as JSON, or what `table()` returns. In JSON, NaN and infinity become null."""
    if output is Output.JSON:
        sys.stdout.write(json.dumps(_plain(obj), indent=2, allow_nan=False) + "\n")
        return
    from rich.console import Console  # noqa: PLC0415 - help and errors start without it

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 160
    # Text of users is printed as it is: "[s1]" is no markup, ":100:" no emoji.
    Console(width=width, highlight=False, markup=False, emoji=False).print(table())


def fail(message: str, code: int = 2) -> NoReturn:
    """End the command with `error: message` on stderr. 1: a failed check, 2: none could be made."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


def rows(title: str | None, columns: Iterable[str], lines: Iterable[Iterable[object]]) -> Table:
    """A plain table; columns whose name begins with "#" are right-aligned."""
    from rich.table import Table  # noqa: PLC0415 - as above

    made = Table(title=title, box=None, pad_edge=False, title_justify="left")
    for column in columns:
        right = column.startswith("#")
        made.add_column(column.lstrip("#"), justify="right" if right else "left", overflow="fold")
    for line in lines:
        made.add_row(*("" if cell is None else str(cell) for cell in line))
    return made


def _plain(value: Any) -> Any:  # noqa: PLR0911 -- one line a type
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, Decimal | Fraction):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    return value
