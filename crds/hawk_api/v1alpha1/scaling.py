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
    """Per cent of the requests that must stay below the target."""
    target: Duration
    """The latency."""


class TtftObjective(Objective):
    """A time to first token that a share of the requests must stay below."""

    stretch: PositiveQuantity | None = None
    """Times its own prefill that a prompt may take, if that is longer than the target; above 0."""


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
    """Longest wait for a response."""


class Queries(Model):
    """PromQL that replaces an engine's own, one per signal; each must return one value per pool."""

    request_rate: Query | None = None
    """Requests per second."""
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
    """Used share of the KV cache, 0 to 1."""
    late: Query | None = None
    """Requests per second with a late first token, as a router counts them."""


class TrafficSpec(Model):
    """How traffic is observed."""

    prometheus: PrometheusSpec
    engine: Engine = Engine.VLLM
    """The engine whose metrics are read."""
    window: Duration = 60.0
    """Window of rates and means."""
    queue_order: QueueOrder = QueueOrder.ARRIVAL
    """How the router in front of the workers orders waiting prompts."""
    selector: Annotated[str, Field(max_length=1024)] = ""
    """Additional label matchers, such as model_name="llama"."""
    queries: Queries = Queries()
    """Your own PromQL for single signals."""


class Budget(Model):
    """Hard limits at every instant, rollouts and scaling steps included."""

    devices: Annotated[Int, Field(ge=1, le=1_000_000)] | None = None
    """Accelerators in all groups."""
    usd_per_hour: Quantity | None = None
    """US dollars per hour, by the classes' pricePerHour; 0 or more."""


class RatioBounds(Model):
    """Bounds on prefill:decode."""

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
    """Lowest ratio, such as "1:8"."""
    max: Ratio | None = None
    """Highest ratio, such as "8:1"."""


class ScalingDirection(Model):
    """How changes in one direction are damped."""

    stabilization_window: Duration
    """Window over which the safest recommendation applies."""


class Behavior(Model):
    """How changes in each direction are damped."""

    scale_up: ScalingDirection = ScalingDirection(stabilization_window=0.0)
    scale_down: ScalingDirection = ScalingDirection(stabilization_window=300.0)


class ScalingSpec(Model):
    """How the number of workers is decided."""

    mode: ScalingMode = ScalingMode.AUTO
    """Auto carries decisions out, Advise only reports them, Off makes none."""
    interval: Duration = 15.0
    """Time between decisions."""
    budget: Budget = Budget()
    ratio: RatioBounds = RatioBounds()
    startup_ratio: Ratio | None = None
    """Ratio before traffic is known; default by rules of thumb."""
    tolerance: Quantity = Decimal("0.1")
    """Relative change that is ignored, a ratio from 0 to below 1."""
    burst_reserve: BurstReserve = BurstReserve.KEEP
    """Reserve workers for earlier bursts."""
    behavior: Behavior = Behavior()
    fallback: Fallback = Fallback.HOLD
    """The replicas that apply when metrics are lost."""


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
    """Layers per chunk; default by the cost model."""
    rails: Annotated[Int, Field(ge=1, le=64)] = 1
    """NICs per request."""
    mtu: Annotated[Int, Field(ge=576, le=65_535)] = 9000
    """MTU of the ports in bytes."""
    grace: Duration = 0.2
    """How long prefill keeps sent KV before it asks if it is still needed."""
    max_grace: Duration = 30.0
    """Longest extension of that."""
    verify: Verify = Verify.SAMPLED
    """Which transfers are verified by a digest."""
    on_failure: OnFailure = OnFailure.RESEND
    """The action for a request whose transfer failed."""


class DrainSpec(Model):
    """How a worker is drained before it is removed."""

    timeout: Duration = 300.0
    """Longest wait for running requests and leases."""


DEFAULT_RATIO_LONG_PROMPTS = Fraction(1, 2)
"""Rule of thumb for prompts over 8,000 tokens with outputs under 500: retrieval, summarising."""

DEFAULT_RATIO_CHAT = Fraction(1, 4)
"""Rule of thumb for short prompts and many turns: conversation, coding agents."""
