"""Write what follows from hawk/values.yaml: the table in hawk/README.md, and hawk/files/defaults.yaml.

A comment that begins with `# --` describes the key below it; `# ---- Title ----` begins a section.
The defaults are the described values by their paths, for templates to fill in what an older release's values
lack; a value that may be null is left out, because null then means something.
`values_table.py` rewrites both, `values_table.py --check` fails when one is not current or a key that holds a
value has no description.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parent / "hawk"
BEGIN, END = "<!-- values: begin -->", "<!-- values: end -->"
KEY = re.compile(r"^( *)([A-Za-z][A-Za-z0-9]*):")
SECTION = re.compile(r"^# -{4} (.*) -{4}$")


class UndescribedError(ValueError):
    """A key of values.yaml that holds a value has no description."""


@dataclass(frozen=True)
class Row:
    """One described value: its section, dotted path, default and description."""

    section: str
    path: str
    default: Any
    description: str


def rows(text: str) -> list[Row]:
    """Rows in the order of the file. Raises UndescribedError naming the keys without a description."""
    values = yaml.safe_load(text)
    found: list[Row] = []
    section, words, path = "", [], []
    for line in text.splitlines():
        stripped = line.strip()
        if title := SECTION.match(line):
            section = title[1]
        elif stripped.startswith("# -- "):
            words = [stripped.removeprefix("# -- ")]
        elif stripped.startswith("# ") and words:
            words.append(stripped.removeprefix("# "))
        elif key := KEY.match(line):
            path = [*path[: len(key[1]) // 2], key[2]]
            if words:
                found.append(Row(section, ".".join(path), _at(values, path), " ".join(words)))
            words = []
        else:
            words = []
    described = {row.path for row in found}
    if missing := [leaf for leaf in _leaves(values) if not _covered(leaf, described)]:
        raise UndescribedError(
            f"values.yaml: no description for {', '.join(missing)}; put '# -- ...' above the key"
        )
    return found


def table(found: list[Row]) -> str:
    """The rows as Markdown, one table a section."""
    lines: list[str] = []
    section = None
    for row in found:
        if row.section != section:
            section = row.section
            lines += ["", f"### {section}", "", "| Value | Default | Meaning |", "|---|---|---|"]
        description = row.description.replace("|", "\\|")
        lines.append(f"| `{row.path}` | `{json.dumps(row.default)}` | {description} |")
    return "\n".join([*lines, ""])


def defaults(found: list[Row], schema: dict[str, Any]) -> str:
    """The defaults by path, as YAML, without those of values that the schema lets be null."""
    filled = {row.path: row.default for row in found if not _nullable(schema, row.path)}
    head = "# Generated from values.yaml by ../../values_table.py.\n---\n"
    return head + yaml.safe_dump(filled, sort_keys=False, width=110)


def _nullable(schema: dict[str, Any], path: str) -> bool:
    at = schema
    for key in path.split("."):
        at = at["properties"][key]
        if "$ref" in at:
            at = schema["definitions"][at["$ref"].rpartition("/")[2]]
    return "null" in at.get("type", ())


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values[key]
    return values


def _leaves(values: Any, prefix: str = "") -> list[str]:
    if isinstance(values, dict) and values:
        return [
            leaf
            for key, value in values.items()
            for leaf in _leaves(value, f"{prefix}.{key}" if prefix else key)
        ]
    return [prefix]


def _covered(leaf: str, described: set[str]) -> bool:
    """A description covers the key and all below it."""
    parts = leaf.split(".")
    return any(".".join(parts[:size]) in described for size in range(1, len(parts) + 1))


def generate() -> dict[Path, str]:
    """The generated files and their texts."""
    found = rows((CHART / "values.yaml").read_text())
    readme = CHART / "README.md"
    head, rest = readme.read_text().split(BEGIN)
    tail = rest.split(END)[1]
    schema = json.loads((CHART / "values.schema.json").read_text())
    return {
        readme: f"{head}{BEGIN}\n{table(found)}\n{END}{tail}",
        CHART / "files/defaults.yaml": defaults(found, schema),
    }


def main(arguments: list[str]) -> int:
    """Rewrite or check the generated files; the exit code."""
    code = 0
    for path, text in generate().items():
        if "--check" not in arguments:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path}: not current; run python charts/values_table.py", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
