"""Traces of requests: loaders for three public formats, told apart by their content.

- Azure LLM inference traces: CSV, `TIMESTAMP,ContextTokens,GeneratedTokens`, seven decimals.
- Mooncake: one JSON object a line, `timestamp` in ms, `input_length`, `output_length`.
- BurstGPT: CSV, `Timestamp` in seconds, `Request tokens`, `Response tokens`, with or without session columns.

A request without output tokens failed after its prefill: it is load for prefill and none for decode.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path


class TraceError(ValueError):
    """A trace can't be read; the message names the file, the line, and what was expected."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request: `arrival` in seconds from the start of the trace, lengths in tokens."""

    arrival: float
    prompt: int
    output: int


@dataclass(frozen=True)
class Trace:
    """Requests in order of arrival, and where they come from."""

    name: str
    requests: tuple[TraceRequest, ...]

    @property
    def seconds(self) -> float:
        """Time from the first arrival to the last."""
        return self.requests[-1].arrival if self.requests else 0.0

    def part(self, start: float, end: float) -> Trace:
        """The requests that arrive in [start, end), counted from `start`."""
        return Trace(
            f"{self.name}[{start:g}:{end:g}]",
            tuple(
                TraceRequest(r.arrival - start, r.prompt, r.output)
                for r in self.requests
                if start <= r.arrival < end
            ),
        )


AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
BURST = ("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type")
BURST_SESSIONS = ("Timestamp", "Session ID", "Elapsed time", *BURST[1:])
_KNOWN = "Azure (CSV), Mooncake (JSON lines) and BurstGPT (CSV) are understood"

_Read = Callable[[Path, Iterable[tuple[int, str]]], Iterator[TraceRequest]]


def load_trace(path: Path | str) -> Trace:
    """Read a trace; raises TraceError. Requests are sorted, and time starts at the first."""
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = ((n, line) for n, line in enumerate(file, 1) if line.strip())
            first = next(lines, None)
            if first is None:
                raise TraceError(f"{path}: the file is empty; {_KNOWN}")
            found = list(_reader(path, first[1])(path, chain([first], lines)))
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}; give a file that can be read") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: not a text file ({error.reason}); {_KNOWN}") from error
    if not found:
        raise TraceError(f"{path}: no request in it; give a trace with at least one")
    found.sort(key=lambda request: request.arrival)
    start = found[0].arrival
    return Trace(path.name, tuple(TraceRequest(r.arrival - start, r.prompt, r.output) for r in found))


def _reader(path: Path, line: str) -> _Read:
    if line.lstrip().startswith("{"):
        return _mooncake
    columns = tuple(cell.strip() for cell in next(csv.reader([line])))
    if columns == AZURE:
        return _azure
    if columns in (BURST, BURST_SESSIONS):
        return _burst
    raise TraceError(f"{path}:1: unknown columns {', '.join(columns)[:120]!r}; {_KNOWN}")


def _azure(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[TraceRequest]:
    for number, row in _rows(path, lines, AZURE):
        yield TraceRequest(
            _azure_time(path, number, row["TIMESTAMP"]),
            _tokens(path, number, "ContextTokens", row["ContextTokens"]),
            _tokens(path, number, "GeneratedTokens", row["GeneratedTokens"]),
        )


def _azure_time(path: Path, number: int, text: str) -> float:
    """Seconds since the epoch; the format has seven decimals, one more than datetime takes."""
    whole, _, decimals = text.strip().partition(".")
    try:
        seconds = datetime.fromisoformat(f"{whole}+00:00").timestamp()
        return seconds + (int(decimals) / 10 ** len(decimals) if decimals else 0.0)
    except ValueError as error:
        raise TraceError(
            f"{path}:{number}: TIMESTAMP {text!r} is no time; write it as 2023-11-16 18:17:03.9799600"
        ) from error


def _burst(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[TraceRequest]:
    for number, row in _rows(path, lines, None):
        yield TraceRequest(
            _number(path, number, "Timestamp", row["Timestamp"]),
            _tokens(path, number, "Request tokens", row["Request tokens"]),
            _tokens(path, number, "Response tokens", row["Response tokens"]),
        )


def _mooncake(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[TraceRequest]:
    for number, line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise TraceError(f"{path}:{number}: not a JSON object ({error.msg}); write one a line") from error
        if not isinstance(row, dict):
            raise TraceError(f"{path}:{number}: not a JSON object; write one a line")
        lacking = [key for key in ("timestamp", "input_length", "output_length") if key not in row]
        if lacking:
            raise TraceError(f"{path}:{number}: {lacking[0]} is missing; add it to the line")
        yield TraceRequest(
            _number(path, number, "timestamp", row["timestamp"]) / 1000.0,
            _tokens(path, number, "input_length", row["input_length"]),
            _tokens(path, number, "output_length", row["output_length"]),
        )


def _rows(
    path: Path, lines: Iterable[tuple[int, str]], columns: tuple[str, ...] | None
) -> Iterator[tuple[int, dict[str, str]]]:
    numbered = iter(lines)
    _, head = next(numbered)
    names = columns or tuple(cell.strip() for cell in next(csv.reader([head])))
    for number, line in numbered:
        cells = next(csv.reader([line]))
        if len(cells) != len(names):
            raise TraceError(
                f"{path}:{number}: {len(cells)} columns where {len(names)} are expected; mend the line"
            )
        yield number, dict(zip(names, cells, strict=True))


def _number(path: Path, line: int, name: str, text: object) -> float:
    try:
        number = float(text) if isinstance(text, (str, int, float)) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise TraceError(f"{path}:{line}: {name} {text!r} is no number; write one from 0 up")
    return number


def _tokens(path: Path, line: int, name: str, text: object) -> int:
    number = _number(path, line, name, text)
    if number != int(number):
        raise TraceError(f"{path}:{line}: {name} {text!r} is no whole number of tokens; write one")
    return int(number)
