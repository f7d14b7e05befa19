"""Settings of a process: each option is one field with a docstring.

From it come the flag (`--lease-duration`), the environment variable (a prefix and `LEASE_DURATION`), the
default, the bounds, a line of `--help` and a row in docs/configuration.md. A flag wins over its variable, and
an empty variable counts as none.
"""

from __future__ import annotations

import argparse
import os
import types
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import PlainValidator, ValidationError
from pydantic_settings import BaseSettings, CliSettingsSource, NoDecode, SettingsConfigDict
from pydantic_settings import SettingsError as ParseError

from hawk_api import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails


class SettingsError(ValueError):
    """Options that can't be right: a line each, with the flag or variable and the remedy."""

    def said(self) -> str:
        """The lines as a process writes them before it exits with 2."""
        return "\n".join(f"error: {line}" for line in str(self).splitlines())


class Names(tuple[str, ...]):
    """Names in their order, with commas between them."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: str | Iterable[str]) -> Self:
        """The names of a text such as "shm,tcp"; blanks and empty names are left out."""
        parts = value.split(",") if isinstance(value, str) else value
        return cls(part.strip() for part in parts if part.strip())

    def __str__(self) -> str:
        return ",".join(self)


class TimeSpan(float):
    """Seconds, written with a unit: 200ms."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: str | float) -> Self:
        """ValueError for a text that is no duration; a bare number is one of a program, in seconds."""
        return cls(duration.parse_duration(value) if isinstance(value, str) else value)

    def __str__(self) -> str:
        return duration.format_duration(self)


NamesOption = Annotated[Names, NoDecode, PlainValidator(Names.parse)]
TimeSpanOption = Annotated[TimeSpan, PlainValidator(TimeSpan.parse)]


_NONE = "\0"
"""The text that would stand for None: no argument can be it, so a node may be named null."""


class ProcessSettings(BaseSettings):
    """A process's settings, by flags and environment variables. Subclasses set the prefix and the name of
    the program."""

    model_config = SettingsConfigDict(
        frozen=True,
        use_attribute_docstrings=True,
        env_ignore_empty=True,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_show_env_vars=True,
        cli_parse_none_str=_NONE,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        for field in cls.model_fields.values():
            bounds = allowed(field)
            if bounds and field.annotation is not bool:
                field.description = f"{(field.description or '').rstrip('.')}; {bounds}."

    @classmethod
    def read(cls, arguments: Sequence[str]) -> Self:
        """Flags over environment variables over defaults.

        Raises SettingsError for values that can't be right. --help ends the process with 0, an unknown flag
        with 2.
        """
        try:
            source: CliSettingsSource[argparse.ArgumentParser] = CliSettingsSource(
                cls, cli_parse_args=list(arguments), formatter_class=_Help
            )
        except (ParseError, TypeError) as problem:  # the latter for --names=-- on Python 3.11
            raise SettingsError(f"{problem}; see --help") from problem
        try:
            return cls(_cli_settings_source=source)
        except ValidationError as problem:
            details = problem.errors(include_url=False)
            raise SettingsError("\n".join(cls._said(detail, arguments) for detail in details)) from problem

    @classmethod
    def variable(cls, name: str) -> str:
        """The environment variable of a field."""
        return f"{cls.model_config.get('env_prefix', '')}{name.upper()}"

    @classmethod
    def table(cls) -> Iterator[str]:
        """Lines of a Markdown table of all options."""
        yield "| Flag | Environment variable | Default | Meaning |"
        yield "|---|---|---|---|"
        for name, field in cls.model_fields.items():
            default = "required" if field.is_required() else _shown(field.default)
            yield f"| `{flag(name)}` | `{cls.variable(name)}` | {default} | {field.description} |"

    @classmethod
    def _said(cls, detail: ErrorDetails, arguments: Sequence[str]) -> str:
        """One finding of pydantic in our words."""
        error = detail.get("ctx", {}).get("error")
        if not detail["loc"]:
            return str(error)
        name = str(detail["loc"][0])
        option = flag(name)
        if detail["type"] == "missing":
            return f"{option}: missing; give it, or set {cls.variable(name)}"
        used = any(word.split("=")[0] == option for word in arguments)
        label = cls.variable(name) if not used and os.environ.get(cls.variable(name)) else option
        told = error or f"{detail['input']!r} is not allowed; use {_wanted(cls.model_fields[name])}"
        return f"{label}: {told}"


def flag(name: str) -> str:
    """The flag of a field."""
    return "--" + name.replace("_", "-")


def allowed(field: FieldInfo) -> str:
    """The values that a field may have, "" for any of its type."""
    kind = _bare(field.annotation)
    if kind is bool:
        return "true or false"
    if get_origin(kind) is Literal:
        return " or ".join(", ".join(get_args(kind)).rsplit(", ", 1))
    bounds = {name: getattr(item, name) for item in field.metadata for name in _WORDS if hasattr(item, name)}
    if bounds.keys() == {"ge", "le"}:
        return f"{bounds['ge']:g} to {bounds['le']:g}"
    return " and ".join(f"{_WORDS[name]} {bounds[name]:g}" for name in _WORDS if name in bounds)


_WORDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_KINDS: dict[Any, str] = {int: "a whole number, ", float: "a number, "}


def _wanted(field: FieldInfo) -> str:
    return f"{_KINDS.get(_bare(field.annotation), '')}{allowed(field)}".removesuffix(", ") or "another value"


def _bare(annotation: Any) -> Any:
    """The annotation without None."""
    if get_origin(annotation) in {Union, types.UnionType}:
        return next(part for part in get_args(annotation) if part is not types.NoneType)
    return annotation


def _shown(value: object) -> str:
    text = (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if type(value) is float
        else str(value)
    )
    return "none" if value is None or not text else f"`{text}`"


class _Help(argparse.HelpFormatter):
    """Names defaults that are empty."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return (action.help or "").replace(f"(default: {_NONE})", "").replace("(default: )", "")
