"""An agent's metrics. Each agent has a registry of its own, so that two can live in one process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_RATIOS = (0.05, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
_SHARES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99, 1.0)
NEAR_GRACE = 0.8
"""An acknowledgement later than this share of the grace is counted as a warning."""


class AgentMetrics:
    """All metrics of one agent; names begin with `hawk_agent_`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"hawk_agent_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"hawk_agent_{name}", text, labels, registry=self.registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"hawk_agent_{name}", text, labels, buckets=buckets, registry=self.registry)

        self.transfers = counter(
            "transfers",
            "Transfers ended, by side (send, receive), data path and outcome; only success is one.",
            "side",
            "transport",
            "outcome",
        )
        self.failed = counter(
            "transfers_failed",
            "Transfers ended without success, by side and reason (the outcome).",
            "side",
            "reason",
        )
        self.bytes = counter(
            "transferred_bytes", "Bytes of chunks placed, by side and transport.", "side", "transport"
        )
        self.seconds = histogram("transfer_seconds", "From the push to the receiver's last word.", _SECONDS)
        self.chunk_seconds = histogram(
            "chunk_seconds",
            "From a chunk's announcement to its checked arrival, at the receiver.",
            _SECONDS,
            "transport",
        )
        self.predicted = histogram(
            "predicted_over_measured",
            "Seconds that the cost model gave a transfer over those that placing its bytes took (receiver).",
            _RATIOS,
            "transport",
            "strategy",
        )
        self.rail_failures = counter(
            "rail_failures",
            "Rails that failed in a transfer or couldn't be used, by port and reason.",
            "rail",
            "reason",
        )
        self.verbs_requests = counter(
            "verbs_requests",
            "Work requests when their transfer ends: posted, completed, failed (flushed ones included).",
            "rail",
            "state",
        )
        self.fences = counter(
            "fences", "Leases opened to a sender's writes, by the fence that ends them.", "fence"
        )
        self.device_events = counter(
            "rdma_events", "What RDMA devices told of themselves, such as port-error.", "rail", "event"
        )
        self.hidden = histogram(
            "hidden_share",
            "Bytes that had arrived when the last layer was complete, over all bytes.",
            _SHARES,
        )
        self.exposed = histogram(
            "exposed_seconds", "From the last layer's completion to the last byte's arrival.", _SECONDS
        )
        self.extensions = counter(
            "grace_extensions", "Graces that ended without an acknowledgement and were extended."
        )
        self.near_grace = counter(
            "grace_near",
            f"Acknowledgements that took more than {NEAR_GRACE:.0%} of the grace: decode queues too long.",
        )
        self.leases = gauge("leases", "Leases that hold blocks of this node's regions.")
        self.sending = gauge("transfers_sending", "Transfers under way from this node.")
        self.blocks = gauge("blocks_held", "Blocks that leases hold, by region.", "pool", "worker", "region")
        self.regions = gauge("regions", "Registered regions.")
        self.region_bytes = gauge("region_bytes", "Bytes of registered memory.")
        self.engines = gauge("engines", "Connected engines.")
        self.bad_frames = counter("bad_frames", "Engine connections closed for bytes that are no message.")
        self.links = gauge("links", "Links to peers by state (down, up, verified, refused).", "state")
        self.link_failures = counter(
            "link_failures", "Links that went down or failed their proof, by reason.", "reason"
        )
        self.proof_seconds = histogram(
            "link_proof_seconds", "A canary transfer through the data path.", _SECONDS
        )
        self.restarts = counter(
            "task_restarts",
            "Work that was begun again because it failed or was cancelled, by its kind.",
            "task",
        )
        self.published = counter("status_writes", "Times that this agent wrote its HawkNode's status.")
        self.api_errors = counter("api_errors", "Failed calls to the Kubernetes API, by what for.", "loop")

    def restarted(self, name: str) -> None:
        """Supervised work was begun again. Of its name the part without lease and address is counted."""
        self.restarts.labels(name.split(" lease ", maxsplit=1)[0].split(" to ", maxsplit=1)[0]).inc()

    def lease_failed(self, transport: str, outcome: str) -> None:
        """A lease of this node's ended without success; `transport` is empty where no transfer began."""
        self.transfers.labels("receive", transport or "none", outcome).inc()
        self.failed.labels("receive", outcome).inc()

    def lease_acknowledged(self, transport: str, waited_seconds: float | None, grace_seconds: float) -> None:
        """A lease of this node's ended with success, so long after it was complete."""
        self.transfers.labels("receive", transport or "none", "success").inc()
        if waited_seconds is not None and waited_seconds > NEAR_GRACE * grace_seconds:
            self.near_grace.inc()

    def chunk_arrived(self, transport: str, nbytes: int, seconds: float) -> None:
        """A chunk was placed and re-read."""
        self.bytes.labels("receive", transport).inc(nbytes)
        self.chunk_seconds.labels(transport).observe(seconds)

    def forecast_measured(
        self, transport: str, strategy: str, forecast_seconds: float, seconds: float
    ) -> None:
        """A transfer's bytes are in place; `seconds` went into placing them."""
        if seconds > 0:
            self.predicted.labels(transport, strategy).observe(forecast_seconds / seconds)

    def transfer_sent(self, transport: str, outcome: str, nbytes: int, seconds: float) -> None:
        """A transfer from this node ended, however it did."""
        self.transfers.labels("send", transport or "none", outcome).inc()
        self.bytes.labels("send", transport).inc(nbytes)
        self.seconds.observe(seconds)
        if outcome != "success":
            self.failed.labels("send", outcome).inc()
