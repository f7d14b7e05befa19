"""What the trust loop touches in the cluster; the chart's roles are a copy of this table.

| group               | resource                                | verbs        | where   |
|---------------------|-----------------------------------------|--------------|---------|
| ""                  | secrets (resourceName of the CA)        | get update   | system  |
| ""                  | configmaps (resourceName of the bundle) | get update   | system  |
| certificates.k8s.io | certificatesigningrequests              | list         | cluster |
| certificates.k8s.io | certificatesigningrequests/approval     | update       | cluster |
| certificates.k8s.io | certificatesigningrequests/status       | update       | cluster |
| certificates.k8s.io | signers (resourceName of the signer)    | approve sign | cluster |

Secret and ConfigMap are made by the chart, empty: so no right to create either is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from hawk_operator.kube.resources import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET: Final = Kind("", "v1", "Secret", "secrets")
CONFIG_MAP: Final = Kind("", "v1", "ConfigMap", "configmaps")
REQUEST: Final = Kind(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    namespaced=False,
)


class Api(Protocol):
    """The part of `hawk_operator.kube.cluster_api.ClusterApi` that the loop uses, with its errors."""

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any]:
        """One object."""

    def document(self, path: str, parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A JSON document by its path and query."""

    def replace(self, kind: Kind, body: dict[str, Any], subresource: str = "") -> dict[str, Any]:
        """Put a whole object or a subresource of it; Conflict when its resourceVersion is not current."""
