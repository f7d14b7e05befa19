"""Shared by all API models: strictness, spelling, and the annotations that the CRD generator reads.

Python attributes are snake_case, the API is camelCase; both are accepted on input, and output is always
camelCase. Models are frozen and their lists are tuples, so a parsed object can be shared between threads,
hashed and compared.

Integers and booleans are strict: the API server refuses "4" where it wants 4, and so does this package.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, Strict, WithJsonSchema
from pydantic.alias_generators import to_camel

ItemT = TypeVar("ItemT")

GROUP = "hawkpool.dev"
"""The API group of every kind in this package."""

VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class Model(BaseModel):
    """A part of an object that users write: unknown keys are errors."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        serialize_by_alias=True,
        validate_by_alias=True,
        validate_by_name=True,
    )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types (lists, str, int), camelCase keys, unset keys left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class ReportModel(Model):
    """A part of a status: keys of a newer or older release are dropped, never fatal."""

    model_config = ConfigDict(extra="ignore")


class ObjectMeta(Model):
    """The metadata of a Kubernetes object; keys not named here are kept as they are."""

    model_config = ConfigDict(extra="allow")

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class Column(Model):
    """One printer column of `kubectl get`."""

    name: str
    json_path: str
    type: str = "string"
    description: str | None = None
    priority: int | None = None


class KindInfo(Model):
    """How a kind is served: names, scope and printer columns."""

    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...] = ("hawk",)
    namespaced: bool
    has_status: bool = True
    columns: tuple[Column, ...] = ()


class Resource(Model):
    """A whole object. Subclasses set `kind_info` and add `spec` and `status`."""

    kind_info: ClassVar[KindInfo]

    api_version: str = API_VERSION
    kind: str
    metadata: ObjectMeta = ObjectMeta()


def rules(*items: dict[str, Any]) -> dict[str, Any]:
    """`json_schema_extra` for a model with the given CEL rules (see `rule`)."""
    return {"x-kubernetes-validations": list(items)}


def rule(expression: str, message: str, field: str | None = None) -> dict[str, Any]:
    """One CEL rule. `message` names the field and the remedy; `field` is a path such as `.max`."""
    made = {"rule": expression, "message": message, "reason": "FieldValueInvalid"}
    return {**made, "fieldPath": field} if field else made


def list_map(*keys: str) -> dict[str, Any]:
    """`json_schema_extra` for a list whose items are identified by `keys`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def unique(items: tuple[ItemT, ...]) -> tuple[ItemT, ...]:
    """Validator of a set: no item twice."""
    for index, item in enumerate(items):
        if item in items[:index]:
            raise ValueError(f"{str(item)!r} is there twice; remove one")
    return items


Int = Annotated[int, Strict()]
Bool = Annotated[bool, Strict()]

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
"""The name of an object."""

Text = Annotated[str, Field(max_length=1024)]
"""A message for people."""

Short = Annotated[str, Field(max_length=256)]
"""An identifier or a short message."""


def _parse_time(value: object) -> object:
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError("has no time zone; give an aware datetime")
    return value


def format_time(value: datetime) -> str:
    """RFC 3339 in UTC with whole seconds, as Kubernetes writes it."""
    return value.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


Time = Annotated[
    datetime,
    BeforeValidator(_parse_time),
    PlainSerializer(format_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 64}),
]
