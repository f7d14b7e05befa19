"""The operator's report about a pool."""

from typing import Annotated

from pydantic import Field

from hawk_api.base import Int, ReportModel, Text, Time
from hawk_api.v1alpha1.enums import Role

Count = Annotated[Int, Field(ge=0, le=2**31 - 1)]
Value = Annotated[str, Field(max_length=64)]


class GroupStatus(ReportModel):
    """Counts of one group."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """The group's name."""
    role: Role
    desired: Count = 0
    """Workers desired by the last decision."""
    replicas: Count = 0
    """Workers that exist."""
    ready: Count = 0
    """Workers whose pods are ready."""
    capacity: Count = 0
    """Ready workers on nodes with a live agent; only these take part in transfers."""


class DecisionRecord(ReportModel):
    """One decision and its inputs."""

    time: Time
    """When it was made."""
    reason: Annotated[str, Field(min_length=1, max_length=128)]
    """Why, as one word."""
    message: Text = ""
    """Why, for people."""
    prefill: Count
    """Prefill workers desired."""
    decode: Count
    """Decode workers desired."""
    replicas: Annotated[dict[str, Count], Field(max_length=16)] = Field(default_factory=dict)
    """Workers desired, by group."""
    prediction: Annotated[dict[str, Value], Field(max_length=32)] = Field(default_factory=dict)
    """The decision's predictions, such as ttft: 180ms."""
    inputs: Annotated[dict[str, Value], Field(max_length=32)] = Field(default_factory=dict)
    """The decision's inputs, such as requestRate: 12.5."""
    observed: Annotated[dict[str, Value], Field(max_length=32)] = Field(default_factory=dict)
    """The outcome, under the names of the prediction: measured when its replicas had been ready for a
    window (readyAfterSeconds says after how long they were), and again when the next decision came."""
