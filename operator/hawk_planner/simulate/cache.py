"""Results of simulated runs, kept by content under the user's cache, so that a long comparison can be cut
into pieces: what one process computed, the next finds.

A result is found again only for the same requests, pool, settings and policy under the same code; nothing
has to be invalidated, and two processes may work on one comparison.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def root() -> Path:
    """The cache folder: `$HAWK_CACHE`, else `$XDG_CACHE_HOME/hawkpool`, else `~/.cache/hawkpool`."""
    if chosen := os.environ.get("HAWK_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hawkpool"


@cache
def code(*names: str) -> str:
    """Digest of the source of modules, and of packages with all that is in them, by their full names."""
    found = hashlib.sha256()
    for name in names:
        spec = find_spec(name)
        assert spec is not None, name
        assert spec.origin is not None, name
        home = Path(spec.origin)
        for path in sorted(home.parent.rglob("*.py")) if spec.submodule_search_locations else [home]:
            found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


class Store:
    """A folder of JSON values by digest of their keys."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or root() / "simulated"
        self.found = 0
        """Values that were there."""

    def get(self, key: str) -> Any:
        """The value that was put under `key`; None where there is none, or none that can be read."""
        try:
            value = json.loads(self._path(key).read_bytes())
        except (OSError, ValueError):
            return None
        self.found += 1
        return value

    def put(self, key: str, value: Any) -> None:
        """Keep a value; whole or not at all, whoever else writes."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump(value, file, separators=(",", ":"))
        Path(file.name).replace(path)

    def _path(self, key: str) -> Path:
        digest = hashlib.sha256(key.encode()).hexdigest()
        return self._folder / digest[:2] / f"{digest}.json"
