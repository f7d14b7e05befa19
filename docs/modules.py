"""Write the picture and the table of modules in architecture.md from the import contracts in pyproject.toml.

A module's line is the first sentence of its docstring. With --check it fails when the page is not current.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
SOURCES = ("crds", "operator", "agents")
BEGIN, END = "<!-- modules: begin -->", "<!-- modules: end -->"

Layers = list[list[str]]
"""Modules of a package from top to bottom; those of one layer are independent of each other."""


def layers_by_package(configuration: str) -> tuple[Layers, dict[str, Layers]]:
    """The layers of packages, and of modules by package, from the text of pyproject.toml."""
    packages: Layers = []
    modules: dict[str, Layers] = {}
    for contract in tomllib.loads(configuration)["tool"]["importlinter"]["contracts"]:
        if contract["type"] != "layers":
            continue
        layers = [[module.strip(" ()") for module in layer.split("|")] for layer in contract["layers"]]
        if "containers" in contract:
            modules[contract["containers"][0]] = layers
        else:
            packages = layers
    return packages, modules


def picture(packages: Layers, modules: dict[str, Layers]) -> str:
    """A mermaid flowchart: a box a package, a node a layer, arrows to the layer below."""
    lines = ["```mermaid", "flowchart TB"]
    ordered = [package for layer in packages for package in layer]
    for package in ordered:
        lines += [f"  subgraph {package}", "    direction TB"]
        layers = [
            [module for module in layer if source_of(package, module)] for layer in modules.get(package, [])
        ]
        nodes = [(f"{package}_{number}", layer) for number, layer in enumerate(layers) if layer]
        lines += [f'    {node}["{" · ".join(layer)}"]' for node, layer in nodes]
        lines += [f"    {above} --> {below}" for (above, _), (below, _) in pairwise(nodes)]
        lines.append("  end")
    lines += [f"  {above} --> {below}" for above, below in pairwise(ordered)]
    return "\n".join([*lines, "```"])


def table(packages: Layers, modules: dict[str, Layers]) -> str:
    """Every module with the first sentence of its docstring, from top to bottom."""
    lines = ["| module | about |", "|---|---|"]
    for package in (package for layer in packages for package in layer):
        lines.append(f"| **`{package}`** | **{sentence(source_of(package))}** |")
        lines += [
            f"| `{package}.{module}` | {sentence(source_of(package, module))} |"
            for layer in modules.get(package, [])
            for module in layer
            if source_of(package, module)
        ]
    return "\n".join(lines)


def source_of(package: str, module: str = "") -> Path | None:
    """The file with a module's docstring; None where there is no such module."""
    for source in SOURCES:
        path = ROOT / source / package / module
        for file in (path / "__init__.py", path.with_suffix(".py")):
            if file.is_file():
                return file
    return None


def sentence(file: Path | None) -> str:
    """The first sentence of a file's docstring."""
    text = ast.get_docstring(ast.parse(file.read_text())) if file else None
    if not text:
        raise SystemExit(f"{file}: no docstring; say in one sentence what the module is about")
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Rewrite or check architecture.md; the exit code."""
    packages, modules = layers_by_package((ROOT / "pyproject.toml").read_text())
    before = PAGE.read_text()
    head, rest = before.split(BEGIN)
    tail = rest.split(END)[1]
    middle = f"{picture(packages, modules)}\n\n{table(packages, modules)}"
    after = f"{head}{BEGIN}\n{middle}\n{END}{tail}"
    if "--check" not in arguments:
        PAGE.write_text(after)
    elif before != after:
        print(f"{PAGE}: not current; run python docs/modules.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
