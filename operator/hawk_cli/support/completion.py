"""The options that print or install shell completion.

typer's own ones complete for the shell that called `hawk`, whatever shell is named after them.
"""

from __future__ import annotations

from typing import Annotated, Final

import typer
from typer.completion import get_completion_inspect_parameters, install_callback, show_callback

SHELLS: Final = ("bash", "zsh", "fish", "powershell", "pwsh")


def _checked_shell(shell: str | None) -> str | None:
    if shell is not None and shell not in SHELLS:
        raise typer.BadParameter(f"{shell!r} is not one of {', '.join(SHELLS)}.")
    return shell


def _show_script(context: typer.Context, parameter: typer.CallbackParam, shell: str | None) -> None:
    show_callback(context, parameter, _checked_shell(shell))


def _install_script(context: typer.Context, parameter: typer.CallbackParam, shell: str | None) -> None:
    install_callback(context, parameter, _checked_shell(shell))


def _shell_option(name: str, callback: object, about: str) -> object:
    return typer.Option(
        name,
        callback=callback,  # type: ignore[arg-type]
        is_eager=True,
        metavar="SHELL",
        show_default=False,
        help=f"{about}: {', '.join(SHELLS)}.",
    )


ShowCompletion = Annotated[
    str | None, _shell_option("--show-completion", _show_script, "Print the completion script of a shell")
]
InstallCompletion = Annotated[
    str | None, _shell_option("--install-completion", _install_script, "Install completion for a shell")
]

get_completion_inspect_parameters()  # makes the shells known to the library, as its own options would
