"""The rights of this service account, asked once instead of being refused again and again.

The operator also runs with rights in one namespace alone. Then HawkNodes and AcceleratorClasses, which belong
to the whole cluster, are out of its reach: it serves with the shipped classes and without wiring, and its
conditions say so. Asking first keeps the log free of refused requests that nobody should have to explain.

This table is the whole of its rights; the chart's roles are its copy. "cluster" needs a ClusterRole,
"served" a role in every served namespace, "system" and "agents" one in the namespace of the system and of the
agents.

| group                    | resource                             | verbs                          | where   |
|--------------------------|--------------------------------------|--------------------------------|---------|
| hawkpool.dev             | hawkpools                            | get list watch                 | served  |
| hawkpool.dev             | hawkpools/status                     | patch                          | served  |
| hawkpool.dev             | hawknodes                            | list watch patch               | cluster |
| hawkpool.dev             | hawknodes/status                     | patch                          | cluster |
| hawkpool.dev             | acceleratorclasses                   | list watch create patch        | cluster |
| apps                     | deployments                          | list watch create patch delete | served  |
| ""                       | pods                                 | list watch patch               | served  |
| policy                   | poddisruptionbudgets                 | get create patch               | served  |
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

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from hawk_kube.errors import NotFoundError
from hawk_kube.kinds import ACCESS_REVIEW, ResourceKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from hawk_kube.client import Client

_KEEP: Final = 300.0
_log = logging.getLogger(__name__)


class Access:
    """Answers "may we", remembered for five minutes; safe for several threads."""

    def __init__(self, api: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[tuple[str, ResourceKind, str, str], tuple[bool, float]] = {}
        self._served: dict[ResourceKind, tuple[bool, float]] = {}
        self._lock = threading.Lock()

    def allowed(self, verb: str, kind: ResourceKind, namespace: str = "", *, subresource: str = "") -> bool:
        """True if `verb` is allowed on all objects of a kind, in a namespace or ("") in the whole cluster.

        Raises ApiError when the API server can't be asked.
        """
        key = (verb, kind, namespace, subresource)
        with self._lock:
            known = self._known.get(key)
        if known is not None and self._clock() - known[1] < _KEEP:
            return known[0]
        attributes = {"verb": verb, "group": kind.group, "resource": kind.plural}
        if subresource:
            attributes["subresource"] = subresource
        if namespace:
            attributes["namespace"] = namespace
        answer = bool(self._api.review(ACCESS_REVIEW, {"resourceAttributes": attributes}).get("allowed"))
        if not answer and (known is None or known[0]):
            _log.info(
                "access: no right to %s %s%s%s",
                verb,
                kind.plural,
                f"/{subresource}" if subresource else "",
                f" in {namespace}" if namespace else "",
            )
        with self._lock:
            self._known[key] = (answer, self._clock())
        return answer

    def served(self, kind: ResourceKind) -> bool:
        """True if the cluster has this kind at all, such as another project's custom resource."""
        with self._lock:
            known = self._served.get(kind)
        if known is not None and self._clock() - known[1] < _KEEP:
            return known[0]
        try:
            document = self._api.document(kind.prefix)
            answer = any(item.get("name") == kind.plural for item in document.get("resources") or ())
        except NotFoundError:
            answer = False
        with self._lock:
            self._served[kind] = (answer, self._clock())
        return answer

    def usable(self, verb: str, kind: ResourceKind, namespace: str = "", *, subresource: str = "") -> bool:
        """True if the kind is served and the verb allowed.

        Raises ApiError when the API server can't be asked just now: not knowing is not a refusal.
        """
        return self.served(kind) and self.allowed(verb, kind, namespace, subresource=subresource)
