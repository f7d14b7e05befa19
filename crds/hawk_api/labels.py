"""Every label and annotation of HawkPool, in one place."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "hawkpool.dev/"

POOL: Final = PREFIX + "pool"
"""Label on children and their pods: the pool, as `hawk_api.names.label_value` gives it."""

GROUP: Final = PREFIX + "group"
"""Label on children and their pods: the group's name."""

ROLE: Final = PREFIX + "role"
"""Label on children and their pods: Prefill, Decode or Both."""

DRAINING: Final = PREFIX + "draining"
"""Label on a pod that takes no new transfers: the router must not choose it."""

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "hawkpool"

PAUSED: Final = PREFIX + "paused"
"""Annotation on a HawkPool, "true": the operator observes and reports, and changes nothing."""

FORCE_RATIO: Final = PREFIX + "force-ratio"
"""Annotation on a HawkPool, "2:3": the ratio to hold in place of the computed one, within all bounds."""

AGENT_RESOURCE: Final = PREFIX + "agent"
"""Extended resource by which pods get the agent's socket without a volume of their node."""

SHIPPED: Final = PREFIX + "shipped"
"""Label on AcceleratorClasses that the operator applies and keeps current."""

SOURCE: Final = PREFIX + "source"
"""Annotation on a shipped AcceleratorClass: where its figures are from."""
