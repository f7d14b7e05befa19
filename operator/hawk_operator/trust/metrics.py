"""Metrics of the trust loop."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class TrustMetrics:
    """Metrics of the trust loop in the operator's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "hawk_operator_trust_requests_total",
            "Answered certificate requests by `outcome`: Signed, or the reason of the refusal.",
            ["outcome"],
            registry=registry,
        )
        self.errors = Counter(
            "hawk_operator_trust_errors_total",
            "Rounds of the trust loop that failed and were begun anew.",
            registry=registry,
        )
        self.authority_expiry = Gauge(
            "hawk_operator_trust_authority_expiry_timestamp_seconds",
            "Unix time at which the signing authority of the agents expires.",
            registry=registry,
        )
