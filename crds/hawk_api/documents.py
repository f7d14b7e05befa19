"""YAML and JSON from users: PyYAML's safe loader, with duplicate keys refused."""

from __future__ import annotations

from typing import Any

import yaml


class DuplicateKeyError(ValueError):
    """A mapping has a key twice, so one of its values would be lost."""


class _Loader(yaml.SafeLoader):
    # While composing, keys that a merge (<<) brings in are not there yet; they may be written again.
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            identity, line = (key.tag, key.value), key.start_mark.line + 1
            if identity in lines:
                raise DuplicateKeyError(
                    f"line {line}: the key {key.value} is in line {lines[identity]} too; remove one"
                )
            lines[identity] = line
        return node


def load_documents(text: str) -> list[Any]:
    """Every document of `text`. Raises `yaml.YAMLError`, or `ValueError` such as `DuplicateKeyError`."""
    return list(yaml.load_all(text, _Loader))


__all__ = ["DuplicateKeyError", "load_documents"]
