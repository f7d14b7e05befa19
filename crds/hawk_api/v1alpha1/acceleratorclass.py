"""AcceleratorClass: what one device of a kind is. Unknown stays unset, it is never 0."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field

from hawk_api.base import DNS_SUBDOMAIN, Column, Int, KindInfo, Model, Resource, rule, rules, unique
from hawk_api.duration import Duration
from hawk_api.quantity import PositiveQuantity
from hawk_api.v1alpha1.enums import InterconnectKind, LayoutPreset, Precision, Registration, Role


class InterconnectSpec(Model):
    """How the devices of one worker reach each other."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "quantity(string(self.bandwidth)).isGreaterThan(quantity('0'))",
                "bandwidth can't be 0; leave interconnect out where it isn't known",
                ".bandwidth",
            ),
        )
    )

    kind: InterconnectKind
    """The network."""
    bandwidth: PositiveQuantity
    """Bytes per second of one device in one direction, over all its links together, above 0."""
    devices: Annotated[Int, Field(ge=2, le=65_536)]
    """Devices that reach each other at that rate (PCIe: the cards behind one switch)."""


class AcceleratorClassSpec(Model):
    """One device."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.flops) || self.flops.all(p, p in "
                "['float32', 'tfloat32', 'float16', 'bfloat16', 'float8', 'float4', 'int8', 'int4'])",
                "unknown key; use float32, tfloat32, float16, bfloat16, float8, float4, int8 or int4",
                ".flops",
            ),
            *(
                rule(
                    f"!has(self.{field}) || quantity(string(self.{field})).isGreaterThan(quantity('0'))",
                    f"{field} can't be 0; leave it out where it isn't known",
                    f".{field}",
                )
                for field in ("memory", "bandwidth", "power", "price", "pricePerHour")
            ),
        )
    )

    description: Annotated[str, Field(max_length=256)] | None = None
    """A readable name of the device."""
    flops: Annotated[dict[Precision, PositiveQuantity], Field(max_length=8)] | None = None
    """Peak dense operations per second by number format, each above 0."""
    memory: PositiveQuantity | None = None
    """Bytes of memory for weights and KV, above 0."""
    bandwidth: PositiveQuantity | None = None
    """Bytes per second from that memory to the compute units, above 0."""
    interconnect: InterconnectSpec | None = None
    """Network between the devices of one worker; without it, plans assume 95% of the rates per doubling."""
    power: PositiveQuantity | None = None
    """Watts at full load, above 0."""
    price: PositiveQuantity | None = None
    """Purchase price in US dollars, above 0."""
    price_per_hour: PositiveQuantity | None = None
    """Rent in US dollars per hour, above 0."""
    resource_name: (
        Annotated[str, Field(min_length=1, max_length=317, pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")] | None
    ) = None
    """Extended resource that a pod requests, such as nvidia.com/gpu."""
    device_class_name: Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)] | None = (
        None
    )
    """DeviceClass of resource claims, if devices are claimed instead of counted."""
    roles: Annotated[
        tuple[Role, ...],
        Field(max_length=3, json_schema_extra={"x-kubernetes-list-type": "set"}),
        AfterValidator(unique),
    ] = (
        Role.PREFILL,
        Role.DECODE,
        Role.BOTH,
    )
    """Roles that the device supports."""
    native_tile: LayoutPreset | None = None
    """Layout that its matrix units read best."""
    registration: Annotated[
        tuple[Registration, ...],
        Field(max_length=3, json_schema_extra={"x-kubernetes-list-type": "set"}),
        AfterValidator(unique),
    ] = (Registration.HOST,)
    """How its memory can be registered, preferred first."""
    startup: Duration | None = None
    """Estimated time from a pod's creation to a ready worker."""


class AcceleratorClass(Resource):
    """One device of a kind."""

    kind_info: ClassVar[KindInfo] = KindInfo(
        kind="AcceleratorClass",
        plural="acceleratorclasses",
        singular="acceleratorclass",
        short_names=("ac",),
        namespaced=False,
        has_status=False,
        columns=(
            Column(name="Resource", json_path=".spec.resourceName"),
            Column(name="FP16", json_path=".spec.flops.float16", description="Peak dense FLOP/s"),
            Column(name="Memory", json_path=".spec.memory", description="Bytes"),
            Column(name="Bandwidth", json_path=".spec.bandwidth", description="Bytes a second"),
            Column(name="Power", json_path=".spec.power", description="Watts", priority=1),
            Column(name="Tile", json_path=".spec.nativeTile"),
            Column(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        ),
    )

    kind: Literal["AcceleratorClass"] = "AcceleratorClass"
    spec: AcceleratorClassSpec
