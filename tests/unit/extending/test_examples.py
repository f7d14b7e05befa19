"""The examples of docs/extending.md run as they are written."""

from __future__ import annotations

import re
import sys
import tomllib
import types
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from hawk_api.v1alpha1 import Engine
from hawk_api.validation import validate_manifest
from hawk_operator.traffic.presets import PRESETS
from tests.unit.agent.house import house, transfer_all

if TYPE_CHECKING:
    import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "extending.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_every_python_example_runs(monkeypatch: pytest.MonkeyPatch):
    module = types.ModuleType("extending_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found = blocks("python")
    for text in found:
        exec(compile(text, "docs/extending.md", "exec", dont_inherit=True), module.__dict__)

    assert len(found) == 7


async def test_the_transport_moves_bytes_between_two_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = next(text for text in blocks("python") if text.startswith("# pigeon.py"))
    points = tomllib.loads(blocks("toml")[0])["project"]["entry-points"]["hawkpool.transports"]
    metadata = tmp_path / "pigeon-1.0.dist-info"
    metadata.mkdir()
    (tmp_path / "pigeon.py").write_text(module)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[hawkpool.transports]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
    )
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "agents"
    folder.mkdir()

    async with house(folder) as built:
        source, destination = await built.pair("pigeon")
        sent, _ = await transfer_all(source, destination)

        assert sent.transport == "pigeon"


def test_the_accelerator_class_is_valid():
    (text,) = blocks("yaml")
    assert validate_manifest(yaml.safe_load(text)) == ()


def test_every_engine_that_a_pool_may_name_has_metrics():
    assert set(PRESETS) == {engine.value for engine in Engine}


def test_links_on_the_page_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (Path(__file__).parents[3] / "docs" / target).exists(), target
