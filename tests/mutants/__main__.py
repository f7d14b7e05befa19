"""Mutation testing of the rooms that only compute: change the code, and see a test fail.

    make mutants                                  every mutant of every room (hours); results in out/mutants/
    make mutants ARGS="layouts --sample 200"      a random sample, with the interval that it leaves open

A mutant that survives is one that no test of the room notices. Those that change nothing a caller can see are
listed in equivalent.yaml, with the reason, and are counted apart.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.mutants.source import Mutant, mutants
from tests.mutants.trying import Outcome, try_all

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
NORMAL_95 = 1.96


@dataclass(frozen=True)
class Room:
    """A package's files, and the tests that are to notice every change of them."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    without: frozenset[str] = frozenset()

    @property
    def paths(self) -> list[Path]:
        """The files, in order."""
        return _found(self.files)

    @property
    def test_paths(self) -> list[str]:
        """The files of tests, in order."""
        return [str(path) for path in _found(self.tests) if path.name not in self.without]


def _found(patterns: tuple[str, ...]) -> list[Path]:
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


ROOMS = {
    # These two look at other code: at the command line above the room, and at the C kernel alone.
    "layouts": Room(
        ("agents/hawk_agent/layouts/*.py",),
        ("tests/unit/layouts/test_*.py",),
        frozenset({"test_command_line.py", "test_paths.py"}),
    ),
    "leases": Room(
        ("agents/hawk_agent/streaming/lease.py", "agents/hawk_agent/streaming/table.py"),
        ("tests/unit/agent/test_lease*.py",),
    ),
    "wiring": Room(("operator/hawk_operator/wiring/*.py",), ("tests/unit/operator/test_wiring*.py",)),
    "sizing": Room(("operator/hawk_planner/sizing/*.py",), ("tests/unit/sizing/test_*.py",)),
}


def main() -> None:
    """Try the mutants of the rooms that are named, each room in a process of its own."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)}; default: all")
    options.add_argument("--sample", type=int, help="how many mutants of each room; default: all")
    options.add_argument("--seed", type=int, default=1, help="of the sample (default %(default)s)")
    options.add_argument("--only", default="", help="mutants of files whose path has this in it")
    options.add_argument(
        "--out", type=Path, default=Path("out/mutants"), help="where results go (default %(default)s)"
    )
    chosen = options.parse_args()
    unknown = set(chosen.rooms) - set(ROOMS)
    if unknown:
        options.error(f"no room named {', '.join(sorted(unknown))}; there are {', '.join(ROOMS)}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.rooms or ROOMS:
        found = try_room(ROOMS[name], chosen.sample, chosen.seed, chosen.only)
        (chosen.out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    print_table(chosen.out, chosen.rooms or list(ROOMS))


def try_room(room: Room, sample: int | None, seed: int, only: str) -> dict[str, object]:
    """Try the mutants of a room (or a sample), and return how many there are and every one that survived."""
    every = [mutant for path in room.paths if only in str(path) for mutant in mutants(path)]
    chosen = every
    if sample is not None and sample < len(every):
        indices = sorted(random.Random(seed).sample(range(len(every)), sample))
        chosen = [every[index] for index in indices]
    equivalents = yaml.safe_load(EQUIVALENT.read_text())
    known = {(entry["file"], entry["after"]): entry["why"] for entry in equivalents}
    survivors: list[dict[str, object]] = []
    killed = dict.fromkeys(("test", "crash", "time"), 0)
    started = time.monotonic()

    def report(mutant: Mutant, outcome: Outcome) -> None:
        if outcome.killed:
            killed[outcome.killed] += 1
        else:
            file = str(mutant.path.relative_to(ROOT))
            survivor = {
                "file": file,
                "line": mutant.lines[0],
                "function": mutant.function,
                "before": mutant.before,
                "after": mutant.after,
                "tests": outcome.tests,
                "equivalent": known.get((file, mutant.after)),
            }
            survivors.append(survivor)
        done = len(survivors) + sum(killed.values())
        if not outcome.killed or done % 50 == 0 or done == len(chosen):
            seconds = time.monotonic() - started
            print(f"{done}/{len(chosen)}, {len(survivors)} survived, {seconds:.0f} s", flush=True)
            if not outcome.killed and not survivor["equivalent"]:
                print(f"  {survivor['file']}:{survivor['line']} ({outcome.tests} tests)", flush=True)
                print(f"  - {mutant.before}\n  + {mutant.after}", flush=True)

    try_all(chosen, room.paths, room.test_paths, report)
    return {
        "mutants": len(every),
        "seed": seed,
        "tried": len(chosen),
        "killed": killed,
        "survivors": survivors,
    }


def print_table(folder: Path, names: list[str]) -> None:
    """Print a line for each room: its score, and for a sample the interval that the room's own is in."""
    print(f"{'room':8} {'mutants':>8} {'tried':>6} {'killed':>7} {'survived':>9} {'equivalent':>11}  score")
    for name in names:
        found = json.loads((folder / f"{name}.json").read_text())
        killed = sum(found["killed"].values())
        equivalent = sum(bool(survivor["equivalent"]) for survivor in found["survivors"])
        score, low, high = interval(killed, found["tried"] - equivalent)
        whole = found["tried"] == found["mutants"]
        print(
            f"{name:8} {found['mutants']:8} {found['tried']:6} {killed:7} {len(found['survivors']):9} "
            f"{equivalent:11}  {score:.1%}" + ("" if whole else f" ({low:.1%} to {high:.1%})")
        )


def interval(hits: int, of: int) -> tuple[float, float, float]:
    """The share, and Wilson's interval for it."""
    share, z2 = hits / of, NORMAL_95**2
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = NORMAL_95 / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return share, middle - half, middle + half


if __name__ == "__main__":
    main()
