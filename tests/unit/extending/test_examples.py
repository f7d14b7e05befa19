"""The examples of docs/extending.md run as they are written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from hawk_api.v1alpha1 import Engine
from hawk_api.validation import validate_manifest
from hawk_operator.traffic.presets import PRESETS
from hawk_planner.traffic.signal_names import LATE, SIGNALS
from tests.unit.extending.agents import running

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def python_file(name: str) -> str:
    return next(text for text in blocks("python") if text.startswith(f"# {name}\n"))


def commands(program: str) -> list[list[str]]:
    """The page's command lines of a program, without the prompt and the `&`."""
    lines = [line for text in blocks("console") for line in text.splitlines()]
    words = [shlex.split(line.removeprefix("$ ").rstrip("& "), comments=True) for line in lines]
    return [found for found in words if Path(found[0]).name == program]


def test_every_python_example_runs(monkeypatch: pytest.MonkeyPatch):
    module = types.ModuleType("extending_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found = [text for text in blocks("python") if not text.startswith("# engines.py")]
    for text in found:
        exec(compile(text, "docs/extending.md", "exec", dont_inherit=True), module.__dict__)

    assert len(found) == 7


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The page's package as pip would install it, on the path of the processes."""
    project = tomllib.loads(blocks("toml")[0])["project"]
    points = project["entry-points"]["hawkpool.transports"]
    metadata = tmp_path / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    (tmp_path / "spool.py").write_text(python_file("spool.py"))
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (metadata / "entry_points.txt").write_text(
        "[hawkpool.transports]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
    )
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


@pytest.fixture
def linked(tmp_path: Path, environment: dict[str, str]) -> Iterator[str]:
    """The page's two agents as processes, linked; the sender's log up to there."""
    receiver, sender = (
        [sys.executable, "-m", "hawk_agent.main", *words[1:]] for words in commands("hawk-agent")
    )
    receiver[receiver.index("--listen") + 1] = "127.0.0.1:0"
    with running(receiver, tmp_path, environment, until="metrics at") as log:
        address = re.search(r"peers at ([\d.:]+),", log)[1]  # type: ignore[index]
        sender[sender.index("--peer") + 1] = f"receiver={address}"
        with running(sender, tmp_path, environment, until="verified") as sent:
            yield sent


def test_the_transport_moves_bytes_between_two_agent_processes(
    linked: str, tmp_path: Path, environment: dict[str, str]
):
    (tmp_path / "engines.py").write_text(python_file("engines.py"))
    done = subprocess.run(
        [sys.executable, "engines.py"],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.stdout.strip() in blocks("console")[1], done.stderr
    assert blocks("text")[0].split("INFO ")[1].strip() in linked


def test_the_accelerator_class_is_valid():
    (text,) = blocks("yaml")
    assert validate_manifest(yaml.safe_load(text)) == ()


def test_every_engine_that_a_pool_may_name_has_all_signals():
    assert set(PRESETS) == {engine.value for engine in Engine}
    for engine, names in PRESETS.items():
        assert names.keys() == {*SIGNALS} - {LATE}, engine


def test_what_the_page_says_to_change_is_there():
    found = re.findall(r"`(\w+)` in\s+\[[\w.]+\]\(\.\./([\w/.]+)\)", PAGE)

    assert len(found) >= 6
    for name, path in found:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), (name, path)


def test_links_on_the_page_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
