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
    AS_EXPECTED = "AsExpected", "What this condition looks at is as it should be."
    NOT_OBSERVED = "NotObserved", "Nothing was observed yet that could tell.", "Wait for the next reconcile."
    NOT_NEEDED = "NotNeeded", "The spec asks for nothing that this condition could be about."
    WAITING = (
        "Waiting",
        "A step that comes first isn't finished.",
        "See the condition that the message names.",
    )

    RECONCILE_FAILED = (
        "ReconcileFailed",
        "The operator met an error of its own with this pool; other pools are not affected.",
        "See the operator's log; it tries again by itself, ever more slowly.",
    )
    SCHEMA_OUTDATED = (
        "SchemaOutdated",
        "The cluster serves an older schema of HawkPool than the operator needs, so limits may get lost.",
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
        "Something else scales a group's workload too: another pool, an autoscaler or a ScaledObject.",
        "Remove the other scaler, or take the group out of this pool; its replicas are left alone.",
    )
    SCALE_TARGET_MISSING = (
        "ScaleTargetMissing",
        "A group's scaleTargetRef names an object that doesn't exist or can't be scaled.",
        "Create it, or correct scaleTargetRef.",
    )
    ROLLING_OUT = (
        "RollingOut",
        "New replicas start; not all are ready.",
        "Wait; see the pods' events if it stays.",
    )
    UNSCHEDULABLE = (
        "Unschedulable",
        "The scheduler finds no node for some pods.",
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
        "Layouts are implied while the engine's own compatibility check is switched off.",
        "State kvLayout for both groups, or switch the check on.",
    )

    # Agents, memory, links
    NO_AGENT = (
        "NoAgent",
        "A worker's node has no live agent.",
        "Install the agent on that node, or see why its pod isn't running.",
    )
    AGENT_LOST = (
        "AgentLost",
        "An agent stopped renewing its Lease, or its peers lost it.",
        "See the agent's pod and node; it is wired again by itself when it is back.",
    )
    AGENT_INCOMPATIBLE = (
        "AgentIncompatible",
        "Two agents speak different protocol versions.",
        "Finish the upgrade of the agents.",
    )
    REGION_MISSING = (
        "RegionMissing",
        "A ready worker has registered no KV region with its node's agent.",
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
        "A peer restarted; what was known of it is void.",
        "Nothing: it is wired again by itself.",
    )
    CANARY_FAILED = (
        "CanaryFailed",
        "The proof transfer over a link failed.",
        "See the peer's and this agent's log.",
    )
    TOO_MANY_PEERS = (
        "TooManyPeers",
        "More agents may exchange KV than one agent may have as peers.",
        "Split the pool, or keep prefill and decode in one topology zone.",
    )
    NOT_TRUSTED = "NotTrusted", "No valid certificate.", "See the CertificateSigningRequest of the agent."

    # Transfers
    VERIFIED = "Verified", "Digests of recent transfers agree on both sides."
    DIGEST_MISMATCH = (
        "DigestMismatch",
        "A transfer arrived with other bytes than were sent.",
        "Its request was failed or recomputed; see the pair's logs, and replace suspect hardware.",
    )
    VERIFICATION_OFF = "VerificationOff", "spec.transfer.verify is Off.", "Set it to Sampled or Always."
    NO_TRANSFERS = "NoTransfers", "No transfer was made yet."

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
        "A query answers with no series.",
        "Check that the engines are scraped and that spec.traffic.engine and selector fit their metrics.",
    )
    SIGNAL_STALE = (
        "SignalStale",
        "The newest sample of a signal is too old.",
        "Check that the engines are scraped.",
    )
    SIGNAL_NOT_A_NUMBER = "SignalNotANumber", "A query answers NaN: usually a mean over no requests."

    # Decisions
    STARTUP = "Startup", "No traffic is known yet: the rules of thumb give the ratio."
    DEMAND = "Demand", "The ratio follows the measured demand."
    STEADY = "Steady", "The computed replicas are within tolerance of the present ones."
    STABILIZING = "Stabilizing", "A change waits for its stabilization window."
    AT_BOUND = (
        "AtBound",
        "A replica or ratio bound limits the decision.",
        "Widen the bound that the message names.",
    )
    AT_BUDGET = "AtBudget", "The budget limits the decision.", "Raise spec.scaling.budget."
    INFEASIBLE = (
        "Infeasible",
        "No replicas within bounds and budget meet the objectives.",
        "Relax an objective, raise the budget, or choose faster devices.",
    )
    METRICS_LOST = (
        "MetricsLost",
        "Metrics are lost: the fallback holds.",
        "See the condition MetricsAvailable.",
    )
    FORCED = (
        "Forced",
        "The annotation hawkpool.dev/force-ratio sets the ratio.",
        "Remove it to compute the ratio.",
    )
    PAUSED = "Paused", "The annotation hawkpool.dev/paused is set.", "Remove it to go on."
    ADVISE_ONLY = "AdviseOnly", "spec.scaling.mode is Advise: decisions are made and not carried out."
    SCALING_OFF = "ScalingOff", "spec.scaling.mode is Off."
    SCALING_FAILED = "ScalingFailed", "A decision couldn't be carried out.", "See the message."
    SCALED = "Scaled", "Replicas were changed."
    ONE_LEG_OUTSTANDING = (
        "OneLegOutstanding",
        "One group was scaled and the other not yet.",
        "Nothing: it is tried again; see the message if it stays.",
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
        "Some input of the arithmetic is unknown.",
        "Fill in what the message names.",
    )

    # Drain
    IDLE = "Idle", "Nothing drains."
    WAITING_FOR_REQUESTS = "WaitingForRequests", "A worker waits for its running requests."
    WAITING_FOR_LEASES = "WaitingForLeases", "A worker waits for leases on its blocks to end."
    DRAIN_TIMED_OUT = (
        "DrainTimedOut",
        "A drain ended by spec.drain.timeout with work left.",
        "Raise the time-out.",
    )
    OTHER_WORKER_WENT = (
        "OtherWorkerWent",
        "The controller removed another worker than the drained one.",
        "Use a template, or a target that heeds pod-deletion-cost or removes its highest ordinal.",
    )
