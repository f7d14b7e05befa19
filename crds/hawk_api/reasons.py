"""Every reason that a condition, an event or a decision may have: its meaning and its remedy.

A reason is a string (`Reason.NO_AGENT == "NoAgent"`) that carries its own explanation.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """A CamelCase reason with a one-line `meaning` and `remedy` ("" where there is nothing to do)."""

    meaning: str
    remedy: str

    def __new__(cls, value: str, meaning: str, remedy: str = "") -> Self:
        """The member for `value`, with its explanation attached."""
        made = str.__new__(cls, value)
        made._value_ = value
        made.meaning = meaning
        made.remedy = remedy
        return made

    # Anywhere
    AS_EXPECTED = "AsExpected", "Everything that this condition covers is as it should be."
    NOT_OBSERVED = "NotObserved", "Not observed yet.", "Wait for the next reconcile."
    NOT_NEEDED = "NotNeeded", "The condition doesn't apply to this spec."
    WAITING = (
        "Waiting",
        "An earlier step isn't finished.",
        "See the condition that the message names.",
    )

    RECONCILE_FAILED = (
        "ReconcileFailed",
        "The operator failed with an internal error on this pool; other pools are not affected.",
        "See the operator's log; it retries with growing delays.",
    )
    SCHEMA_OUTDATED = (
        "SchemaOutdated",
        "The cluster serves an older schema than the operator needs, so limits may be lost.",
        "Apply the CRDs of this release; until then nothing is scaled up.",
    )

    # The spec
    INVALID_SPEC = (
        "InvalidSpec",
        "The spec contradicts itself or names something that doesn't exist.",
        "Correct the fields that the message names; `hawk validate` finds the same offline.",
    )
    UNKNOWN_ACCELERATOR_CLASS = (
        "UnknownAcceleratorClass",
        "A group names an AcceleratorClass that the cluster doesn't have.",
        "Create the class, or choose one of `kubectl get acceleratorclasses`.",
    )
    UNKNOWN_MODEL = (
        "UnknownModel",
        "The model's preset isn't known, or its config.json can't be read.",
        "Choose a preset that `hawk kv --list` prints, or give spec.model.geometry.",
    )
    CONFIG_MAP_MISSING = (
        "ConfigMapMissing",
        "The ConfigMap or key that spec.model.configMapRef names doesn't exist.",
        "Create it with the model's config.json under that key.",
    )

    # Children
    CHILD_REFUSED = (
        "ChildRefused",
        "The API server refused a group's workload.",
        "Correct the group's template; the message is the API server's.",
    )
    CHILD_CONFLICT = (
        "ChildConflict",
        "An object with the child's name exists and belongs to something else.",
        "Rename the group or the other object.",
    )
    CONFLICTED = (
        "Conflicted",
        "Another pool, an autoscaler or a ScaledObject also scales a group's workload.",
        "Remove the other scaler, or the group from this pool; until then its replicas are not changed.",
    )
    SCALE_TARGET_MISSING = (
        "ScaleTargetMissing",
        "A group's scaleTargetRef names an object that doesn't exist or can't be scaled.",
        "Create it, or correct scaleTargetRef.",
    )
    ROLLING_OUT = (
        "RollingOut",
        "New replicas are starting; not all are ready.",
        "Wait; see the pods' events if this persists.",
    )
    UNSCHEDULABLE = (
        "Unschedulable",
        "The scheduler can't find a node for some pods.",
        "Add nodes with the class's devices, or lower the group's replicas or the budget.",
    )
    PODS_NOT_READY = "PodsNotReady", "Some pods aren't ready.", "See the pods' events and logs."

    # Layouts
    LAYOUTS_INCOMPATIBLE = (
        "LayoutsIncompatible",
        "Two groups' KV layouts can't be translated into each other.",
        "Make the values that the message names agree.",
    )
    LAYOUTS_IMPLIED = (
        "LayoutsImplied",
        "Layouts are implied while the engine's own compatibility check is off.",
        "Set kvLayout for both groups, or turn the check on.",
    )

    # Agents, memory, links
    NO_AGENT = (
        "NoAgent",
        "A worker's node has no live agent.",
        "Install the agent on that node, or find out why its pod isn't running.",
    )
    AGENT_LOST = (
        "AgentLost",
        "An agent stopped renewing its Lease, or its peers lost the connection.",
        "See the agent's pod and node; it is rewired automatically when it returns.",
    )
    AGENT_INCOMPATIBLE = (
        "AgentIncompatible",
        "Two agents speak different protocol versions.",
        "Finish the upgrade of the agents.",
    )
    REGION_MISSING = (
        "RegionMissing",
        "A ready worker has not registered a KV region with its node's agent.",
        "Connect the engine to the agent's socket; see the connector's documentation.",
    )
    LINKS_DOWN = (
        "LinksDown",
        "Some pairs of agents have no verified link.",
        "See the HawkNodes' link problems; check addresses, network policy, certificates.",
    )
    PEER_UNREACHABLE = (
        "PeerUnreachable",
        "A peer doesn't answer.",
        "Check its address, port and network policy.",
    )
    PEER_REFUSED = (
        "PeerRefused",
        "A peer refused the handshake.",
        "Make the values that the message names agree.",
    )
    STALE_EPOCH = (
        "StaleEpoch",
        "A peer restarted; its earlier state is invalid.",
        "Nothing: it is rewired automatically.",
    )
    CANARY_FAILED = (
        "CanaryFailed",
        "The canary transfer over a link failed.",
        "See the logs of both agents.",
    )
    TOO_MANY_PEERS = (
        "TooManyPeers",
        "More agents may exchange KV than one agent can have peers.",
        "Split the pool, or keep prefill and decode in one topology zone.",
    )
    NOT_TRUSTED = "NotTrusted", "No valid certificate.", "See the CertificateSigningRequest of the agent."

    # Transfers
    VERIFIED = "Verified", "Digests of recent transfers agree on both sides."
    DIGEST_MISMATCH = (
        "DigestMismatch",
        "A transfer arrived with different bytes than were sent.",
        "See both agents' logs, and replace suspect hardware; the request was failed or recomputed.",
    )
    VERIFICATION_OFF = "VerificationOff", "spec.transfer.verify is Off.", "Set it to Sampled or Always."
    NO_TRANSFERS = "NoTransfers", "No transfer yet."

    # Metrics
    METRICS_FRESH = "MetricsFresh", "Every signal was read."
    PROMETHEUS_UNREACHABLE = (
        "PrometheusUnreachable",
        "Prometheus doesn't answer in time.",
        "Check spec.traffic.prometheus.url and Prometheus itself.",
    )
    QUERY_FAILED = "QueryFailed", "Prometheus refused a query.", "Check spec.traffic.selector and queries."
    SIGNAL_MISSING = (
        "SignalMissing",
        "A query returns no series.",
        "Check that the engines are scraped and that spec.traffic.engine and selector match their metrics.",
    )
    SIGNAL_STALE = (
        "SignalStale",
        "The newest sample of a signal is too old.",
        "Check that the engines are scraped.",
    )
    SIGNAL_NOT_A_NUMBER = "SignalNotANumber", "A query returns NaN: usually a mean over no requests."

    # Decisions
    STARTUP = "Startup", "No traffic is known yet: rules of thumb set the ratio."
    DEMAND = "Demand", "The ratio follows the measured demand."
    STEADY = "Steady", "The computed replicas are within tolerance of the current ones."
    STABILIZING = "Stabilizing", "A change waits for its stabilization window."
    AT_BOUND = (
        "AtBound",
        "A replica or ratio bound limits the decision.",
        "Widen the bound that the message names.",
    )
    AT_BUDGET = "AtBudget", "The budget limits the decision.", "Raise spec.scaling.budget."
    INFEASIBLE = (
        "Infeasible",
        "No number of replicas within bounds and budget meets the objectives.",
        "Relax an objective, raise the budget, or choose faster devices.",
    )
    METRICS_LOST = (
        "MetricsLost",
        "Metrics are lost: the fallback applies.",
        "See the condition MetricsAvailable.",
    )
    FORCED = (
        "Forced",
        "The annotation hawkpool.dev/force-ratio sets the ratio.",
        "Remove it to have the ratio computed.",
    )
    PAUSED = "Paused", "The annotation hawkpool.dev/paused is set.", "Remove it to resume."
    ADVISE_ONLY = "AdviseOnly", "spec.scaling.mode is Advise: decisions are made but not carried out."
    SCALING_OFF = "ScalingOff", "spec.scaling.mode is Off."
    SCALING_FAILED = "ScalingFailed", "A decision couldn't be carried out.", "See the message."
    SCALED = "Scaled", "Replicas were changed."
    ONE_LEG_OUTSTANDING = (
        "OneLegOutstanding",
        "One group was scaled, the other not yet.",
        "Nothing: it is retried; see the message if this persists.",
    )

    # Pay-off
    PAYS_OFF = "PaysOff", "The split repays its transfers."
    DOES_NOT_PAY_OFF = (
        "DoesNotPayOff",
        "On this traffic the transfers cost more than the split gains.",
        "Compare with `hawk plan`; consider more rails, smaller chunks, or one role Both.",
    )
    NOT_ENOUGH_KNOWN = (
        "NotEnoughKnown",
        "An input of the calculation is unknown.",
        "Provide what the message names.",
    )

    # Drain
    IDLE = "Idle", "No worker is draining."
    WAITING_FOR_REQUESTS = "WaitingForRequests", "A worker waits for its running requests."
    WAITING_FOR_LEASES = "WaitingForLeases", "A worker waits for leases on its blocks to end."
    DRAIN_TIMED_OUT = (
        "DrainTimedOut",
        "A drain reached spec.drain.timeout with work left.",
        "Raise the time-out.",
    )
    OTHER_WORKER_WENT = (
        "OtherWorkerWent",
        "The controller removed a worker other than the drained one.",
        "Use a template, or a target that honours pod-deletion-cost or removes its highest ordinal.",
    )
