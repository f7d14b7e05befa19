"""The import contracts refuse what they should: wrong imports are planted in a copy of the tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import grimp
import pytest

from tests.unit.architecture.plants import PLANTS, Plant

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
LINTER = Path(__file__).with_name("linter.py")
SOURCES = ("crds", "operator", "agents")


class Tree:
    """A copy of the sources of every package, without what is built of them, and a linter that runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for source in SOURCES:
            ignored = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(ROOT / source, folder / source, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", folder)
        self.linter = subprocess.Popen(
            [sys.executable, LINTER],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(str(folder / source) for source in SOURCES)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def broken(self) -> set[str]:
        """The contracts that the tree breaks."""
        assert self.linter.stdin is not None
        assert self.linter.stdout is not None
        print(file=self.linter.stdin, flush=True)
        said = json.loads(self.linter.stdout.readline())
        assert "Contracts:" in said, said
        return set(re.findall(r"^(.+) BROKEN", said, re.MULTILINE))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    made = Tree(tmp_path_factory.mktemp("tree"))
    with made.linter:  # waits for its end, which that of its input is
        yield made


def test_the_tree_as_it_is_breaks_none(tree: Tree) -> None:
    assert tree.broken() == set()


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.module}: {plant.statement}")
def test_a_wrong_import_is_refused_by_its_contract(tree: Tree, plant: Plant) -> None:
    file = path_of(tree.folder, plant.module)
    before = file.read_text() if file.exists() else None
    file.write_text(f"{before or ''}\n{plant.statement}\n")
    try:
        assert plant.contract in tree.broken()
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_text(before)


def path_of(tree: Path, module: str) -> Path:
    """The file of a module that is there, or that is to be made."""
    paths = [tree / source / Path(*module.split(".")) for source in SOURCES]
    package = next((path / "__init__.py" for path in paths if path.is_dir()), None)
    there = [path.with_suffix(".py") for path in paths if path.parent.is_dir()]
    return package or there[0]


def test_no_files_import_each_other_in_a_circle() -> None:
    """Import statements at run time, late ones too; a package's own file counts as one."""
    graph = grimp.build_graph(*packages(), exclude_type_checking_imports=True, cache_dir=None)
    imports = {
        module: {
            imported
            for imported in graph.find_modules_directly_imported_by(module)
            if not of_an_extension(graph, module, imported)
        }
        for module in graph.modules
    }

    assert circles(imports) == []


def packages() -> list[str]:
    """The import packages of this repository."""
    return sorted(file.parent.name for source in SOURCES for file in (ROOT / source).glob("*/__init__.py"))


def of_an_extension(graph: grimp.ImportGraph, module: str, imported: str) -> bool:
    """True if what looks like an import of a package is one of a compiled module in it."""
    lines = [found["line_contents"] for found in graph.get_import_details(importer=module, imported=imported)]
    folder = path_of(ROOT, imported).parent
    return all((folder / f"{line.split(' import ')[-1].split()[0]}.pyi").exists() for line in lines)


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the rest after files that import nothing more, and files that nobody imports, are taken away."""
    left = dict(imports)
    while True:
        imported = {one for targets in left.values() for one in targets}
        keep = {one: left[one] & left.keys() for one in left if one in imported and left[one] & left.keys()}
        if keep == left:
            return [sorted(left)] if left else []
        left = keep
