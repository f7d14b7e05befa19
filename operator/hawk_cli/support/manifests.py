"""Manifests that a command is given: read within bounds, with what stands for cluster objects."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from hawk_api import documents
from hawk_api.base import API_VERSION
from hawk_api.models import resolve_geometry
from hawk_api.v1alpha1 import KINDS, AcceleratorClass
from hawk_api.validation import validate_manifest as validate_object
from hawk_cli.support.output import fail

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from hawk_api.models import Geometry
    from hawk_api.v1alpha1 import AcceleratorClassSpec, ModelSpec

MAX_BYTES = 16_000_000
"""Largest input that is read: many times what an API server takes."""

MAX_NODES = 1_000_000
"""Most values in an input."""


_KINDS = frozenset(kind.kind_info.kind for kind in KINDS)


@dataclass(frozen=True, slots=True)
class Document:
    """One object of an input, with where it came from."""

    file: str
    index: int
    body: Any

    @property
    def title(self) -> str:
        """Kind and name, as far as they are there."""
        body = self.body if isinstance(self.body, dict) else {}
        metadata = body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return f"{body.get('kind', '?')}/{name or '?'}"

    @property
    def is_ours(self) -> bool:
        """True if it is of HawkPool's group or kinds, or nothing that could be told apart."""
        if not isinstance(self.body, dict) or str(self.body.get("kind")) in _KINDS:
            return True
        version = str(self.body.get("apiVersion", API_VERSION))
        return version.partition("/")[0] == API_VERSION.partition("/")[0]


def load_manifests(path: Path) -> Iterator[Document]:
    """The objects in a file or, for -, in standard input; a List's items one by one."""
    name = shown(path)
    try:
        raw = sys.stdin.buffer.read(MAX_BYTES + 1) if str(path) == "-" else _read(path)
        if len(raw) > MAX_BYTES:
            fail(f"{name}: larger than {MAX_BYTES} bytes; an API server accepts 1.5 MB per object")
        bodies = documents.load_documents(raw.decode("utf-8"))
    except OSError as error:
        fail(f"{name}: {error.strerror or error}; give a file that can be read")
    except documents.DuplicateKeyError as error:
        fail(f"{name}: {error}")
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        fail(f"{name}: not YAML or JSON: {' '.join(str(error).split())}; correct it")
    if _is_larger(bodies, MAX_NODES):
        fail(f"{name}: more than {MAX_NODES} values after expanding YAML aliases; write fewer")
    index = 0
    for body in bodies:
        if body is None:
            continue
        listed = isinstance(body, dict) and str(body.get("kind", "")).endswith("List")
        for item in body.get("items") or () if listed else (body,):
            yield Document(name, index, item)
            index += 1


def classes_in(bodies: Iterable[Any]) -> dict[str, AcceleratorClassSpec]:
    """The valid AcceleratorClasses among objects by name; invalid ones are reported as what they are."""
    found = {}
    for body in bodies:
        if isinstance(body, dict) and body.get("kind") == "AcceleratorClass" and not validate_object(body):
            made = AcceleratorClass.model_validate(body)
            found[made.metadata.name] = made.spec
    return found


def config_maps_in(bodies: Iterable[Any]) -> dict[tuple[str, str], str]:
    """The texts of the ConfigMaps among objects, by name and key."""
    found = {}
    for body in bodies:
        if isinstance(body, dict) and body.get("kind") == "ConfigMap" and isinstance(body.get("data"), dict):
            name = str((body.get("metadata") or {}).get("name"))
            found.update({(name, str(key)): str(text) for key, text in body["data"].items()})
    return found


def geometry_of(model: ModelSpec, maps: Mapping[tuple[str, str], str]) -> Geometry:
    """A model's geometry, its configMapRef looked up in `maps`. Raises `resolve_geometry`'s ValueError."""
    reference = model.config_map_ref
    return resolve_geometry(model, maps.get((reference.name, reference.key)) if reference else None)


def shown(path: Path) -> str:
    """The name of an input in messages."""
    return "standard input" if str(path) == "-" else str(path)


def _is_larger(value: object, limit: int) -> bool:
    """True if more than `limit` values are in `value`: YAML aliases make large things of small files."""
    waiting, seen = [value], 0
    while waiting:
        item = waiting.pop()
        seen += 1
        if seen > limit:
            return True
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return False


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)
