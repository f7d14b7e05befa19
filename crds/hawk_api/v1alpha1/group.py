"""A group: the workers of one role on one accelerator class."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema

from hawk_api.base import DNS_LABEL, DNS_SUBDOMAIN, Int, Model, rule, rules
from hawk_api.v1alpha1.enums import LayoutPreset, Role

NOTATION = r"^(\[[lcbhsd][0-9]?\]|[lcbhsd][0-9]?)( (\[[lcbhsd][0-9]?\]|[lcbhsd][0-9]?)){0,31}$"
"""Axes l c b h s d, each with an optional level digit, in brackets where a block table indexes it."""


def _at_least_one(known: dict[str, Any]) -> int:
    return max(1, int(known.get("min", 1)))


class Replicas(Model):
    """How many workers a group may have."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.max) || self.max >= self.min",
                "max must be at least min; raise max or lower min",
                ".max",
            ),
        )
    )

    min: Annotated[Int, Field(ge=0, le=10_000)] = 1
    """Fewest workers; with 0 an idle group has none."""
    max: Annotated[Int, Field(ge=1, le=10_000)] = Field(default_factory=_at_least_one)
    """Most workers (default min)."""


class KvLayout(Model):
    """The order in which a group's workers keep their KV cache: a preset or a notation."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.preset) != has(self.notation)", "give exactly one of preset and notation"),
            rule(
                "!has(self.sizes) || self.sizes.all(axis, axis.matches('^[lcbhsd][0-9]?$'))",
                "sizes are keyed by an axis (l c b h s d) and an optional level, such as s0; correct the key",
                ".sizes",
            ),
        )
    )

    preset: LayoutPreset | None = None
    """A layout known by name."""
    notation: Annotated[str, Field(min_length=1, max_length=128, pattern=NOTATION)] | None = None
    """Axes from slowest to fastest, such as "[s1] h s0 d"."""
    sizes: Annotated[dict[str, Annotated[Int, Field(ge=1, le=2**31 - 1)]], Field(max_length=32)] | None = None
    """Elements of axes that the model doesn't determine, such as s0: 16 for pages of 16 tokens."""


class Parallelism(Model):
    """How one replica is distributed over devices."""

    tensor: Annotated[Int, Field(ge=1, le=1024)] = 1
    """Devices that share each layer."""
    pipeline: Annotated[Int, Field(ge=1, le=256)] = 1
    """Pipeline stages, each a share of the layers."""


class ScaleTargetRef(Model):
    """An existing object with a scale subresource, in the pool's namespace."""

    api_version: Annotated[
        str, Field(min_length=1, max_length=253, pattern=r"^([a-z0-9.-]+/)?v[a-z0-9]+$")
    ] = "apps/v1"
    """Its API version, such as apps/v1."""
    kind: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Its kind, such as Deployment."""
    name: Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
    """Its name."""


def _int_or_percent(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10_000:
        return value
    if isinstance(value, str) and value.endswith("%") and value[:-1].isascii() and value[:-1].isdecimal():
        number = int(value[:-1]) if len(value) <= 4 else 101
        if number <= 100 and str(number) == value[:-1]:
            return value
    raise ValueError(
        f'{value!r} is neither a number of replicas (0, 1, ...) nor a percentage ("0%" to "100%")'
    )


IntOrPercent = Annotated[
    int | str,
    BeforeValidator(_int_or_percent),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "maxLength": 4,
            "pattern": "^(100|[1-9]?[0-9])%$",
            "minimum": 0,
            "maximum": 10_000,
        }
    ),
]
"""A count or a percentage of a group's replicas."""


class Rollout(Model):
    """How a group's workers are replaced.

    The defaults suit accelerators: there is no spare device for a surge, so a worker goes before its
    successor comes.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!((self.maxSurge == 0 || self.maxSurge == '0%') && "
                "(self.maxUnavailable == 0 || self.maxUnavailable == '0%'))",
                "maxSurge and maxUnavailable can't both be zero: no rollout could begin; raise one",
                ".maxUnavailable",
            ),
        )
    )

    max_surge: IntOrPercent = 0
    """Workers above the desired number during a rollout, a count or a percentage."""
    max_unavailable: IntOrPercent = 1
    """Workers below the desired number during a rollout, a count or a percentage."""


def _check_template(value: dict[str, Any]) -> dict[str, Any]:
    spec = value.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("containers"), list) or not spec["containers"]:
        raise ValueError("has no spec.containers; give a pod template with at least one container")
    if not all(isinstance(container, dict) for container in spec["containers"]):
        raise ValueError("has a container that is no object; write its name and image")
    metadata = value.get("metadata", {})
    labels = metadata.get("labels", {}) if isinstance(metadata, dict) else None
    if not isinstance(labels, dict) or not all(isinstance(text, str) for text in labels.values()):
        raise ValueError("has metadata that is no object with labels of text; put label values in quotes")
    return value


_OPAQUE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

PodTemplate = Annotated[
    dict[str, Any],
    AfterValidator(_check_template),
    WithJsonSchema(
        {
            **_OPAQUE,
            "required": ["spec"],
            "properties": {
                "metadata": {
                    **_OPAQUE,
                    "properties": {
                        "labels": {
                            "type": "object",
                            "maxProperties": 256,
                            "additionalProperties": {"type": "string", "maxLength": 63},
                        }
                    },
                },
                "spec": {
                    **_OPAQUE,
                    "required": ["containers"],
                    "properties": {
                        "containers": {"type": "array", "minItems": 1, "maxItems": 64, "items": _OPAQUE}
                    },
                },
            },
        }
    ),
]
"""A pod template, opaque to this schema: the API server checks it when the child is written."""


class GroupSpec(Model):
    """The workers of one role on one accelerator class."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.template) != has(self.scaleTargetRef)",
                "give exactly one of template and scaleTargetRef",
            ),
        )
    )

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)]
    """The group's name, unique in the pool."""
    role: Role
    """The role of the workers."""
    accelerator_class: Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)] | None = (
        None
    )
    """The AcceleratorClass of the devices; none for workers on CPUs."""
    accelerators_per_replica: Annotated[Int, Field(ge=1, le=1024)] = 1
    """Whole devices per worker."""
    replicas: Replicas = Replicas()
    """Bounds on the number of workers."""
    kv_layout: KvLayout | None = None
    """The workers' KV cache layout; default the class's native tile, else row-major."""
    parallelism: Parallelism = Parallelism()
    """How a worker is distributed over its devices."""
    rollout: Rollout = Rollout()
    """How workers are replaced."""
    template: PodTemplate | None = None
    """The workers' pods."""
    scale_target_ref: ScaleTargetRef | None = None
    """An existing workload to scale instead."""

    @property
    def devices(self) -> int:
        """Devices of one worker: 0 on CPUs."""
        return self.accelerators_per_replica if self.accelerator_class else 0
