"""Commands, options, make targets, paths and links that the pages name exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import typer

from hawk_agent.service.settings import AgentSettings
from hawk_cli.app import build
from hawk_operator.runtime.settings import OperatorSettings

ROOT = Path(__file__).parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "charts/hawk/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
FOLDERS = ("agents", "charts", "crds", "docs", "images", "operator", "requirements", "tests")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))

pages = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.name if page.parent != ROOT else str(page.stem)
)


def code(page: Path) -> list[str]:
    """Spans and lines of code, without prompts and comments; continued lines are joined."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```(?:console|text|)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"^ {4}(\S.*)$", prose, re.MULTILINE)
    comment = re.compile(r" {2,}.*")  # what follows a wider space is a comment
    found = (*lines, *re.findall(r"`([^`\n]+)`", prose))
    return [comment.sub("", line.strip().removeprefix("$ ")) for line in found]


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them, and those that are written."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a name="([^"]+)"', text))


@pages
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pages
def test_make_targets_exist(page: Path) -> None:
    for line in code(page):
        if line.startswith("make "):
            named = re.findall(r"^[a-z][a-z-]*$", line.partition("#")[0].replace(" ", "\n"), re.MULTILINE)
            assert set(named[1:]) <= TARGETS, line


@pages
def test_hawk_commands_and_options_exist(page: Path) -> None:
    for line in code(page):
        if not re.match(r"hawk [a-z]", line):
            continue
        words = shlex.split(line.replace("…", ""), comments=True)[1:]
        command = typer.main.get_command(build(words))
        while (known := getattr(command, "commands", None)) and words and not words[0].startswith("-"):
            command = known[words.pop(0).partition("|")[0]]
        options = {
            name
            for parameter in command.params
            for name in (*parameter.opts, *parameter.secondary_opts, "--help")
        }
        assert {
            word.partition("=")[0] for word in words if word.startswith("-") and word != "-"
        } <= options, line


@pages
def test_options_of_the_processes_exist(page: Path) -> None:
    for line in code(page):
        for program, settings in (("hawk-agent", AgentSettings), ("hawk-operator", OperatorSettings)):
            if re.match(rf"[\w/]*{program} -", line):
                flags = set(re.findall(r"`(--[a-z-]+)`", "\n".join(settings.table()))) | {"--no-kube"}
                assert set(re.findall(r" (--[a-z-]+)", line)) <= flags, line


@pages
def test_paths_exist(page: Path) -> None:
    for line in code(page):
        for path in re.findall(rf"(?<![\w/.~-])(?:{'|'.join(FOLDERS)})/[\w./*-]*\w", line):
            assert list(ROOT.glob(path)), line


@pages
def test_python_modules_exist(page: Path) -> None:
    for line in code(page):
        for module in re.findall(r"python3? -m ([\w.]+)", line):
            assert importlib.util.find_spec(module), line
