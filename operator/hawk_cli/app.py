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

from hawk_cli.support.completion import InstallCompletion, ShowCompletion  # noqa: TC001 - typer reads them
from hawk_cli.support.examples import epilog
from hawk_cli.support.group import RootGroup
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
    CommandEntry(
        "validate", "hawk_cli.commands.validate", "validate_files", "Check manifests without a cluster."
    ),
    CommandEntry(
        "status",
        "hawk_cli.commands.status",
        "show_status",
        "Show live pools, their problems, and the remedies.",
    ),
    CommandEntry(
        "kv", "hawk_cli.commands.kv", "size_kv", "Print the size of a KV cache, and its transfer time."
    ),
    CommandEntry(
        "plan", "hawk_cli.commands.plan", "plan_pool", "Price a pool's split against all alternatives."
    ),
    CommandEntry(
        "payoff", "hawk_cli.commands.payoff", "app", "Calculate what splitting inference costs and saves."
    ),
    CommandEntry(
        "layout", "hawk_cli.commands.layout", "app", "Translate a KV cache, or explain the translation."
    ),
    CommandEntry(
        "bench", "hawk_cli.commands.bench", "app", "Measure this machine against its limit and the baselines."
    ),
    CommandEntry(
        "doctor", "hawk_cli.commands.doctor", "diagnose_cluster", "Find what keeps HawkPool from working."
    ),
    CommandEntry(
        "cleanup", "hawk_cli.commands.cleanup", "clean_cluster", "Remove what an uninstalled release left."
    ),
    CommandEntry(
        "simulate", "hawk_cli.commands.simulate", "simulate_trace", "Replay traffic through scaling policies."
    ),
)
"""Every command, in the order of the overview. Keep one line an entry."""


def build(words: Sequence[str]) -> typer.Typer:
    """The application for a command line of these words: only commands named in it are imported."""
    app = typer.Typer(
        help="Plan, check and watch pools of heterogeneous accelerators that serve one large language model.",
        cls=RootGroup,
        no_args_is_help=True,
        add_completion=False,
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
            for info in command.registered_commands:
                info.epilog = epilog(f"{entry.name} {info.name}")
            app.add_typer(command, name=entry.name, short_help=entry.help)
        else:
            app.command(entry.name, short_help=entry.help, epilog=epilog(entry.name))(command)
    return app


def main(argv: Sequence[str] | None = None) -> None:
    """Run `argv` (the process's arguments by default) and exit.

    0: done; 1: a failed check; 2: bad input, or something else that kept a check from being made.
    """
    # Pydantic searches for plugins in the metadata of every package: a tenth of a short command's time.
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
    _show: ShowCompletion = None,
    _install: InstallCompletion = None,
) -> None:
    """Options of `hawk` itself."""
