"""The import contracts refuse what they should: wrong imports are planted in a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from tests.unit.architecture.plants import PLANTS, Plant

ROOT = Path(__file__).parents[3]
SOURCES = ("crds", "operator", "agents")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of every package, without what is built of them."""
    copy = tmp_path_factory.mktemp("tree")
    for source in SOURCES:
        shutil.copytree(ROOT / source, copy / source, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def broken(tree: Path) -> set[str]:
    """The contracts that the tree breaks."""
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(tree / source) for source in SOURCES)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    return set(re.findall(r"^(.+) BROKEN", done.stdout, re.MULTILINE))


def test_the_tree_as_it_is_breaks_none(tree: Path) -> None:
    assert broken(tree) == set()


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.module}: {plant.statement}")
def test_a_wrong_import_is_refused_by_its_contract(tree: Path, plant: Plant) -> None:
    file = path_of(tree, plant.module)
    before = file.read_text() if file.exists() else None
    file.write_text(f"{before or ''}\n{plant.statement}\n")
    try:
        assert plant.contract in broken(tree)
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
