"""The table of commands, and the entry point that runs one.

A command's module is imported only when that command is called or its help is asked for, so `hawk kv` starts
without the Kubernetes client and works where only the base package is installed.

Each module holds one typer command function or one `typer.Typer` sub-application; its line in COMMANDS is all
that makes it known.
"""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hawk_cli.support.output import fail

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command: its name, where it is, and its line in the overview."""

    name: str
    module: str
    attribute: str
    help: str


COMMANDS: tuple[CommandEntry, ...] = (
    CommandEntry("validate", "hawk_cli.commands.validate", "validate", "Check manifests without a cluster."),
    CommandEntry(
        "status", "hawk_cli.commands.status", "status", "Live pools: what is wrong, and what to do."
    ),
    CommandEntry("kv", "hawk_cli.commands.kv", "kv", "Size of a KV cache, and how long it takes to move."),
    CommandEntry(
        "plan", "hawk_cli.commands.plan", "plan", "Whether a pool's split pays, and what would turn that."
    ),
    CommandEntry("payoff", "hawk_cli.commands.payoff", "app", "The arithmetic of splitting inference."),
    CommandEntry(
        "layout", "hawk_cli.commands.layout", "app", "Translate a KV cache, or explain what that takes."
    ),
    CommandEntry(
        "bench", "hawk_cli.commands.bench", "app", "Measure this machine against its limit and the baselines."
    ),
    CommandEntry(
        "doctor",
        "hawk_cli.commands.doctor",
        "doctor",
        "What in this cluster will stop HawkPool, and the remedy.",
    ),
    CommandEntry(
        "cleanup", "hawk_cli.commands.cleanup", "cleanup", "Remove what an uninstalled release left behind."
    ),
    CommandEntry(
        "simulate", "hawk_cli.commands.simulate", "simulate", "Replay traffic through the decision."
    ),
)
"""Every command, in the order of the overview. Keep one line an entry."""


def build(words: Sequence[str]) -> typer.Typer:
    """The application for a command line of these words: only commands named in it are imported."""
    app = typer.Typer(
        help="Plan, check and watch pools of heterogeneous accelerators that serve one large language model.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for entry in COMMANDS:
        if entry.name not in words:
            app.command(entry.name, help=entry.help)(_unnamed)
            continue
        command = _load(entry)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name, short_help=entry.help)
        else:
            app.command(entry.name, short_help=entry.help)(command)
    return app


def main(argv: Sequence[str] | None = None) -> None:
    """Run `argv` (the process's arguments by default) and exit.

    0: done; 1: a failed check; 2: bad input, or something else that kept a check from being made.
    """
    # Pydantic looks for plugins in the metadata of every package: a tenth of a short command's time.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    arguments = list(sys.argv[1:] if argv is None else argv)
    completion = os.environ.get("COMP_WORDS", "") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    program = Path(sys.argv[0]).name.replace("kubectl-hawk", "kubectl hawk")
    try:
        build([*arguments, *completion.split()])(arguments, prog_name=program or "hawk")
    except typer.Exit as ended:
        sys.exit(ended.exit_code)
    except BrokenPipeError:
        # The reader (head, less) went away; Python must not try to flush at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _load(entry: CommandEntry) -> Any:
    try:
        return getattr(importlib.import_module(entry.module), entry.attribute)
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
        if missing.startswith("hawk_"):
            raise
        fail(f"hawk {entry.name}: the package {missing} is not installed; install hawkpool[all]")


def _unnamed() -> None:
    raise AssertionError("a command that the words don't name can't be called")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - slow to import, and only this needs it

        typer.echo(f"hawk {version('hawkpool')}")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options of `hawk` itself."""
