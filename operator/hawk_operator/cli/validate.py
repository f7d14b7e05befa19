"""hawk validate: manifests checked without a cluster, as the API server and the operator check them."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table

from hawk_api import documents
from hawk_api.base import API_VERSION
from hawk_api.catalogue import shipped
from hawk_api.models import Geometry, resolve
from hawk_api.policy import Severity, Violation
from hawk_api.policy.violation import error
from hawk_api.v1alpha1 import KINDS, AcceleratorClass, AcceleratorClassSpec, HawkPool, ModelSpec
from hawk_api.validation import validate as validate_object
from hawk_operator.cli.output import Output, OutputOption, emit, fail, rows
from hawk_operator.status.layouts import judge

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
        """Whether it is of HawkPool's group or kinds, or nothing that could be told apart."""
        if not isinstance(self.body, dict) or str(self.body.get("kind")) in _KINDS:
            return True
        version = str(self.body.get("apiVersion", API_VERSION))
        return version.partition("/")[0] == API_VERSION.partition("/")[0]


def validate(
    files: Annotated[list[Path], typer.Argument(help="Manifests, YAML or JSON; - reads standard input.")],
    *,
    no_classes: Annotated[
        bool, typer.Option("--no-classes", help="Don't compare acceleratorClass with the shipped classes.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check manifests without a cluster. Exit status 2 where an object is invalid.

    Objects of other API groups are skipped; AcceleratorClasses and ConfigMaps in the files count as known.
    """
    given = [document for file in files for document in load(file)]
    bodies = [document.body for document in given]
    classes = None if no_classes else {**shipped(), **classes_in(bodies)}
    maps = config_maps_in(bodies)
    ours = [document for document in given if document.is_ours]
    if not ours:
        fail(f"{', '.join(map(_shown, files))}: no object of {API_VERSION}; give a HawkPool's manifest")
    found = []
    for document, again in _repeated(ours):
        violations = (*again, *validate_object(document.body, classes, maps))
        if not _invalid(violations):
            violations += _clashes(document.body, classes or {}, maps)
        found.append((document, violations))
    emit(_report(found), output, lambda: _table(found))
    if any(_invalid(violations) for _, violations in found):
        raise typer.Exit(2)


def _invalid(violations: Sequence[Violation]) -> bool:
    return any(violation.severity is Severity.ERROR for violation in violations)


def _clashes(
    body: Any, classes: Mapping[str, AcceleratorClassSpec], maps: Mapping[tuple[str, str], str]
) -> tuple[Violation, ...]:
    """Of a valid pool: whether each group's KV cache can become each other's, compiled as agents will."""
    if body["kind"] != HawkPool.kind_info.kind:
        return ()
    spec = HawkPool.model_validate(body).spec
    try:
        geometry = geometry_of(spec.model, maps)
    except ValueError:  # the operator looks for the text in the cluster
        return ()
    verdict = judge(spec, geometry, classes)
    if verdict.status is not False:
        return ()
    message = f"{verdict.message}; declare a kvLayout for each group that holds the model's KV cache"
    return (error("spec.groups", message, verdict.reason),)


def load(path: Path) -> Iterator[Document]:
    """The objects in a file or, for -, in standard input; a List's items one by one."""
    name = _shown(path)
    try:
        raw = sys.stdin.buffer.read(MAX_BYTES + 1) if str(path) == "-" else _read(path)
        if len(raw) > MAX_BYTES:
            fail(f"{name}: larger than {MAX_BYTES} bytes; an API server takes 1.5 MB an object")
        bodies = documents.load(raw.decode("utf-8"))
    except OSError as error:
        fail(f"{name}: {error.strerror or error}; give a file that can be read")
    except documents.DuplicateKeyError as error:
        fail(f"{name}: {error}")
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        fail(f"{name}: not YAML or JSON: {' '.join(str(error).split())}; correct it")
    if _is_larger(bodies, MAX_NODES):
        fail(f"{name}: more than {MAX_NODES} values once its YAML aliases are followed; write fewer")
    index = 0
    for body in bodies:
        if body is None:
            continue
        listed = isinstance(body, dict) and str(body.get("kind", "")).endswith("List")
        for item in body.get("items") or () if listed else (body,):
            yield Document(name, index, item)
            index += 1


def _shown(path: Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _is_larger(value: object, limit: int) -> bool:
    """Whether more than `limit` values are in `value`: YAML aliases make large things of small files."""
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


def _repeated(given: Sequence[Document]) -> Iterator[tuple[Document, tuple[Violation, ...]]]:
    """Each document, with an error where kind, namespace and name are those of one before."""
    seen: dict[tuple[str, ...], Document] = {}
    for document in given:
        metadata = document.body.get("metadata") if isinstance(document.body, dict) else None
        if not isinstance(metadata, dict) or not metadata.get("name"):
            yield document, ()
            continue
        key = (document.title, str(metadata.get("namespace")))
        first = seen.setdefault(key, document)
        message = f"{document.title} is object {first.index + 1} of {first.file} too; rename or remove one"
        yield document, () if first is document else (error("metadata.name", message),)


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
    """A model's geometry, its configMapRef looked up in `maps`. ValueError as `resolve` raises it."""
    reference = model.config_map_ref
    return resolve(model, maps.get((reference.name, reference.key)) if reference else None)


def _report(found: Sequence[tuple[Document, tuple[Violation, ...]]]) -> dict[str, Any]:
    return {
        "valid": not any(_invalid(violations) for _, violations in found),
        "objects": [
            {
                "file": document.file,
                "index": document.index,
                "object": document.title,
                "violations": [
                    {"severity": v.severity, "field": v.field, "reason": v.reason, "message": v.message}
                    for v in violations
                ],
            }
            for document, violations in found
        ],
    }


def _table(found: Sequence[tuple[Document, tuple[Violation, ...]]]) -> Table:
    lines: list[tuple[str, str, str, str]] = []
    for document, violations in found:
        lines += [(document.title, str(v.severity), v.field, v.message) for v in violations]
        if not violations:
            lines.append((document.title, "valid", "", ""))
    return rows(None, ("object", "result", "field", "message"), lines)
