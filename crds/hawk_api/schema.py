"""Structural OpenAPI v3 schemas, as the API server demands them, from pydantic models.

Pydantic writes JSON Schema with references, titles and `anyOf` for optional fields. A
CustomResourceDefinition wants everything inline, one type a node, and an upper bound on every string, list
and map (it estimates the cost of rules from them). What can't be expressed is an error here and not a
surprise at installation.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from pydantic.json_schema import GenerateJsonSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_core.core_schema import ModelSchema

    from hawk_api.base import Model

Schema = dict[str, Any]

_DROPPED = {
    "title",
    "additionalProperties",
    "propertyNames",
    "$defs",
    "default",
    "properties",
    "items",
    "anyOf",
}
_KEPT = {
    "type",
    "description",
    "enum",
    "format",
    "required",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
}


class SchemaError(ValueError):
    """A model that a CustomResourceDefinition can't express; the message names the path."""


def structural_schema(model: type[Model], *, defaults: bool = True) -> Schema:
    """The structural schema of `model`; without `defaults` for a status, which nobody fills in."""
    # Only in this mode are defaults in the API's spelling ("15s"); nothing else differs between the two.
    source = model.model_json_schema(by_alias=True, mode="serialization", schema_generator=_WithDocstrings)
    return _Converter(source.get("$defs", {}), defaults).node(source, model.__name__)


class _WithDocstrings(GenerateJsonSchema):
    """Takes a field's description from its docstring.

    Pydantic does the same with `use_attribute_docstrings`, but at import: every process would parse the
    source of every model for what only this generator reads.
    """

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        made = super().model_schema(schema)
        model: type[Model] = schema["cls"]
        told = field_docstrings(model)
        for name, field in model.model_fields.items():
            if name in told:
                made["properties"][field.serialization_alias or name].setdefault("description", told[name])
        return made


def field_docstrings(model: type) -> dict[str, str]:
    """The string below each field of a class and of those it inherits from, by the field's name."""
    found: dict[str, str] = {}
    for part in reversed(model.__mro__[:-1]):
        if part.__module__.startswith("pydantic"):
            continue
        body = cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(part))).body[0]).body
        for field, below in pairwise(body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = inspect.cleandoc(text)
    return found


class _Converter:
    def __init__(self, definitions: dict[str, Schema], defaults: bool) -> None:
        self.definitions = definitions
        self.defaults = defaults

    def node(self, given: Schema, path: str) -> Schema:
        source = self._resolve(given, path)
        for key in source:
            if key not in _KEPT and key not in _DROPPED and key != "const":
                raise SchemaError(f"{path}: {key} isn't supported in a CustomResourceDefinition")
        made = {key: value for key, value in source.items() if key in _KEPT}
        if "const" in source:
            made["enum"] = [source["const"]]
        if "properties" in source:
            made["properties"] = {
                name: self.node(child, f"{path}.{name}") for name, child in source["properties"].items()
            }
        if "items" in source:
            made["items"] = self.node(source["items"], f"{path}[]")
        if isinstance(source.get("additionalProperties"), dict):
            made["additionalProperties"] = self.node(source["additionalProperties"], f"{path}.*")
        if (allowed := value_range(made)) and "description" in made:
            made["description"] = f"{made['description'].rstrip('.')}; {allowed}."
        if made.get("type") == "integer":
            made["format"] = "int32" if made.get("maximum", 2**63) < 2**31 else "int64"
        if self.defaults and source.get("default") is not None:
            made["default"] = _settled(source["default"], made)
        return made

    def _resolve(self, given: Schema, path: str) -> Schema:
        """`given` with its reference inlined and the null of an optional field dropped."""
        source = dict(given)
        if "anyOf" in source:
            kinds = [kind for kind in source.pop("anyOf") if kind != {"type": "null"}]
            if len(kinds) != 1:
                raise SchemaError(f"{path}: a field can't have several types in a CustomResourceDefinition")
            source = {**kinds[0], **source}
        if "$ref" in source:
            name = source.pop("$ref").rpartition("/")[2]
            source = self._resolve({**self.definitions[name], **source}, path)
        return source


def value_range(node: Schema) -> str:
    """The values that a number's node allows, which `kubectl explain` doesn't show; "" for other nodes."""
    low, high = node.get("minimum"), node.get("maximum")
    if low is None:
        return ""
    return f"{low} or more" if high is None or high >= 2**31 - 1 else f"{low} to {high:,}"


def _settled(default: Any, schema: Schema) -> Any:
    """`default` with the keys that the schema settles by itself: those it requires or has a default for.

    Nested defaults are spelled out, because the API server runs an object's rules on its default alone.
    """
    if not isinstance(default, dict) or "properties" not in schema:
        return default
    made = {}
    for key, value in default.items():
        child = schema["properties"].get(key, {})
        if value is not None and ("default" in child or key in schema.get("required", ())):
            made[key] = _settled(value, child)
    return made


def walk(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every node of a structural schema with its path, such as .spec.groups[].name."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from walk(schema["additionalProperties"], f"{path}.*")


def unbounded_paths(schema: Schema) -> list[str]:
    """Paths of strings, lists, maps and int-or-strings that have no upper bound."""
    return [path for path, node in walk(schema) if not _is_bounded(node)]


def _is_bounded(node: Schema) -> bool:
    if node.get("x-kubernetes-int-or-string"):
        return "maxLength" in node
    kind = node.get("type")
    if kind == "string":
        return "maxLength" in node or "enum" in node
    if kind == "array":
        return "maxItems" in node
    if kind == "object":
        known = "properties" in node or bool(node.get("x-kubernetes-preserve-unknown-fields"))
        return known or "maxProperties" in node
    return kind in {"integer", "number", "boolean"}
