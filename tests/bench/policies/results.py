"""A comparison's results on one traffic, as they are committed beside the page that tells them.

Results only: of the traffic there is a rate a minute, for the pictures.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from hawk_api.v1alpha1.enums import QueueOrder  # noqa: TC001 -- pydantic reads the annotations
from hawk_planner.simulate.course import BinnedLoad, Course  # noqa: TC001

if TYPE_CHECKING:
    from pathlib import Path

    from hawk_planner.simulate.score import Score


@dataclass(frozen=True)
class Row:
    """One policy's score. Shares are of all requests that are scored, `of_attainable` of those that idle
    workers would serve in time; US dollars and kWh are of the scored time.
    """

    policy: str
    of_attainable: float
    ttft: float
    itl: float
    usd: float
    kwh: float | None
    turns: int
    ttft_p99_s: float
    settings: dict[str, float | str]

    @classmethod
    def of(cls, found: Score) -> Row:
        """Take from a score what is told, to a digit more than is shown."""
        return cls(
            policy=found.policy,
            of_attainable=round(found.of_attainable, 5),
            ttft=round(found.ttft_attainment, 5),
            itl=round(found.itl_attainment, 5),
            usd=round(found.cost_usd, 3),
            kwh=None if found.energy_kwh is None else round(found.energy_kwh, 2),
            turns=found.direction_changes,
            ttft_p99_s=round(found.ttft_p99_seconds, 3),
            settings=found.settings,
        )


LENDS = "hawk, decode lends"
"""Ours where decode workers have the role Both."""
OURS = ("hawk", LENDS)
Point = tuple[float, float]
"""US dollars, and share of the attainable requests in time."""


@dataclass(frozen=True)
class Result:
    """All policies on one traffic under one order of the queue."""

    traffic: str
    order: QueueOrder
    requests: int
    seconds: float
    scored_s: float
    attainable: float
    load: BinnedLoad
    rows: tuple[Row, ...]
    courses: tuple[Course, ...]
    curves: dict[str, tuple[Point, ...]]
    """By policy: its settings, more generous ones and less generous ones."""

    @property
    def stem(self) -> str:
        """The stem of its files' names."""
        return f"{self.traffic}-{self.order.lower()}"

    def row(self, policy: str) -> Row | None:
        """A policy's score, where it took part."""
        return next((row for row in self.rows if row.policy == policy), None)


_FORM = TypeAdapter(Result)


def load(folder: Path) -> list[Result]:
    """All results of a folder, by name."""
    return [_FORM.validate_json(path.read_bytes()) for path in sorted(folder.glob("*.json"))]


def save(folder: Path, found: Result) -> None:
    """Write a result: a line a field, and a line a row, so that a difference can be read."""
    plain = asdict(found)
    lines = []
    for field in fields(found):
        value = plain[field.name]
        if isinstance(value, (list, tuple)):
            text = "[\n" + ",\n".join(f"  {_line(one)}" for one in value) + "\n ]"
        else:
            text = _line(value)
        lines.append(f' "{field.name}": {text}')
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{found.stem}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
