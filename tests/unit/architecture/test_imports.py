"""Every module can be imported with the declared dependencies alone."""

from __future__ import annotations

import importlib
import pkgutil
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
RIVALS = {"hawk_cli.bench.baselines.mooncake", "hawk_cli.bench.baselines.nixl"}
"""They run in environments of their own, which have the library that each measures."""


@pytest.mark.parametrize("package", PROJECT["tool"]["importlinter"]["root_packages"])
def test_every_module_can_be_imported(package):
    found = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    names = {module.name for module in found} - RIVALS

    assert names
    for name in sorted(names):
        importlib.import_module(name)
