"""Objects for an API server whose CRDs are older than this release.

Server-side apply refuses an object as a whole where one of its fields isn't in the served schema. Paths are
like `status.regions[].busy`: list items are `[]`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_UNDECLARED: Final = re.compile(r"\.((?:[A-Za-z0-9_-]+(?:\[[^\]]*\])*\.?)+): field not declared in schema")
_ITEM: Final = re.compile(r"\[[^\]]*\]")


def undeclared(message: str) -> frozenset[str]:
    """The paths that a refusal of the API server names."""
    return frozenset(_ITEM.sub("[]", found) for found in _UNDECLARED.findall(message))


def without(value: Mapping[str, Any], lacking: Collection[str], path: str = "") -> dict[str, Any]:
    """`value`, which is at `path`, without what is at the `lacking` paths."""
    found = {}
    for key, part in value.items():
        here = f"{path}.{key}" if path else key
        if here not in lacking:
            found[key] = _inner(part, lacking, here)
    return found


def _inner(value: Any, lacking: Collection[str], path: str) -> Any:
    if isinstance(value, dict):
        return without(value, lacking, path)
    if isinstance(value, list):
        return [_inner(item, lacking, f"{path}[]") for item in value]
    return value
