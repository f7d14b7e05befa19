"""hawk validate: manifests checked without a cluster, as the API server and the operator check them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hawk_api.base import API_VERSION
from hawk_api.catalogue import shipped
from hawk_api.checks import Severity, Violation
from hawk_api.checks.violation import error
from hawk_api.v1alpha1 import AcceleratorClassSpec, HawkPool
from hawk_api.validation import validate_manifest as validate_object
from hawk_cli.support.manifests import (
    Document,
    classes_in,
    config_maps_in,
    geometry_of,
    load_manifests,
    shown,
)
from hawk_cli.support.output import Output, OutputOption, emit_output, fail, rows
from hawk_operator.status.layouts import judge_layouts


def validate_files(
    files: Annotated[list[Path], typer.Argument(help="Manifests, YAML or JSON; - reads standard input.")],
    *,
    no_classes: Annotated[
        bool, typer.Option("--no-classes", help="Don't compare acceleratorClass with the shipped classes.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check manifests without a cluster. Exit status 2 if an object is invalid.

    Objects of other API groups are skipped; AcceleratorClasses and ConfigMaps in the files are used.
    """
    given = [document for file in files for document in load_manifests(file)]
    bodies = [document.body for document in given]
    classes = None if no_classes else {**shipped(), **classes_in(bodies)}
    maps = config_maps_in(bodies)
    ours = [document for document in given if document.is_ours]
    if not ours:
        fail(f"{', '.join(map(shown, files))}: no objects of {API_VERSION}; give a HawkPool manifest")
    found = []
    for document, again in _repeated(ours):
        violations = (*again, *validate_object(document.body, classes, maps))
        if not _invalid(violations):
            violations += _clashes(document.body, classes or {}, maps)
        found.append((document, violations))
    emit_output(_report(found), output, lambda: _table(found))
    if any(_invalid(violations) for _, violations in found):
        raise typer.Exit(2)


def _invalid(violations: Sequence[Violation]) -> bool:
    return any(violation.severity is Severity.ERROR for violation in violations)


def _clashes(
    body: Any, classes: Mapping[str, AcceleratorClassSpec], maps: Mapping[tuple[str, str], str]
) -> tuple[Violation, ...]:
    """Errors where a valid pool's KV layouts can't be translated into each other, compiled as agents do."""
    if body["kind"] != HawkPool.kind_info.kind:
        return ()
    spec = HawkPool.model_validate(body).spec
    try:
        geometry = geometry_of(spec.model, maps)
    except ValueError:  # the operator reads the text from the cluster
        return ()
    verdict = judge_layouts(spec, geometry, classes)
    if verdict.status is not False:
        return ()
    message = f"{verdict.message}; declare a kvLayout for each group that holds the model's KV cache"
    return (error("spec.groups", message, verdict.reason),)


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
