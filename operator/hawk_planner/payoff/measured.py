"""Measured engine times: one row a measurement, read from CSV, JSON or YAML, interpolated inside its range.

A row has `model` (a preset's name), `acceleratorClass`, `devices` (of one replica, 1 where left out),
`phase`, `ms`, and for `prefill` its `tokens` (one prompt alone), for `decode` its `batch` and `context` (one
step of `batch` sequences of `context` tokens each). `source` says who measured (else the file's name).

Decode rows of one replica form a grid: each of its batches with each of its contexts. Between points times
are linear; outside nothing is said: a plan that needs it is unknown there, with the range in its message.
(Below the smallest batch a plan takes the roofline, as far off as it is at that batch; see `times`.)
"""

from __future__ import annotations

import csv
import io
import json
import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import checks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = ["COLUMNS", "Measured", "Row", "as_csv", "closest", "read_measured", "tables"]

COLUMNS = ("model", "acceleratorClass", "devices", "phase", "tokens", "batch", "context", "ms", "source")
SUFFIXES = (".csv", ".json", ".yaml", ".yml")
Phase = Literal["prefill", "decode"]


@dataclass(frozen=True)
class Row:
    """One measurement. `tokens` belong to a prefill, `batch` and `context` to a decode step."""

    model: str
    device: str
    devices: int
    phase: Phase
    milliseconds: float
    tokens: int = 0
    batch: int = 0
    context: int = 0
    source: str = ""


@dataclass(frozen=True)
class Measured:
    """Measurements of one model on replicas of `devices` devices of one class."""

    device: str
    devices: int
    prefill: tuple[tuple[float, float], ...]
    """(tokens, seconds), by tokens."""
    batches: tuple[float, ...]
    contexts: tuple[float, ...]
    steps: tuple[tuple[float, ...], ...]
    """Seconds of a step, one row a batch, one column a context; empty where none was measured."""
    source: str

    @property
    def prefill_span(self) -> str:
        """Measured prefills."""
        return f"{self.prefill[0][0]:,.0f} to {self.prefill[-1][0]:,.0f} tokens"

    @property
    def decode_span(self) -> str:
        """Measured decode steps."""
        return (
            f"batch {self.batches[0]:,.0f} to {self.batches[-1]:,.0f}, "
            f"context {self.contexts[0]:,.0f} to {self.contexts[-1]:,.0f}"
        )

    def prefill_seconds(self, tokens: float) -> float:
        """Return the time of one prompt; raises MissingInputError outside what was measured."""
        points = [at for at, _ in self.prefill]
        self._within("prefill", "tokens", tokens, points)
        return _between(tokens, points, [seconds for _, seconds in self.prefill])

    def step_seconds(self, batch: float, context: float) -> float:
        """Return the time of one decode step; raises MissingInputError outside what was measured."""
        self._within("decode", "sequences", batch, self.batches)
        self._within("decode", "tokens of context", context, self.contexts)
        return _between(batch, self.batches, [_between(context, self.contexts, row) for row in self.steps])

    def _within(self, phase: str, unit: str, value: float, points: Sequence[float]) -> None:
        if points[0] <= value <= points[-1]:
            return
        raise checks.MissingInputError(
            f"--measured {self.device}",
            f"{phase} of {value:,.0f} {unit} lies outside the measured {points[0]:,.0f} to {points[-1]:,.0f}",
            "measure there, or plan without --measured",
        )


def _between(at: float, points: Sequence[float], values: Sequence[float]) -> float:
    """Interpolate linearly; `at` lies within `points`."""
    right = min(max(bisect_left(points, at), 1), len(points) - 1) if len(points) > 1 else 0
    if right == 0:
        return values[0]
    left = right - 1
    share = (at - points[left]) / (points[right] - points[left])
    return values[left] + share * (values[right] - values[left])


def tables(rows: Iterable[Row], model: str) -> tuple[Measured, ...]:
    """Return what was measured of `model`, one table a class and number of devices.

    Raises InputError when nothing of the model was measured, a point is there twice, or a grid has a hole.
    """
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    models = set()
    for row in rows:
        models.add(row.model)
        if row.model == model:
            found[row.device, row.devices].append(row)
    if not found:
        known = ", ".join(sorted(models)) or "none"
        raise checks.InputError("--measured", f"has no times of {model}, only of: {known}", "add its rows")
    return tuple(_table(device, devices, of) for (device, devices), of in sorted(found.items()))


def closest(found: Iterable[Measured], device: str, devices: int) -> Measured | None:
    """Return the table of a class whose number of devices is closest; None where the class has none."""
    of = [table for table in found if table.device == device]
    return min(of, key=lambda table: abs(math.log(table.devices / devices)), default=None)


def _table(device: str, devices: int, rows: Sequence[Row]) -> Measured:
    prefill: dict[float, float] = {}
    decode: dict[tuple[float, float], float] = {}
    for row in rows:
        seconds = row.milliseconds / 1e3
        twice = row.tokens in prefill if row.phase == "prefill" else (row.batch, row.context) in decode
        if twice:
            raise checks.InputError("--measured", f"{_named(row)} is there twice", "keep one of the two rows")
        if row.phase == "prefill":
            prefill[row.tokens] = seconds
        else:
            decode[row.batch, row.context] = seconds
    batches = tuple(sorted({batch for batch, _ in decode}))
    contexts = tuple(sorted({context for _, context in decode}))
    missing = [(b, c) for b in batches for c in contexts if (b, c) not in decode]
    if missing:
        raise checks.InputError(
            "--measured",
            f"decode of {device} has no time for batch {missing[0][0]:g} at context {missing[0][1]:g}",
            "each measured batch needs each measured context",
        )
    return Measured(
        device=device,
        devices=devices,
        prefill=tuple(sorted(prefill.items())),
        batches=batches,
        contexts=contexts,
        steps=tuple(tuple(decode[batch, context] for context in contexts) for batch in batches),
        source="; ".join(dict.fromkeys(row.source for row in rows)),
    )


def _named(row: Row) -> str:
    point = f"{row.tokens} tokens" if row.phase == "prefill" else f"batch {row.batch}, context {row.context}"
    return f"{row.phase} of {row.model} on {row.devices} x {row.device}, {point},"


def read_measured(path: Path) -> list[Row]:
    """Return the rows of a file; raises InputError that names the row and what is wrong with it."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        endings = ", ".join(SUFFIXES)
        raise checks.InputError("--measured", f"{path} ends in none of {endings}", "give such a file")
    try:
        text = path.read_text(encoding="utf-8")
        bodies = _bodies(text, suffix)
    except OSError as error:
        reason = error.strerror or str(error)
        raise checks.InputError("--measured", f"{path}: {reason}", "give a file that can be read") from error
    except ValueError as error:
        raise checks.InputError("--measured", f"{path}: {error}", "give a file that can be read") from error
    if not isinstance(bodies, list) or not bodies:
        raise checks.InputError("--measured", f"{path} has no list of rows", "write one row a measurement")
    return [_row(body, f"{path.name}, row {number}", path.name) for number, body in enumerate(bodies, 1)]


def _bodies(text: str, suffix: str) -> Any:
    if suffix == ".csv":
        return list(csv.DictReader(io.StringIO(text)))
    if suffix == ".json":
        return json.loads(text)
    import yaml  # noqa: PLC0415 -- the adapter of a benchmark tool runs where there is none

    from hawk_api import documents  # noqa: PLC0415

    try:
        found = documents.load_documents(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    return found[0] if len(found) == 1 else None


def as_csv(rows: Iterable[Row]) -> str:
    """Return the text of a file with these rows."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        prompt, step = {"tokens": row.tokens}, {"batch": row.batch, "context": row.context}
        writer.writerow(
            {
                "model": row.model,
                "acceleratorClass": row.device,
                "devices": row.devices,
                "phase": row.phase,
                "ms": f"{row.milliseconds:.6g}",
                "source": row.source,
                **(prompt if row.phase == "prefill" else step),
            }
        )
    return text.getvalue()


def _row(body: object, where: str, file: str) -> Row:
    def wrong(problem: str) -> checks.InputError:
        return checks.InputError("--measured", f"{where}: {problem}", f"a row has {', '.join(COLUMNS)}")

    if not isinstance(body, dict):
        raise wrong("is no row")
    cells = {str(name): value for name, value in body.items() if value not in (None, "")}
    unknown = sorted(set(cells) - set(COLUMNS))
    if unknown:
        raise wrong(f"{unknown[0]} is no column")
    phase = cells.get("phase")
    if phase not in ("prefill", "decode"):
        raise wrong(f"phase {phase!r} is neither prefill nor decode")
    wanted = ("tokens",) if phase == "prefill" else ("batch", "context")
    for name in ("model", "acceleratorClass", "ms", *wanted):
        if name not in cells:
            raise wrong(f"{name} is missing")

    def number(name: str, default: int | None = None) -> float:
        try:
            value = float(str(cells.get(name, default)))
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value) or value <= 0:
            raise wrong(f"{name} {cells.get(name)!r} is no number above 0")
        return value

    counts: Mapping[str, int] = {name: int(number(name)) for name in wanted}
    return Row(
        model=str(cells["model"]),
        device=str(cells["acceleratorClass"]),
        devices=int(number("devices", 1)),
        phase=phase,
        milliseconds=number("ms"),
        source=str(cells.get("source", file)),
        **counts,
    )
