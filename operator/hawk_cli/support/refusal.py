"""Refusing an input that the planner's arithmetic can't take, by the name of its option."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from hawk_cli.support.output import fail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_planner.payoff.checks import InputError

_NO_OPTION = {"AIConfigurator"}
"""Names in an InputError that are no input: the check itself fails, with exit code 1."""


def refuse_input(error: InputError, options: Mapping[str, str] | None = None) -> NoReturn:
    """End the command with the error's option, problem and remedy.

    `options` names the options of fields that aren't called like them.
    """
    name = error.field
    if name in _NO_OPTION:
        fail(str(error), 1)
    if not name.startswith("-"):
        name = (options or {}).get(name, "--" + name.replace(" ", "-"))
    fail(f"{name}: {error.problem}; {error.remedy}")
