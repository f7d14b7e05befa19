"""The kinds that HawkPool uses, and their paths in the API.

Who uses which verb on them stands with the users: `hawk_operator` and `hawk_agent` have tables, of which the
chart's roles are copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from hawk_api.base import GROUP, VERSION


@dataclass(frozen=True)
class ResourceKind:
    """One served resource."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self) -> str:
        """Where discovery describes it: `/apis/apps/v1`, or `/api/v1` for the core group."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The path of its objects in one namespace or in all, of one of them, or of a subresource."""
        parts = [self.prefix]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


HAWK_POOL: Final = ResourceKind(GROUP, VERSION, "HawkPool", "hawkpools")
HAWK_NODE: Final = ResourceKind(GROUP, VERSION, "HawkNode", "hawknodes", namespaced=False)
ACCELERATOR_CLASS: Final = ResourceKind(
    GROUP, VERSION, "AcceleratorClass", "acceleratorclasses", namespaced=False
)

NAMESPACE: Final = ResourceKind("", "v1", "Namespace", "namespaces", namespaced=False)
NODE: Final = ResourceKind("", "v1", "Node", "nodes", namespaced=False)
POD: Final = ResourceKind("", "v1", "Pod", "pods")
CONFIG_MAP: Final = ResourceKind("", "v1", "ConfigMap", "configmaps")
SECRET: Final = ResourceKind("", "v1", "Secret", "secrets")
EVENT: Final = ResourceKind("", "v1", "Event", "events")
DEPLOYMENT: Final = ResourceKind("apps", "v1", "Deployment", "deployments")
DAEMON_SET: Final = ResourceKind("apps", "v1", "DaemonSet", "daemonsets")
DISRUPTION_BUDGET: Final = ResourceKind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
LEASE: Final = ResourceKind("coordination.k8s.io", "v1", "Lease", "leases")
AUTOSCALER: Final = ResourceKind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
SCALED_OBJECT: Final = ResourceKind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
CERTIFICATE_REQUEST: Final = ResourceKind(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    namespaced=False,
)
ACCESS_REVIEW: Final = ResourceKind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
SUBJECT_REVIEW: Final = ResourceKind(
    "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False
)
TOKEN_REVIEW: Final = ResourceKind(
    "authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False
)
