"""A decision: its replicas, its reason, its inputs and its predictions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hawk_api import ratio as ratios
from hawk_api.v1alpha1.status import DecisionRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hawk_api.reasons import Reason
    from hawk_planner.sizing.demand import OfferedLoad

_MESSAGE = 1024
_VALUE = 64
_ENTRIES = 32


@dataclass(frozen=True)
class Decision:
    """Replicas a group, with everything that explains them.

    `prediction` and `inputs` map names to numbers (seconds, tokens, requests/s, US dollars an hour) or
    short texts. `wanted` is what the load alone needs, before stabilisation and limits; None when that
    isn't known. `act` is false when nobody should carry the decision out. `next_look` is the time
    (seconds since the epoch) at which deciding again makes sense.
    """

    time: float
    replicas: Mapping[str, int]
    reason: Reason
    message: str
    prefill: int
    decode: int
    next_look: float
    act: bool = True
    wanted: Mapping[str, int] | None = None
    standby: Mapping[str, int] | None = None
    """The replicas that the bursts of the last hour would need if they came again."""
    rate: float | None = None
    prediction: Mapping[str, float | str] = field(default_factory=dict)
    inputs: Mapping[str, float | str] = field(default_factory=dict)
    corrections: Mapping[str, float] = field(default_factory=dict)
    load: OfferedLoad | None = None
    """The last load that was sized for."""

    @property
    def ratio(self) -> str:
        """Prefill to decode in lowest terms."""
        return ratios.ratio_of(self.prefill, self.decode)

    def record(self) -> DecisionRecord:
        """The decision as a pool's status keeps it."""
        return DecisionRecord(
            time=datetime.fromtimestamp(self.time, UTC),
            reason=str(self.reason),
            message=self.message[:_MESSAGE],
            prefill=self.prefill,
            decode=self.decode,
            replicas=dict(self.replicas),
            prediction=_texts(self.prediction),
            inputs=_texts(self.inputs),
        )


def _texts(values: Mapping[str, float | str]) -> dict[str, str]:
    return {name: text(value)[:_VALUE] for name, value in list(values.items())[:_ENTRIES]}


def text(value: float | str) -> str:
    """Four significant digits of a number, without an exponent where it fits."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.4g}"
