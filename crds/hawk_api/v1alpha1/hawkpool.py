"""HawkPool: groups of heterogeneous accelerators that serve one model together."""

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from hawk_api.base import Column, Int, KindInfo, Model, ReportModel, Resource, list_map, rule, rules
from hawk_api.conditions import Condition
from hawk_api.duration import Duration
from hawk_api.v1alpha1.enums import LayoutPreset
from hawk_api.v1alpha1.group import GroupSpec
from hawk_api.v1alpha1.model import ModelSpec
from hawk_api.v1alpha1.scaling import DrainSpec, Objectives, ScalingSpec, TrafficSpec, TransferSpec
from hawk_api.v1alpha1.status import Count, DecisionRecord, GroupStatus

MAX_GROUPS = 16
MAX_DECISIONS = 10
MAX_CONDITIONS = 16

_TILED = {
    size: ", ".join(f"'{preset}'" for preset in LayoutPreset if preset.feature_tile == size)
    for size in sorted({preset.feature_tile for preset in LayoutPreset} - {1})
}


class HawkPoolSpec(Model):
    """The desired state of a pool."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.groups.exists(g, g.role != 'Decode')",
                "no group can prefill; give one the role Prefill or Both",
                ".groups",
            ),
            rule(
                "self.groups.exists(g, g.role != 'Prefill')",
                "no group can decode; give one the role Decode or Both",
                ".groups",
            ),
            rule(
                "!has(self.scaling.budget.devices) || self.groups.map(g, has(g.acceleratorClass) ? "
                "g.replicas.min * g.acceleratorsPerReplica : 0).sum() <= self.scaling.budget.devices",
                "the groups' replicas.min exceed budget.devices; raise budget.devices or lower replicas.min",
                ".scaling.budget.devices",
            ),
            *(
                rule(
                    "!has(self.model.geometry) || !has(self.model.geometry.headDim) || "
                    f"self.model.geometry.headDim % {size} == 0 || "
                    "!self.groups.exists(g, has(g.kvLayout) && has(g.kvLayout.preset) && "
                    f"g.kvLayout.preset in [{names}])",
                    f"a group's kvLayout has tiles of {size}, which don't divide model.geometry.headDim; "
                    "choose another kvLayout",
                    ".groups",
                )
                for size, names in _TILED.items()
            ),
        )
    )

    model: ModelSpec
    """The model that is served."""
    groups: Annotated[
        tuple[GroupSpec, ...],
        Field(min_length=1, max_length=MAX_GROUPS, json_schema_extra=list_map("name")),
    ]
    """The groups of workers, each with a role and an accelerator class."""
    objectives: Objectives = Objectives()
    """Service-level objectives."""
    traffic: TrafficSpec | None = None
    """How traffic is observed; without it the ratio stays at its start value."""
    scaling: ScalingSpec = ScalingSpec()
    """How the number of workers is decided."""
    transfer: TransferSpec = TransferSpec()
    """How KV is transferred."""
    drain: DrainSpec = DrainSpec()
    """How workers are drained."""


class HawkPoolStatus(ReportModel):
    """The observed state of a pool."""

    observed_generation: Annotated[Int, Field(ge=0)] | None = None
    """Generation of the spec that this status describes."""
    conditions: Annotated[
        tuple[Condition, ...], Field(max_length=MAX_CONDITIONS, json_schema_extra=list_map("type"))
    ] = ()
    """Conditions, one of each type."""
    groups: Annotated[
        tuple[GroupStatus, ...], Field(max_length=MAX_GROUPS, json_schema_extra=list_map("name"))
    ] = ()
    """Counts of each group."""
    prefill: Count | None = None
    """Ready workers that can prefill."""
    decode: Count | None = None
    """Ready workers that can decode."""
    ratio: Annotated[str, Field(max_length=32)] | None = None
    """Prefill:decode ratio of the last decision."""
    ttft: Duration | None = None
    """Measured time to first token at the objective's percentile."""
    itl: Duration | None = None
    """Measured inter-token latency at the objective's percentile."""
    decisions: Annotated[tuple[DecisionRecord, ...], Field(max_length=MAX_DECISIONS)] = ()
    """The last decisions, newest first."""


class HawkPool(Resource):
    """Groups of heterogeneous accelerators that serve one model together."""

    kind_info: ClassVar[KindInfo] = KindInfo(
        kind="HawkPool",
        plural="hawkpools",
        singular="hawkpool",
        short_names=("hp",),
        categories=("all", "hawk"),
        namespaced=True,
        columns=(
            Column(
                name="Prefill",
                type="integer",
                json_path=".status.prefill",
                description="Ready prefill workers",
            ),
            Column(
                name="Decode", type="integer", json_path=".status.decode", description="Ready decode workers"
            ),
            Column(name="Ratio", json_path=".status.ratio", description="Prefill to decode, as decided"),
            Column(name="TTFT", json_path=".status.ttft", description="Measured time to first token"),
            Column(name="ITL", json_path=".status.itl", description="Measured inter-token latency"),
            Column(name="Ready", json_path='.status.conditions[?(@.type=="Ready")].status'),
            Column(name="Reason", json_path='.status.conditions[?(@.type=="Ready")].reason', priority=1),
            Column(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        ),
    )

    kind: Literal["HawkPool"] = "HawkPool"
    spec: HawkPoolSpec
    status: HawkPoolStatus = HawkPoolStatus()
