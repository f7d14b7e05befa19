"""A class name means one thing in the whole project."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = ("crds", "operator", "agents")
GENERATED = ("_pb2.py", "_pb2_grpc.py")


def class_names(folder: Path) -> dict[str, set[Path]]:
    """The modules that define a class at their top level, by its name."""
    found: defaultdict[str, set[Path]] = defaultdict(set)
    for path in folder.rglob("*.py"):
        if path.name.endswith(GENERATED):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].add(path)
    return found


def test_a_class_name_is_defined_once() -> None:
    found: defaultdict[str, set[Path]] = defaultdict(set)
    for source in SOURCES:
        for name, paths in class_names(ROOT / source).items():
            found[name] |= paths
    assert len(found) > 300
    assert {name: sorted(map(str, paths)) for name, paths in found.items() if len(paths) > 1} == {}


def test_a_name_that_is_defined_twice_is_found(tmp_path: Path) -> None:
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("class Twice:\n    pass\n")
    assert len(class_names(tmp_path)["Twice"]) == 2
