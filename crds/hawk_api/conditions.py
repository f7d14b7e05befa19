"""Conditions: their types, and how one is set.

A condition is True, False or Unknown; Unknown with a reason is not False. `Ready` is derived from the
others and never set on its own.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from hawk_api.base import Int, ReportModel, Text, Time

_LONGEST = 1024


class ConditionType(StrEnum):
    """The condition types of a HawkPool, and their meaning when True."""

    READY = "Ready"
    """The pool serves: every condition below that its spec needs is True."""
    LAYOUTS_COMPATIBLE = "LayoutsCompatible"
    """Every prefill group's KV layout compiles to every decode group's."""
    DEVICES_READY = "DevicesReady"
    """Every group's pods have their accelerators."""
    MEMORY_REGISTERED = "MemoryRegistered"
    """Every worker's KV region is registered with a live agent."""
    WIRED = "Wired"
    """Every pair of agents that may exchange KV has a verified link."""
    TRANSFER_VERIFIED = "TransferVerified"
    """The digests of recent transfers were right."""
    METRICS_AVAILABLE = "MetricsAvailable"
    """Every signal that the decision needs was read in the last interval."""
    SCALING = "Scaling"
    """Decisions are made and carried out."""
    PAYS_OFF = "PaysOff"
    """By calculation on current traffic, the split repays its transfers."""
    DRAINING = "Draining"
    """A worker is being drained before it is removed."""


class NodeConditionType(StrEnum):
    """The condition types of a HawkNode, and their meaning when True."""

    READY = "Ready"
    """The agent serves engines and peers."""
    WIRED = "Wired"
    """Every peer in the spec has a verified link."""


class Status(StrEnum):
    """The three values of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ReportModel):
    """One condition, in Kubernetes' standard form."""

    type: Annotated[str, Field(min_length=1, max_length=64)]
    """The type of the condition."""
    status: Status
    reason: Annotated[
        str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$")
    ]
    """Why, as one word; each is explained in the documentation of conditions."""
    message: Text = ""
    """Why, for people."""
    last_transition_time: Time | None = None
    """When the status last changed."""
    observed_generation: Annotated[Int, Field(ge=0)] | None = None
    """Generation of the spec that it describes."""


def set_condition(conditions: Iterable[Condition], new: Condition, now: datetime) -> tuple[Condition, ...]:
    """`conditions` with `new` in place of the one of its type, order kept.

    The transition time is kept while the status is unchanged, otherwise it is `now`.
    Equal input gives equal output, so nothing is written when nothing changed.
    """
    old = tuple(conditions)
    since = next((c.last_transition_time for c in old if c.type == new.type and c.status == new.status), None)
    made = new.model_copy(update={"last_transition_time": since or now.replace(microsecond=0)})
    if any(c.type == new.type for c in old):
        return tuple(made if c.type == new.type else c for c in old)
    return (*old, made)


def make_condition(
    kind: str,
    status: Status | bool | None,
    reason: str,
    message: str = "",
    observed_generation: int | None = None,
) -> Condition:
    """A condition without a transition time; True, False and None stand for the three states.

    A message that is too long for the API is cut.
    """
    states = {True: Status.TRUE, False: Status.FALSE, None: Status.UNKNOWN}
    return Condition(
        type=str(kind),
        status=status if isinstance(status, Status) else states[status],
        reason=str(reason),
        message=message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…",
        observed_generation=observed_generation,
    )
