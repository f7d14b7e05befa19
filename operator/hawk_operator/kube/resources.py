"""The kinds that the operator touches, and with which verbs.

This table is the whole of its access; the chart's roles are its copy. "cluster" needs a ClusterRole,
"served" a role in every served namespace, "system" and "agents" one in the namespace of the system and of the
agents.

| group                    | resource                             | verbs                          | where   |
|--------------------------|--------------------------------------|--------------------------------|---------|
| hawkpool.dev             | hawkpools                            | get list watch                 | served  |
| hawkpool.dev             | hawkpools/status                     | patch                          | served  |
| hawkpool.dev             | hawknodes                            | list watch patch               | cluster |
| hawkpool.dev             | acceleratorclasses                   | list watch create patch        | cluster |
| apps                     | deployments                          | list watch create patch delete | served  |
| ""                       | pods                                 | list watch patch               | served  |
| ""                       | configmaps                           | get                            | served  |
| ""                       | events                               | create patch                   | served  |
| apps                     | deployments/scale statefulsets/scale | get patch                      | served  |
| leaderworkerset.x-k8s.io | leaderworkersets/scale               | get patch                      | served  |
| autoscaling              | horizontalpodautoscalers             | list                           | served  |
| keda.sh                  | scaledobjects                        | list                           | served  |
| apps                     | daemonsets (the agents')             | get                            | agents  |
| ""                       | events                               | list                           | agents  |
| coordination.k8s.io      | leases                               | list                           | system  |
| coordination.k8s.io      | leases (leader.hawkpool.dev)         | get update                     | system  |
| coordination.k8s.io      | leases                               | create                         | system  |

Discovery, the OpenAPI document and SelfSubjectAccessReviews are open to every service account. Access that
is marked cluster is optional: the operator asks at start what it may do, and without these rights it serves
its namespace with the shipped classes and no wiring, without a refused request. Scale targets of other kinds
need `get` and `patch` on their /scale; the operator says so in the pool's condition.

Patches are server-side apply (field manager `hawk-operator`), except for the pods' deletion cost and the
counts of events. Creating by apply needs the verb `create` beside `patch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from hawk_api.base import GROUP, VERSION

FIELD_MANAGER: Final = "hawk-operator"


@dataclass(frozen=True)
class Kind:
    """One served resource: where its objects live in the API."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


POOL: Final = Kind(GROUP, VERSION, "HawkPool", "hawkpools")
NODE: Final = Kind(GROUP, VERSION, "HawkNode", "hawknodes", namespaced=False)
CLASS: Final = Kind(GROUP, VERSION, "AcceleratorClass", "acceleratorclasses", namespaced=False)
DEPLOYMENT: Final = Kind("apps", "v1", "Deployment", "deployments")
POD: Final = Kind("", "v1", "Pod", "pods")
DAEMON_SET: Final = Kind("apps", "v1", "DaemonSet", "daemonsets")
CONFIG_MAP: Final = Kind("", "v1", "ConfigMap", "configmaps")
EVENT: Final = Kind("", "v1", "Event", "events")
LEASE: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases")
AUTOSCALER: Final = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
SCALED_OBJECT: Final = Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
ACCESS_REVIEW: Final = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)


@cache
def lightkube_class(kind: Kind) -> Any:
    """The lightkube class for a kind: objects are plain dictionaries, so nothing unknown is lost.

    It isn't in lightkube's registry, where a kind has one class a process and a second maker is refused.
    """
    from lightkube import generic_resource as generic  # noqa: PLC0415
    from lightkube.core.resource import ApiInfo  # noqa: PLC0415

    main, status = (
        (generic.GenericNamespacedResource, generic.GenericNamespacedStatus)
        if kind.namespaced
        else (generic.GenericGlobalResource, generic.GenericGlobalStatus)
    )
    info = generic.create_api_info(kind.group, kind.version, kind.kind, kind.plural)
    under = ApiInfo(
        resource=info.resource,
        parent=info.resource,
        plural=info.plural,
        verbs=["get", "patch", "put"],
        action="status",
    )
    made = type(f"{kind.kind}Status", (status,), {"_api_info": under})
    return type(kind.kind, (main,), {"_api_info": info, "Status": made})
