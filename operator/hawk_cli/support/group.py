"""The root command, which every option's error passes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Iterator


class RootGroup(TyperGroup):
    """Reports a refused value without the prefix of the library that checked it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of `hawk` itself."""
        with _without_prefix():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Parse the command's options and run it."""
        with _without_prefix():
            return super().invoke(ctx)


@contextmanager
def _without_prefix() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        error.message = error.message.removeprefix("Value error, ")
        raise
