"""Manifests, validated without a cluster: first the schema, then the chain of checks.

A finding's field is a path in the form that the API server uses (spec.groups[0].replicas.min), whichever step
made it.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hawk_api import checks, names
from hawk_api.base import API_VERSION, DNS_LABEL, DNS_SUBDOMAIN, Model
from hawk_api.checks.violation import error, suggestion
from hawk_api.v1alpha1 import KINDS, AcceleratorClassSpec, HawkPool
from hawk_api.v1alpha1.group import NOTATION
from hawk_api.v1alpha1.scaling import URL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pydantic_core import ErrorDetails

    from hawk_api.base import Resource
    from hawk_api.checks import Violation

_KINDS: dict[str, type[Resource]] = {kind.kind_info.kind: kind for kind in KINDS}


def validate_manifest(
    obj: object,
    classes: Mapping[str, AcceleratorClassSpec] | None = None,
    config_maps: Mapping[tuple[str, str], str] | None = None,
) -> tuple[Violation, ...]:
    """All findings about one object, errors first; none means that it is valid.

    `classes` are AcceleratorClasses by name, `config_maps` texts by (ConfigMap, key), as far as known.
    """
    kind = _kind(obj)
    if kind is not None:
        return (kind,)
    assert isinstance(obj, dict)
    found = list(_head(obj))
    try:
        made = parse_object(obj)
    except ValidationError as problem:
        named = {violation.field for violation in found}
        return (*found, *(one for one in shape_errors(problem, obj) if one.field not in named))
    if isinstance(made, HawkPool):
        reference = made.spec.model.config_map_ref
        text = (config_maps or {}).get((reference.name, reference.key)) if reference else None
        found += checks.check_spec(made.spec, classes, text)
    return tuple(found)


def parse_object(obj: Mapping[str, Any]) -> Resource:
    """The typed object, as strict as the API server. Raises `pydantic.ValidationError`."""
    return _KINDS[str(obj.get("kind"))].model_validate(obj, context={"wire": True})


def _kind(obj: object) -> Violation | None:
    """The problems that keep the object from being checked at all."""
    if not isinstance(obj, dict):
        return error("(document)", f"is {type(obj).__name__} and not an object; give a manifest")
    kind = obj.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        return error("kind", f"{kind!r} is no kind of {API_VERSION}; {suggestion(str(kind), _KINDS)}")
    return None


def _head(obj: Mapping[str, Any]) -> Iterator[Violation]:
    """Problems of the version and the name that the models don't report."""
    if obj.get("apiVersion") != API_VERSION:
        yield error("apiVersion", f"{obj.get('apiVersion')!r} is not served; write {API_VERSION}")
    if "metadata" not in obj:
        yield error("metadata", "is required; add it")
        return
    metadata = obj["metadata"]
    if not isinstance(metadata, dict):
        return
    if "name" not in metadata:
        yield error("metadata.name", "is required; add it")
    elif isinstance(metadata["name"], str) and not names.is_subdomain(metadata["name"]):
        yield error(
            "metadata.name",
            f"{_shown(metadata['name'])} is no object name; use at most 253 of a-z, 0-9, '-' and '.'",
        )


def shape_errors(problem: ValidationError, obj: Mapping[str, Any]) -> list[Violation]:
    """Pydantic's findings in our words, without those that only follow from others."""
    details = problem.errors(include_url=False, include_context=True)
    places = [detail["loc"] for detail in details]
    return [
        error(path(detail["loc"]), _message(detail, obj))
        for detail in details
        if detail["type"] != "default_factory_not_called"
        and not (detail["type"] == "too_short" and _has_deeper(detail["loc"], places))
    ]


def _has_deeper(place: tuple[int | str, ...], places: Iterable[tuple[int | str, ...]]) -> bool:
    return any(len(other) > len(place) and other[: len(place)] == place for other in places)


def path(place: Iterable[int | str]) -> str:
    """("spec", "groups", 0, "name") as spec.groups[0].name."""
    made = ""
    for part in place:
        if part == "[key]":
            continue
        made += f"[{part}]" if isinstance(part, int) else f".{part}" if made else part
    return made or "(document)"


def _message(detail: ErrorDetails, obj: Mapping[str, Any]) -> str:
    kind, given, context = detail["type"], detail["input"], detail.get("ctx", {})
    shown = _shown(given)
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        return _unknown_field(detail["loc"], obj)
    if kind in _MESSAGES:
        return _MESSAGES[kind](shown, context)
    return f"{shown}: {detail['msg'].lower()}; correct it"


_FORMS = {
    DNS_LABEL: "use lower-case letters, digits and '-', with a letter or digit at both ends",
    DNS_SUBDOMAIN: "use lower-case letters, digits, '-' and '.', with a letter or digit at both ends",
    URL: "write http://host:port or https://host:port, with an IPv6 address in brackets",
    NOTATION: "write axes l c b h s d with an optional level, in brackets where paged, such as '[s1] h s0 d'",
}


def _form(pattern: str) -> str:
    return _FORMS.get(pattern, f"it must match {pattern}")


_MESSAGES: dict[str, Callable[[str, Mapping[str, Any]], str]] = {
    "missing": lambda _, __: "is required; add it",
    "enum": lambda given, ctx: f"unsupported value {given}; use {ctx['expected']}",
    "literal_error": lambda given, ctx: f"unsupported value {given}; use {ctx['expected']}",
    "int_type": lambda given, _: f"{given} is not a whole number; write it without quotes or fraction",
    "bool_type": lambda given, _: f"{given} is not a boolean; write true or false",
    "string_type": lambda given, _: f"{given} is not a string; put it in quotes",
    "dict_type": lambda given, _: f"{given} is not a map; write keys and values",
    "model_type": lambda given, _: f"{given} is not an object; write its fields",
    "tuple_type": lambda given, _: f"{given} is not a list; write one item a line, each with '-'",
    "greater_than_equal": lambda given, ctx: f"{given} is below {ctx['ge']}; give {ctx['ge']} or more",
    "less_than_equal": lambda given, ctx: f"{given} is above {ctx['le']}; give at most {ctx['le']}",
    "too_short": lambda _, ctx: f"has too few items; give at least {ctx['min_length']}",
    "too_long": lambda _, ctx: f"has too many items; give at most {ctx['max_length']}",
    "string_too_short": lambda _, ctx: f"is too short; give at least {ctx['min_length']} characters",
    "string_too_long": lambda _, ctx: f"is too long; give at most {ctx['max_length']} characters",
    "string_pattern_mismatch": lambda given, ctx: f"{given} is not well formed; {_form(ctx['pattern'])}",
}


def _unknown_field(place: tuple[int | str, ...], obj: Mapping[str, Any]) -> str:
    name = str(place[-1])
    known = _fields_at(place[:-1], obj)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"unknown field; did you mean {near[0]}?" if near else "unknown field; remove it"


def _fields_at(place: tuple[int | str, ...], obj: Mapping[str, Any]) -> list[str]:
    """Names of the fields that the model at `place` has, by following the annotations."""
    model: Any = _KINDS.get(str(obj.get("kind")))
    for part in place:
        if isinstance(part, int):
            continue
        fields = getattr(model, "model_fields", {})
        field = next((f for name, f in fields.items() if part in {name, f.alias}), None)
        model = _model_in(field.annotation) if field else None
    fields = getattr(model, "model_fields", {})
    return [field.alias or name for name, field in fields.items()]


def _model_in(annotation: Any) -> type[Model] | None:
    """The model in an optional or a list annotation."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    found = (_model_in(part) for part in getattr(annotation, "__args__", ()))
    return next((model for model in found if model is not None), None)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


__all__ = ["parse_object", "path", "shape_errors", "validate_manifest"]
