"""Objectives, traffic, scaling, transfer and drain: how a pool is run."""

from decimal import Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import ConfigDict, Field

from hawk_api.base import Int, Model, rule, rules
from hawk_api.duration import Duration
from hawk_api.quantity import PositiveQuantity, Quantity
from hawk_api.ratio import Ratio
from hawk_api.v1alpha1.enums import BurstReserve, Engine, Fallback, OnFailure, QueueOrder, ScalingMode, Verify

URL = r"^https?://([^\s/@]+@)?(\[[0-9A-Fa-f:.]+\]|[^\s/:?#@\[\]]+)(:[0-9]{1,5})?(/\S*)?$"
"""A scheme, perhaps a user, a name or an address (IPv6 in brackets), perhaps a port and a path."""

Query = Annotated[str, Field(min_length=1, max_length=2048)]


class Objective(Model):
    """A latency that a share of the requests must stay below."""

    percentile: Annotated[Int, Field(ge=1, le=99)] = 95
    """Per cent of the requests."""
    target: Duration
    """The latency they stay below."""


class TtftObjective(Objective):
    """A time to first token that a share of the requests must stay below."""

    stretch: PositiveQuantity | None = None
    """A prompt may also take so many times its own prefill, where that is longer than the target."""


class Objectives(Model):
    """The service-level objectives."""

    ttft: TtftObjective | None = None
    """Time to first token."""
    itl: Objective | None = None
    """Inter-token latency."""


class PrometheusSpec(Model):
    """Where metrics are read."""

    url: Annotated[str, Field(min_length=1, max_length=2048, pattern=URL)]
    """Base address, without /api/v1."""
    timeout: Duration = 5.0
    """Longest wait for one answer."""


class Queries(Model):
    """PromQL that replaces an engine's own, a signal each; each must yield one value a pool."""

    request_rate: Query | None = None
    """Requests a second."""
    prompt_tokens: Query | None = None
    """Mean prompt length in tokens."""
    output_tokens: Query | None = None
    """Mean output length in tokens."""
    ttft: Query | None = None
    """Time to first token at the objective's percentile, seconds."""
    itl: Query | None = None
    """Inter-token latency at the objective's percentile, seconds."""
    running: Query | None = None
    """Requests in flight."""
    waiting: Query | None = None
    """Requests queued."""
    kv_usage: Query | None = None
    """Share of the KV cache in use, 0 to 1."""
    late: Query | None = None
    """Requests a second whose first token came later than promised, as a router counts them."""


class TrafficSpec(Model):
    """How traffic is observed."""

    prometheus: PrometheusSpec
    engine: Engine = Engine.VLLM
    """Whose metrics are read."""
    window: Duration = 60.0
    """Span that rates and means are taken over."""
    queue_order: QueueOrder = QueueOrder.ARRIVAL
    """How the router in front of the workers orders prompts that wait."""
    selector: Annotated[str, Field(max_length=1024)] = ""
    """Further label matchers, such as model_name="llama"."""
    queries: Queries = Queries()
    """Own PromQL for single signals."""


class Budget(Model):
    """Hard limits at every instant, rollouts and scaling steps included."""

    devices: Annotated[Int, Field(ge=1, le=1_000_000)] | None = None
    """Accelerators in all groups together."""
    usd_per_hour: Quantity | None = None
    """Money, by the classes' pricePerHour."""


class RatioBounds(Model):
    """Bounds of prefill:decode."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.min) || !has(self.max) || "
                "int(self.min.split(':')[0]) * int(self.max.split(':')[1]) <= "
                "int(self.max.split(':')[0]) * int(self.min.split(':')[1])",
                "min must not be above max as prefill:decode; exchange the two",
                ".max",
            ),
        )
    )

    min: Ratio | None = None
    """Least prefill for decode, such as "1:8"."""
    max: Ratio | None = None
    """Most prefill for decode, such as "8:1"."""


class ScalingDirection(Model):
    """How changes in one direction are damped."""

    stabilization_window: Duration
    """Span over which the safest recommendation holds."""


class Behavior(Model):
    """How changes are damped, a direction each."""

    scale_up: ScalingDirection = ScalingDirection(stabilization_window=0.0)
    scale_down: ScalingDirection = ScalingDirection(stabilization_window=300.0)


class ScalingSpec(Model):
    """How the number of workers is decided."""

    mode: ScalingMode = ScalingMode.AUTO
    """Auto carries decisions out, Advise only reports them, Off makes none."""
    interval: Duration = 15.0
    """Span between decisions."""
    budget: Budget = Budget()
    ratio: RatioBounds = RatioBounds()
    startup_ratio: Ratio | None = None
    """Ratio before traffic is known; by the rules of thumb where absent."""
    tolerance: Quantity = Decimal("0.1")
    """Relative change below which nothing is done."""
    burst_reserve: BurstReserve = BurstReserve.KEEP
    """The reserve of workers for bursts that came before."""
    behavior: Behavior = Behavior()
    fallback: Fallback = Fallback.HOLD
    """The replicas that hold when metrics are lost."""


class TransferSpec(Model):
    """How KV moves from prefill to decode."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "duration(self.maxGrace) >= duration(self.grace)",
                "maxGrace must be at least grace; raise maxGrace or lower grace",
                ".maxGrace",
            ),
        )
    )

    chunk_layers: Annotated[Int, Field(ge=1, le=1024)] | None = None
    """Layers sent together; chosen by the cost model where absent."""
    rails: Annotated[Int, Field(ge=1, le=64)] = 1
    """NICs that one request may use."""
    mtu: Annotated[Int, Field(ge=576, le=65_535)] = 9000
    """MTU of the ports, bytes."""
    grace: Duration = 0.2
    """How long prefill keeps a sent KV before it asks whether it is still needed."""
    max_grace: Duration = 30.0
    """How long that may be extended."""
    verify: Verify = Verify.SAMPLED
    """Which transfers are proved by a digest."""
    on_failure: OnFailure = OnFailure.RESEND
    """The action for a request whose transfer failed."""


class DrainSpec(Model):
    """How a worker is emptied before it goes."""

    timeout: Duration = 300.0
    """Longest wait for running requests and leases."""


DEFAULT_RATIO_LONG_PROMPTS = Fraction(1, 2)
"""Rule of thumb for prompts over 8,000 tokens with outputs under 500: retrieval, summarising."""

DEFAULT_RATIO_CHAT = Fraction(1, 4)
"""Rule of thumb for short prompts and many turns: conversation, coding agents."""
